"""Errors of the journal.

JournalError
├── JournalFull      no room for another answer: refuse the call before it starts, and say when to come back
├── JournalFailed    a write or fsync failed; what was not acknowledged may be lost, and nothing more is taken
├── SegmentDamaged   a record inside a segment is not what was written
└── KeyUnusable      a segment's data key is missing, destroyed, or sealed for somebody else
"""


class JournalError(Exception):
    """Root of the journal's errors."""


class JournalFull(JournalError):
    """Too little free space, or too many bytes wait for the disk, to promise room for one more answer."""


class JournalFailed(JournalError):
    """The journal met an I/O error or was closed. Fatal: restart the writer, which opens a new segment."""


class SegmentDamaged(JournalError):
    """A whole record failed its checksum or its seal: bytes were changed after they were written."""


class KeyUnusable(JournalError):
    """The sealed data key is missing, destroyed, or was not sealed for this private key and segment."""
