"""What is looked at before anything starts, so that a start fails with a sentence and not in the middle."""

import socket
import tomllib
from pathlib import Path

from deploy.errors import NameTaken, NotEnoughMemory, PortTaken

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def require_free_port(host: str, port: int) -> None:
    """Fail now if nobody could listen on ``host:port``; port 0 is always free.

    Raises:
        PortTaken: it is in use, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            raise PortTaken(
                f"Cannot listen on {host}:{port} ({error}). Choose another port with --port, for example --port {port % 60000 + 1}."
            ) from error


def free_port(host: str = "127.0.0.1") -> int:
    """A port that is free now. Whoever gets it must take it soon."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def require_memory(needed_bytes: int, what: str) -> None:
    """Fail now if less than ``needed_bytes`` can be had.

    Raises:
        NotEnoughMemory: with both figures.
    """
    available = available_memory_bytes()
    if available < needed_bytes:
        raise NotEnoughMemory(
            f"{what} needs about {needed_bytes / 2**30:.1f} GiB of memory and {available / 2**30:.1f} GiB is available. "
            "Close other programs, or start with --no-train, or with --model tiny to try things out."
        )


def require_own_name(model_name: str, external_file: Path) -> None:
    """Fail now if a model of another provider has the name of the one served here: calls would go to either.

    Raises:
        NameTaken: it does. A file that cannot be read is the business of the process that serves it.
    """
    try:
        models = tomllib.loads(external_file.read_text()).get("models", [])
    except (OSError, tomllib.TOMLDecodeError):
        return
    if any(isinstance(model, dict) and model.get("name") == model_name for model in models):
        raise NameTaken(f"{external_file} names a model {model_name}, which is the one served here. Give it another name.")


def available_memory_bytes(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> int:
    """Memory that new processes can have: the machine's, or what is left of a container's limit if that is less."""
    fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
    available = int(fields["MemAvailable"].split()[0]) * 1024
    limit, used = cgroup / "memory.max", cgroup / "memory.current"
    if limit.exists() and used.exists() and (text := limit.read_text().strip()) != "max":
        available = min(available, int(text) - int(used.read_text()))
    return available
