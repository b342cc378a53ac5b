"""Reading segments back with the private key, the open one included, from any record boundary on.

A tail that stops in the middle of a frame is not an error: either it is being written, or its writer died before anybody was told
that it was durable. Imported by the drain, never by the gateway.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dataproxy.capture.errors import KeyUnusable, SegmentDamaged
from dataproxy.capture.layout import MAGIC, SegmentFiles
from dataproxy.capture.records import Half, decode_halves
from dataproxy.capture.sealing import unseal
from dataproxy.capture.segment import FRAME, HEAD, NONCE_BYTES, associated_data, checksum

_LOOK_AHEAD = 8
_NOTHING = bytes(FRAME.size)
"""What a file system shows of a tail whose length was synced and whose bytes were not."""


@dataclass(slots=True, frozen=True)
class Located:
    """A half, and where the frame that holds it begins; reading may go on at ``end``: behind the frame for the last half in it, at
    its beginning for the others."""

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
        self._name = files.name.encode()
        self._cipher = AESGCM(unseal(private_key, sealed, self._name))

    def read(self, offset: int = 0) -> Iterator[Located]:
        """The whole records from byte ``offset`` (0: the first) to the end, in order.

        Raises:
            SegmentDamaged: a whole frame does not check; what stands before it has been yielded.
        """
        position = max(offset, len(MAGIC))
        with self.files.segment.open("rb") as file:
            if not MAGIC.startswith(file.read(len(MAGIC))):
                raise SegmentDamaged(f"segment {self.files.name} is of another format")
            file.seek(position)
            while len(prefix := file.read(FRAME.size)) == FRAME.size and prefix != _NOTHING:
                length, crc = FRAME.unpack(prefix)
                payload = file.read(length)
                if len(payload) < length:
                    return
                end = position + FRAME.size + length
                tenant, halves = self._open(payload, crc, position)
                for half in halves[:-1]:
                    yield Located(half, tenant, position, position)
                for half in halves[-1:]:
                    yield Located(half, tenant, position, end)
                position = end

    def tears_inside(self, offset: int) -> bool:
        """Whether a whole record stands behind byte ``offset``, where none begins: then it is no torn tail, but damage.

        The records that follow are known by their numbers.
        """
        with self.files.segment.open("rb") as file:
            file.seek(offset)
            rest = file.read()
        if len(rest) < FRAME.size + HEAD.size:
            return False
        index, _ = HEAD.unpack_from(rest, FRAME.size)
        return any(self._is_record(rest, number) for number in range(index + 1, index + 1 + _LOOK_AHEAD))

    def _is_record(self, rest: bytes, index: int) -> bool:
        at = rest.find(index.to_bytes(8, "little"), FRAME.size)
        if at < FRAME.size:
            return False
        length, crc = FRAME.unpack_from(rest, at - FRAME.size)
        try:
            self._open(rest[at : at + length], crc, at)
        except SegmentDamaged:
            return False
        return True

    def _open(self, payload: bytes, crc: int, position: int) -> tuple[str, list[Half]]:
        where = f"segment {self.files.name} at byte {position}"
        if len(payload) < HEAD.size:
            raise SegmentDamaged(f"{where}: too short")
        index, tenant_bytes = HEAD.unpack_from(payload)
        nonce_at = HEAD.size + tenant_bytes
        sealed_at = nonce_at + NONCE_BYTES
        tenant, sealed = payload[HEAD.size : nonce_at], payload[sealed_at:]
        if checksum(payload[:sealed_at], sealed) != crc:
            raise SegmentDamaged(f"{where}: checksum differs")
        try:
            plaintext = self._cipher.decrypt(payload[nonce_at:sealed_at], sealed, associated_data(self._name, index, tenant))
            return tenant.decode(), decode_halves(plaintext)
        except (InvalidTag, ValueError) as error:
            raise SegmentDamaged(f"{where}: the seal does not open, or holds no record of ours") from error
