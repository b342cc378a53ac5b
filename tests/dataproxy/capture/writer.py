"""A process that writes exchanges until it is killed, and notes each one that the journal acknowledged.

Run as ``python writer.py JOURNAL PUBLIC_KEY_HEX ACKNOWLEDGED_FILE``; the test kills it at a random moment.
"""

import asyncio
import os
import sys
from pathlib import Path

from dataproxy.capture import Journal
from tests.dataproxy.capture.halves import request_half, response_half


async def converse(journal: Journal, acknowledged: int, lane: int) -> None:
    """One exchange after another; the id is noted only after ``finish`` returned."""
    for number in range(1_000_000):
        event_id = f"{lane:04d}-{number:08d}"
        journal.begin(request_half(event_id))
        await asyncio.sleep(0)
        await journal.finish(response_half(event_id, body=os.urandom(number % 3000)))
        os.write(acknowledged, f"{event_id}\n".encode())


async def main() -> None:
    """Eight conversations at once."""
    directory, public_key, log = Path(sys.argv[1]), bytes.fromhex(sys.argv[2]), sys.argv[3]
    journal = Journal.open(directory, public_key, max_segment_bytes=200_000)
    acknowledged = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    async with asyncio.TaskGroup() as group:
        for lane in range(8):
            group.create_task(converse(journal, acknowledged, lane))


if __name__ == "__main__":
    asyncio.run(main())
