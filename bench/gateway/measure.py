"""One measurement: load on one gateway for some seconds, and what its processes used in that time."""

import json
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.gateway.cases import Case, encode
from bench.gateway.contestants import Running
from bench.gateway.processes import cores, cpu_s, started
from bench.gateway.programs import command


class RefusedError(RuntimeError):
    """A gateway did not answer every request with 200."""


class LoadReport(msgspec.Struct, frozen=True):
    """What the load generator says. Times in µs; ``first``: until the body's first byte; ``gap``: between two events."""

    requests: int
    errors: int
    error: str
    events: int
    seconds: float
    load_cpu_s: float
    p50_us: float
    p99_us: float
    first_p50_us: float
    first_p99_us: float
    gap_p50_us: float
    gap_p99_us: float


@dataclass(slots=True, frozen=True)
class Sample:
    """One round of one case on one gateway. ``cpu_us`` is the gateway's, for each request."""

    cpu_us: float
    load: LoadReport

    @property
    def event_us(self) -> float:
        """The gateway's CPU µs for each event that the client got, the request's own cost included."""
        return self.cpu_us * self.load.requests / self.load.events if self.load.events else 0.0

    @property
    def requests_s(self) -> float:
        """Answers a second."""
        return self.load.requests / self.load.seconds


def measure(gateway: Running, case: Case, directory: Path, *, seconds: float, warmup_s: float, max_requests: int = 0) -> Sample:
    """Run ``case`` against ``gateway``, for ``seconds`` or ``max_requests``. All of the CPU time used between is counted.

    Raises:
        RefusedError: it answered something else than 200, or broke off.
    """
    request = directory / "request"
    request.write_bytes(encode(case, gateway.key))
    numbers = [gateway.port, case.connections, warmup_s, seconds, max_requests, case.stagger_us]
    with ExitStack() as stack:
        argv = [*command("load"), *map(str, numbers), str(request)]
        load = stack.enter_context(started(argv, cores()[1], directory / "load.log"))
        assert load.stdout is not None and load.stdin is not None
        if load.stdout.readline() != b"warm\n":
            raise RefusedError(f"the load generator ended early on {gateway.name}, see {directory / 'load.log'}")
        before = cpu_s(gateway.pid)
        load.stdin.write(b"go\n")
        load.stdin.flush()
        report = msgspec.json.decode(load.stdout.readline(), type=LoadReport)
        used_s = cpu_s(gateway.pid) - before
    trim(gateway.journal)
    if report.errors or not report.requests:
        raise RefusedError(f"{gateway.name}, {case.name}: {report.errors} errors of {report.requests}; {report.error}")
    return Sample(used_s * 1e6 / report.requests, report)


def trim(journal: Path | None) -> None:
    """Remove segments that are full: nobody drains this journal. The newest one is being written."""
    if journal is not None:
        for segment in sorted(journal.glob("*.seg"))[:-1]:
            segment.unlink()
            (journal / "keys" / f"{segment.stem}.key").unlink(missing_ok=True)


def engine_stats(port: int) -> dict[str, float]:
    """What the mock engine on ``port`` counted: requests, streams, events, finished, lost, cpu_s."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/mock/stats", timeout=5) as answer:
        return dict(json.loads(answer.read()))
