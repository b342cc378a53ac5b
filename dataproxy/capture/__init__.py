"""Capture: the sealed journal between a gateway and its data proxy.

Owns the records, the segment files and their keys. It is the one part that the gateway imports, so it needs the standard
library, msgspec and cryptography only. It does not parse what it carries: the drain does.
"""

from dataproxy.capture.errors import JournalError, JournalFailed, JournalFull, SegmentDamaged
from dataproxy.capture.journal import Journal
from dataproxy.capture.records import Delivery, RequestHalf, ResponseHalf

__all__ = ["Delivery", "Journal", "JournalError", "JournalFailed", "JournalFull", "RequestHalf", "ResponseHalf", "SegmentDamaged"]
