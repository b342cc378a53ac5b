"""A place at the workers, and what taking and giving it back does to the gate and the meters."""

from dataclasses import dataclass

from dataproxy.capture.usage import estimate
from gateway.admission.gate import Gate
from gateway.admission.meter import Meter
from gateway.upstream.connection import Headers


@dataclass(slots=True, eq=False)
class Ticket:
    """A place at the workers; give it to ``leave`` once."""

    gate: Gate
    meters: tuple[Meter, ...] = ()
    charged: int = 0

    @property
    def counts_tokens(self) -> bool:
        """Whether ``leave`` needs to know how many tokens were used."""
        return bool(self.meters)

    def headers(self) -> Headers:
        """``x-ratelimit-*`` for the answer; none for a key without rates."""
        return [header for meter in self.meters for header in meter.headers()]


def charge(meters: tuple[Meter, ...], body_bytes: int) -> int:
    """Charge each meter the estimate for a request of ``body_bytes``, under the board's lock; the estimate. Raises Refused."""
    wanted = estimate(body_bytes)
    for meter in meters:
        meter.charge(wanted)
    return wanted


def start(gate: Gate, meters: tuple[Meter, ...]) -> None:
    """One more call runs."""
    gate.start()
    for meter in meters:
        meter.start()


def stop(gate: Gate, meters: tuple[Meter, ...]) -> None:
    """One call less runs."""
    gate.stop()
    for meter in meters:
        meter.stop()
