"""One open segment: its data key, its file, and how a record is framed.

A frame is ``length u32 · crc u32 · seq u64 · tenant length u16 · tenant · nonce 12 · ciphertext``, little-endian; ``length`` counts
what follows the CRC. The CRC covers the same bytes but for the ciphertext before its tag: the seal proves the rest, and its
associated data binds segment, index and tenant, so no record can be moved.
"""

import fcntl
import os
import struct
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dataproxy.capture.layout import MAGIC, SegmentFiles, fsync_directory
from dataproxy.capture.sealing import seal

FRAME = struct.Struct("<II")
HEAD = struct.Struct("<QH")
NONCE_BYTES = 12


TAG_BYTES = 16
_MAX_PIECES = 1024
"""What one system call takes (``IOV_MAX``)."""


def associated_data(segment: bytes, index: int, tenant: bytes) -> bytes:
    """What a record's seal binds."""
    return b"%b\0%d\0%b" % (segment, index, tenant)


def checksum(before: bytes, ciphertext: bytes | bytearray) -> int:
    """The CRC of a frame: ``before`` is what stands between CRC and ciphertext."""
    return zlib.crc32(ciphertext[-TAG_BYTES:], zlib.crc32(before))


class Segment:
    """A segment that this process writes. ``frame`` is the sealer's, in the loop; ``write``, ``sync``, ``close`` are the thread's.

    ``size`` and ``index`` count what has been sealed.
    """

    def __init__(self, directory: Path, public_key: bytes, writer: str, number: int) -> None:
        """Create key file and segment, durable and locked before anybody can see them.

        Raises:
            OSError: the disk refuses.
        """
        self.created = time.monotonic()
        self.size = len(MAGIC)
        self.index = 0
        self.num_unsynced_bytes = 0
        self.timed = False
        """Whether somebody's clock runs that will roll it."""
        self.files = SegmentFiles(directory, f"{time.time_ns() // 1000:014x}-{writer}-{number:06d}")
        self._name = self.files.name.encode()
        data_key = AESGCM.generate_key(bit_length=256)
        self._cipher = AESGCM(data_key)
        self._descriptor = os.open(self.files.temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        _write_durably(self.files.key, seal(public_key, data_key, self.files.name.encode()))
        os.write(self._descriptor, MAGIC)
        os.fsync(self._descriptor)
        self.files.temporary.rename(self.files.segment)
        fsync_directory(directory)

    def frame(self, tenant: str, plaintext: bytes) -> bytearray:
        """The sealed frame of the next record. Every frame must be written, in order."""
        name, index = tenant.encode(), self.index
        nonce = index.to_bytes(NONCE_BYTES, "little")
        before = HEAD.pack(index, len(name)) + name + nonce
        start = FRAME.size + len(before)
        frame = bytearray(start + len(plaintext) + TAG_BYTES)
        with memoryview(frame) as view:
            self._cipher.encrypt_into(nonce, plaintext, associated_data(self._name, index, name), view[start:])
        frame[FRAME.size : start] = before
        FRAME.pack_into(frame, 0, len(frame) - FRAME.size, checksum(before, frame[-TAG_BYTES:]))
        self.index = index + 1
        self.size += len(frame)
        return frame

    def write(self, frames: Sequence[bytes | bytearray], *, durably: bool = False) -> None:
        """Append ``frames`` in one piece; ``durably``: return once they, and all before them, are on the disk."""
        pieces = frames if len(frames) <= _MAX_PIECES else [b"".join(frames)]
        size = sum(map(len, pieces))
        in_one = durably and not self.num_unsynced_bytes
        written = os.pwritev(self._descriptor, pieces, 0, os.RWF_DSYNC if in_one else 0)  # appends: the file is open for that
        if written < size:
            in_one = False
            self._write_rest(b"".join(pieces), written)
        self.num_unsynced_bytes += size
        if durably and not in_one:
            self.sync()
        elif durably:
            self.num_unsynced_bytes = 0

    def _write_rest(self, data: bytes, written: int) -> None:
        while written < len(data):
            written += os.write(self._descriptor, data[written:])

    def sync(self) -> None:
        """Return once everything written is on the disk."""
        os.fdatasync(self._descriptor)
        self.num_unsynced_bytes = 0

    def close(self) -> None:
        """Let go of the file: a reader then knows that it ends here."""
        os.close(self._descriptor)


def _write_durably(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    fsync_directory(path.parent)
