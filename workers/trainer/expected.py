"""Which checksum an engine must report that serves a version: merged weights have one, base weights with the adapter beside them
another.

The record keeps that of the form in which the version was swapped in. An engine may hold the other: it was started from the
version's directory, or adapters were switched on or off since. Then it is computed from the version's own files. Place in the
path: step 3.
"""

from __future__ import annotations

from pathlib import Path

from atdp.versions import PolicyVersion
from workers.inference.client import AdapterVersion, expected_checksum, is_together
from workers.trainer.adapter import FOLDER
from workers.trainer.version_directory import read_manifest


def adapter_of(version: PolicyVersion) -> AdapterVersion | None:
    """The adapter in a version's directory, and the weights that it belongs to; None where it has none."""
    directory = Path(version.directory)
    record = read_manifest(directory).adapter
    return None if record is None else AdapterVersion(directory / FOLDER, record.base, directory.with_name(record.base))


def on_record(version: PolicyVersion, beside: bool) -> str | None:
    """The checksum on record, where it is of this form: an adapter `beside` its base weights, or merged weights."""
    known = version.checksum
    return known if known is not None and is_together(known) == beside else None


def expected(version: PolicyVersion, found: str, dtype: str) -> str:
    """What an engine of that dtype must report, in the form of the checksum that it did report."""
    if known := on_record(version, is_together(found)):
        return known
    adapter = adapter_of(version)
    if is_together(found):
        return adapter.checksum(dtype) if adapter is not None else f"{version.version} has no adapter"
    return expected_checksum(Path(version.directory), dtype)
