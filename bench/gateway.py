"""Measures what the gateway costs: CPU µs a request and a streamed event, small and large prompts, recording off and on.

``python -m bench.gateway [--seconds 5]`` prints one JSON line last and keeps it in ``bench/results/gateway.json``. CPU time is
the whole process's (its journal thread too); the plain gateway of ``gateway_servers`` is measured in the same run, and ``ratio`` is
against it. Times at the client are left out: they belong to a quiet machine.
"""

import argparse
import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import uvloop

from bench.gateway_servers import NUM_EVENTS
from dataproxy.keyfiles import ensure

RESULT = Path(__file__).parent / "results" / "gateway.json"
KEYS = {"on": "hr_bench_on", "off": "hr_bench_off"}
_CONNECTIONS = 16
_SMALL: dict[str, object] = {
    "model": "tiny",
    "messages": [{"role": "system", "content": "s" * 120}, {"role": "user", "content": "u" * 120}],
}
_LARGE: dict[str, object] = {
    "model": "tiny",
    "messages": [{"role": "system", "content": "s" * 12_000}, {"role": "user", "content": "line\n" * 4_000}],
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gateway", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    seconds: float = parser.parse_args().seconds
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="hr-"))
        stack.callback(shutil.rmtree, directory)
        result = {"bench": "gateway", **_measure_all(stack, directory, seconds)}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result) + "\n")
    print(json.dumps(result))


def _measure_all(stack: ExitStack, directory: Path, seconds: float) -> dict[str, float]:
    engine, port, plain = _free_port(), _free_port(), _free_port()
    (directory / "run").mkdir()
    ensure(directory / "config")
    ours = {
        "DATA_DIR": directory,
        "CONFIG_DIR": directory / "config",
        "PORT": port,
        "ENGINE_URLS": f'["http://127.0.0.1:{engine}"]',
    }
    env = {f"HEADRACE_GATEWAY_{name}": str(value) for name, value in ours.items()}
    stack.enter_context(_process("bench.gateway_servers", "engine", str(engine)))
    stack.enter_context(_process("bench.gateway_servers", "keys", str(directory / "run" / "dataproxy.sock"), *KEYS.values()))
    plain_process = stack.enter_context(_process("bench.gateway_servers", "plain", str(plain), str(engine)))
    process = stack.enter_context(_process("gateway", env=env))
    _wait_ready(f"http://127.0.0.1:{port}/ready", 200)
    _wait_ready(f"http://127.0.0.1:{plain}/", 404)
    result: dict[str, float] = {}
    for name, key in KEYS.items():
        result[f"us_small_{name}"] = _cpu_us(process, port, key, _SMALL, seconds)
        result[f"us_36kb_{name}"] = _cpu_us(process, port, key, _LARGE, seconds)
        result[f"us_event_{name}"] = round(_cpu_us(process, port, key, {**_SMALL, "stream": True}, seconds) / NUM_EVENTS, 1)
    result["us_small_plain"] = _cpu_us(plain_process, plain, "", _SMALL, seconds)
    result["us_event_plain"] = round(_cpu_us(plain_process, plain, "", {**_SMALL, "stream": True}, seconds) / NUM_EVENTS, 1)
    result["ratio_small"] = round(result["us_small_on"] / result["us_small_plain"], 3)
    result["rss_mb"] = _rss_mb(process)
    return result


def _cpu_us(process: subprocess.Popen[bytes], port: int, key: str, body: dict[str, object], seconds: float) -> float:
    """CPU µs of ``process`` for each of the requests that it answers within ``seconds``, after a warm-up."""
    request = _encode(key, body)
    uvloop.run(_load(port, request, seconds / 5))
    before = _cpu_s(process)
    num_requests: int = uvloop.run(_load(port, request, seconds))
    return round((_cpu_s(process) - before) * 1e6 / num_requests, 1)


def _cpu_s(process: subprocess.Popen[bytes]) -> float:
    """User and system seconds so far: fields 14 and 15 of proc(5)'s stat, in clock ticks."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return float(int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss_mb(process: subprocess.Popen[bytes]) -> float:
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def _encode(key: str, body: dict[str, object]) -> bytes:
    raw = json.dumps(body, separators=(",", ":")).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(raw)}\r\n\r\n".encode() + raw


async def _load(port: int, request: bytes, seconds: float) -> int:
    """The number of answers that 16 kept connections got."""
    end = asyncio.get_running_loop().time() + seconds
    return sum(await asyncio.gather(*(_connection(port, request, end) for _ in range(_CONNECTIONS))))


async def _connection(port: int, request: bytes, end: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0
    while asyncio.get_running_loop().time() < end:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"the server answered {head[:100]!r}")
        length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
        await (reader.readexactly(int(length)) if length else reader.readuntil(b"\r\n0\r\n\r\n"))
        count += 1
    writer.close()
    return count


@contextmanager
def _process(module: str, *arguments: str, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments], env={**os.environ, **(env or {})}, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _wait_ready(url: str, status: int) -> None:
    with httpx.Client(transport=httpx.HTTPTransport(retries=20)) as client:
        while client.get(url).status_code != status:
            pass


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


if __name__ == "__main__":
    main()
