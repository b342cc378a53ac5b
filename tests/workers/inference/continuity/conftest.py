"""Real SGLang with the plug-in, a model that ends its answers, Qwen3's chat template and a tool parser."""

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from transformers import PreTrainedTokenizerFast

from tests.engine_fixture import MODEL_NAME, RunningEngine, Tapped, start_engine
from tests.workers.inference.continuity.families import TEMPLATES
from tests.workers.inference.continuity.stopping_model import make_stopping

LAUNCH = ("--chat-template", str(TEMPLATES / "qwen3.jinja"), "--tool-call-parser", "qwen25", "--reasoning-parser", "none")
PREFIXES = {"/v1/chat/completions": "chatcmpl-", "/v1/messages": "msg_", "/v1/responses": "resp_"}


@dataclass
class Served:
    """The running engine, called as the gateway calls it."""

    engine: RunningEngine
    http: httpx.Client
    tokenizer: PreTrainedTokenizerFast
    rids: list[str] = field(default_factory=list)

    def call(self, path: str, salt: str | None, **body: Any) -> httpx.Response:
        """One call under a new rid, the last of `rids`; max_tokens is left to the caller."""
        self.rids.append(f"{PREFIXES[path]}continuity{len(self.rids)}")
        headers = {"x-headrace-rid": self.rids[-1], "x-headrace-record": "1", "anthropic-version": "2023-06-01"}
        if salt is not None:
            headers["x-headrace-cache-salt"] = salt
        response = self.http.post(path, json={"model": MODEL_NAME, **body}, headers=headers)
        assert response.status_code == 200, response.text
        return response

    def tapped(self) -> Tapped:
        """What the scheduler had for the last call."""
        [line] = self.engine.tapped(self.rids[-1])
        return line

    def counts(self) -> dict[str, Any]:
        counts: dict[str, Any] = self.http.get("/headrace/engine").json()["continuity"]
        return counts

    def stock(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> list[int]:
        """The prompt ids that the engine itself gives these messages, asked without our salt."""
        self.call("/v1/chat/completions", None, messages=messages, tools=tools, max_tokens=1)
        return self.tapped().prompt_ids


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One engine for all tests of this folder."""
    directory = tmp_path_factory.mktemp("continuity")
    model_dir = make_stopping(directory)
    tap = directory / "tap.jsonl"
    tap.touch()
    process, url = start_engine(model_dir, directory / "engine.log", {"HEADRACE_TEST_TAP": str(tap)}, *LAUNCH)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(model_dir)
    try:
        with httpx.Client(base_url=url, timeout=120) as http:
            yield Served(RunningEngine(url, model_dir, tap), http, tokenizer)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def events(text: str) -> list[dict[str, Any]]:
    """The JSON events of a stream, our record left out."""
    blocks = [block for block in text.split("\n\n") if "event: headrace.record" not in block]
    lines = [line.removeprefix("data: ") for block in blocks for line in block.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]
