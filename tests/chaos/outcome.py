"""What must hold after a death, as engine and store say it themselves: whole weights, nothing stuck, nothing trained twice."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from sqlalchemy import select

from dataproxy.client import SyncDataProxyClient
from dataproxy.store.schema import training_use
from tests.forker import forker
from tests.workers.trainer.world import World
from workers.inference.client import expected_checksum

WORDS = "a call that outlives a death"
_PATIENCE_S = 120.0


class CallInFlight:
    """A stream that the engine at ``url`` has begun; on a thread of its own."""

    def __init__(self, url: str, words: str = WORDS) -> None:
        self.text, self.is_done, self.error = "", False, ""
        self._url, self._words = url, words
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        assert self._begun.wait(_PATIENCE_S) and self.text and not self.is_done, self.error

    def end(self) -> "CallInFlight":
        """Wait for its end: ``is_done`` where it came whole, else the ``error`` that its client saw."""
        self._thread.join(_PATIENCE_S)
        assert not self._thread.is_alive(), "a call hangs"
        return self

    def _read(self) -> None:
        body = {"model": "tiny", "stream": True, "messages": [{"role": "user", "content": self._words}]}
        try:
            with httpx.stream("POST", f"{self._url}/v1/chat/completions", json=body, timeout=_PATIENCE_S) as answer:
                for line in answer.iter_lines():
                    if line == "data: [DONE]":
                        self.is_done = True
                    elif line.startswith("data: "):
                        self._take(json.loads(line.removeprefix("data: ")))
        except httpx.TransportError as error:
            self.error = repr(error)
        finally:
            self._begun.set()

    def _take(self, chunk: dict[str, list[dict[str, dict[str, str]]]]) -> None:
        for choice in chunk["choices"]:
            self.text += choice["delta"].get("content") or ""
            if self.text:
                self._begun.set()


@contextmanager
def held_call(world: World) -> Iterator[CallInFlight]:
    """A call of the world's engine that cannot end before the block does; then it must."""
    forker()  # what it imports may take longer than a call may be silent
    released = threading.Event()

    async def gate() -> None:
        while not released.is_set():  # noqa: ASYNC110  it is set by another thread
            await asyncio.sleep(0.002)

    world.engine.model.token_gate = gate
    call = CallInFlight(world.engine_url)
    try:
        yield call
    finally:
        world.engine.model.token_gate = None
        released.set()
        call.end()


def assert_whole(url: str, client: SyncDataProxyClient) -> None:
    """An engine that samples does so from all the weights of the version that it names, which is on record."""
    state = httpx.get(f"{url}/headrace/engine").json()
    if not state["paused"]:
        assert checksum(url) == expected_checksum(Path(client.get_version(state["weight_version"]).directory))


def assert_settled(url: str, client: SyncDataProxyClient, version: str) -> None:
    """The engine serves ``version``, which is what the record says; it holds its weights, is not paused, and answers."""
    state, serving = httpx.get(f"{url}/headrace/engine").json(), client.serving_version()
    assert (state["paused"], state["update"], state["weight_version"], serving.version) == (False, "none", version, version)
    assert checksum(url) == serving.checksum == expected_checksum(Path(serving.directory))
    asked = {"model": "tiny", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
    assert httpx.post(f"{url}/v1/chat/completions", json=asked).status_code == 200


def checksum(url: str) -> str:
    """Of the weights that the engine holds now, by itself."""
    return str(httpx.post(f"{url}/weights_checker", json={"action": "checksum"}).json()["per_engine_checksum"])


def assert_trained_once(world: World, client: SyncDataProxyClient) -> None:
    """No trajectory was trained twice, and each version that ever served learned from just those of its batch's manifest."""
    uses = world.proxy.rows(select(training_use.c.version, training_use.c.trajectory_id))
    assert max(Counter(use.trajectory_id for use in uses).values(), default=1) == 1
    served = [one for one in client.list_versions() if one.batch_id and one.state in ("serving", "retired")]
    manifests = {one.version: sorted(client.get_batch(one.batch_id or "").trajectories) for one in served}
    assert manifests == {name: sorted(u.trajectory_id for u in uses if u.version == name) for name in {u.version for u in uses}}
