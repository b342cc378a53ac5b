"""Reading segments back with the private key, the open one included, from any record boundary on.

A tail that stops in the middle of a frame is not an error: either it is being written, or its writer died before anybody was told
that it was durable. Imported by the drain, never by the gateway.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dataproxy.capture.errors import KeyUnusable, SegmentDamaged
from dataproxy.capture.layout import MAGIC, SegmentFiles
from dataproxy.capture.records import Half, decode_half
from dataproxy.capture.sealing import unseal
from dataproxy.capture.segment import FRAME, HEAD, NONCE_BYTES, associated_data


@dataclass(slots=True, frozen=True)
class Located:
    """A half and where its frame stands: bytes [start, end) of the segment."""

    half: Half
    tenant: str
    start: int
    end: int


class SegmentReader:
    """Opens one segment's data key once and reads frames from it as they come."""

    def __init__(self, files: SegmentFiles, private_key: bytes) -> None:
        """Unseal the data key.

        Raises:
            KeyUnusable: there is no key, or it is not for this private key.
        """
        self.files = files
        try:
            sealed = files.key.read_bytes()
        except FileNotFoundError as error:
            raise KeyUnusable(f"segment {files.name} has no key file") from error
        self._cipher = AESGCM(unseal(private_key, sealed, files.name.encode()))

    def read(self, offset: int = 0) -> Iterator[Located]:
        """The whole records from byte ``offset`` (0: the first) to the end, in order.

        Raises:
            SegmentDamaged: a whole frame does not check; what stands before it has been yielded.
        """
        position = max(offset, len(MAGIC))
        with self.files.segment.open("rb") as file:
            file.seek(position)
            while len(prefix := file.read(FRAME.size)) == FRAME.size:
                length, crc = FRAME.unpack(prefix)
                payload = file.read(length)
                if len(payload) < length:
                    return
                end = position + FRAME.size + length
                tenant, half = self._open(payload, crc, position)
                yield Located(half, tenant, position, end)
                position = end

    def _open(self, payload: bytes, crc: int, position: int) -> tuple[str, Half]:
        where = f"segment {self.files.name} at byte {position}"
        if zlib.crc32(payload) != crc or len(payload) < HEAD.size:
            raise SegmentDamaged(f"{where}: checksum differs")
        index, tenant_bytes = HEAD.unpack_from(payload)
        tenant = payload[HEAD.size : HEAD.size + tenant_bytes]
        nonce_end = HEAD.size + tenant_bytes + NONCE_BYTES
        nonce = payload[HEAD.size + tenant_bytes : nonce_end]
        try:
            plaintext = self._cipher.decrypt(nonce, payload[nonce_end:], associated_data(self.files.name, index, tenant))
            return tenant.decode(), decode_half(plaintext)
        except (InvalidTag, ValueError) as error:
            raise SegmentDamaged(f"{where}: the seal does not open, or holds no record of ours") from error
