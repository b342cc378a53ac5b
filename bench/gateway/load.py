"""The load generator on raw asyncio, for machines without a compiler: same arguments and output as ``native/load.c``.

``python -m bench.gateway.load PORT CONNECTIONS WARMUP_S SECONDS MAX_REQUESTS STAGGER_US REQUEST_FILE``. It costs several times
what the C one does, so requests a second and latencies are its own as much as the gateway's; CPU time is not touched by that.
"""

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import uvloop


@dataclass(slots=True)
class Drive:
    """One part of the run: when it ends, and what came of it. Times in µs."""

    end: float
    max_requests: int
    started: int = 0
    events: int = 0
    received: int = 0
    error: str = ""
    errors: int = 0
    latencies: list[float] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)

    def may_start(self) -> bool:
        """Whether another request may be sent; counts it."""
        if time.monotonic() >= self.end or (self.max_requests and self.started >= self.max_requests):
            return False
        self.started += 1
        return True


async def connection(port: int, request: bytes, drive: Drive, wait_s: float) -> None:
    """One kept connection in a closed loop."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.sleep(wait_s)
    while drive.may_start():
        sent = time.monotonic()
        writer.write(request)
        try:
            await _answer(reader, drive, sent)
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            drive.errors += 1
            drive.error = drive.error or f"{type(error).__name__}: {error}"[:200]
            break
        drive.latencies.append((time.monotonic() - sent) * 1e6)
    writer.close()


async def _answer(reader: asyncio.StreamReader, drive: Drive, sent: float) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not head.startswith(b"http/1.1 200"):
        raise ValueError(f"the server answered {head[:100]!r}")
    length = head.partition(b"content-length:")[2].split(b"\r\n")[0]
    if length:
        first = await reader.readexactly(1)
        drive.firsts.append((time.monotonic() - sent) * 1e6)
        drive.received += len(first + await reader.readexactly(int(length) - 1))
        return
    begun, event_at = False, 0.0
    while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
        data = await reader.readexactly(size + 2)
        if not begun:
            drive.firsts.append((time.monotonic() - sent) * 1e6)
        begun = True
        drive.received += size
        for _ in range(data.count(b"\n\n")):
            now = time.monotonic()
            drive.events += 1
            if event_at:
                drive.gaps.append((now - event_at) * 1e6)
            event_at = now
    await reader.readuntil(b"\r\n")


async def drive_all(port: int, connections: int, request: bytes, drive: Drive, stagger_us: int) -> None:
    """Every connection, started one after the other."""
    async with asyncio.TaskGroup() as group:
        for index in range(connections):
            group.create_task(connection(port, request, drive, index * stagger_us / 1e6))


def _percentile(values: list[float], part: float) -> float:
    return round(sorted(values)[int((len(values) - 1) * part)], 1) if values else 0.0


def main(port: int, connections: int, warmup_s: float, seconds: float, max_requests: int, stagger_us: int, path: str) -> None:
    """Warm up, wait for a line, measure, print."""
    request = Path(path).read_bytes()
    uvloop.run(drive_all(port, connections, request, Drive(time.monotonic() + warmup_s, 0), stagger_us))
    print("warm", flush=True)
    sys.stdin.readline()
    cpu_s, begun = time.process_time(), time.monotonic()
    drive = Drive(begun + seconds, max_requests)
    uvloop.run(drive_all(port, connections, request, drive, stagger_us))
    report = {
        "requests": len(drive.latencies),
        "errors": drive.errors,
        "error": drive.error,
        "events": drive.events,
        "bytes": drive.received,
        "seconds": time.monotonic() - begun,
        "load_cpu_s": time.process_time() - cpu_s,
        "p50_us": _percentile(drive.latencies, 0.5),
        "p99_us": _percentile(drive.latencies, 0.99),
        "first_p50_us": _percentile(drive.firsts, 0.5),
        "first_p99_us": _percentile(drive.firsts, 0.99),
        "gap_p50_us": _percentile(drive.gaps, 0.5),
        "gap_p99_us": _percentile(drive.gaps, 0.99),
    }
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    port, connections, warmup, seconds, limit, stagger, path = sys.argv[1:]
    main(int(port), int(connections), float(warmup), float(seconds), int(limit), int(stagger), path)
