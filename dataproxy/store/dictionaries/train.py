"""Trains a dictionary on synthetic events: ``python -m dataproxy.store.dictionaries.train 1795``.

Every word comes from the lists below and every id from a seeded generator: no recorded text is ever looked at.
"""

import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

_SIZE_BYTES = 32 << 10
_SAMPLES = 6000
_PROSE = re.split(
    r"\s+",
    """the of and to in is you that it he was for on are as with his they I at be this have from or one had by word but not
what all were we when your can said there use an each which she do how their if will up other about out many then them
these so some her would make like him into time has look two more write go see number no way could people my than
first water been call who its now find long down day did get come made may part over new sound take only little work
know place year live me back give most very after thing our just name good sentence man think say great where help
through much before line right too mean old any same tell boy follow came want show also around form three small set
put end does another well large must big even such because turn here why ask went order ticket refund invoice shipping
delivery account password customer support issue request error file function test return value please thank sorry
address payment missing late broken update install version server database query result message user agent tool I'm
don't it's can't The This You We Please Here Sure Thanks However Therefore because although first second finally""",
)
_CODE = (
    "def main() -> None:\n    ", "import os\nimport json\n", "return self._value\n", "for item in items:\n        ",
    "if not found:\n    raise", "class Config:\n    ", "async def run(self, ", "SELECT id, name FROM users WHERE ",
    "Traceback (most recent call last):\n  File \"", "git commit -m ", "```python\n", "```\n",
    "{\"type\": \"object\", \"properties\": {", "cat README.md\n", "ls -la\n", "total 48\n", "pytest -q\n",
    "const value = await fetch(", "function (error) {", "</div>\n", "public static void ", "INFO ", "WARNING ", "ERROR ",
    "http://", "https://",
)  # fmt: skip
_CHINESE = "你好请问我们需要帮助谢谢订单地址电话问题可以什么时候收到货物退款公司服务系统文件测试结果错误信息用户数据时间今天明天"
_DIALECTS = (
    ("chat", "/v1/chat/completions", "chatcmpl-"),
    ("messages", "/v1/messages", "msg_"),
    ("responses", "/v1/responses", "resp_"),
)
_TOOLS = ("search", "read_file", "run_command", "write_file", "get_weather", "query_database", "list_orders", "send_message")


def main(number: int) -> None:
    """Write ``<number>.zdict`` beside this file."""
    rng = random.Random(number)
    samples: list[bytes | bytearray | memoryview] = [
        json.dumps(sample, ensure_ascii=False, separators=(",", ":")).encode() for sample in _samples(rng)
    ]
    dictionary = zstandard.train_dictionary(_SIZE_BYTES, samples, dict_id=number, level=3)
    (Path(__file__).parent / f"{number}.zdict").write_bytes(dictionary.as_bytes())


def _samples(rng: random.Random) -> Iterator[dict[str, Any] | list[Any]]:
    for _ in range(_SAMPLES):
        yield _message(rng)
        if rng.random() < 0.6:
            yield _body(rng)
        if rng.random() < 0.05:
            yield [_tool(rng, name) for name in rng.sample(_TOOLS, 3)]


def _message(rng: random.Random) -> dict[str, Any]:
    role = rng.choice(("system", "user", "user", "assistant", "assistant", "tool"))
    content = _text(rng)
    if role == "tool":
        return {"role": role, "tool_call_id": _call_id(rng), "content": content}
    if role == "assistant" and rng.random() < 0.4:
        arguments = json.dumps({rng.choice(("path", "query", "command", "id", "city")): _prose(rng, 3)})
        function = {"name": rng.choice(_TOOLS), "arguments": arguments}
        return {"role": role, "content": None, "tool_calls": [{"id": _call_id(rng), "type": "function", "function": function}]}
    if rng.random() < 0.1:
        return {
            "role": role,
            "content": [{"type": "text", "text": content}, {"type": "image_url", "image_url": {"url": "data:image/png"}}],
        }
    return {"role": role, "content": content}


def _text(rng: random.Random) -> str:
    kind, length = rng.random(), rng.randrange(4, 120)
    if kind < 0.15:
        return "".join(rng.choice(_CODE) + _prose(rng, 4) for _ in range(length // 8 + 1))
    if kind < 0.25:
        return "".join(rng.choices(_CHINESE, k=length))
    surrogate = f" <{rng.choice(('EMAIL', 'PHONE', 'IP', 'PERSON', 'CARD', 'API_KEY', 'URL'))}_{rng.randrange(1, 5)}> "
    return _prose(rng, length) + (surrogate if rng.random() < 0.3 else ". ") + _prose(rng, length // 2)


def _prose(rng: random.Random, length: int) -> str:
    return " ".join(rng.choices(_PROSE, k=length))


def _call_id(rng: random.Random) -> str:
    return f"call_{rng.randbytes(12).hex()}"


def _tool(rng: random.Random, name: str) -> dict[str, Any]:
    properties = {rng.choice(("path", "query", "command", "limit")): {"type": "string", "description": _prose(rng, 6)}}
    parameters = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": _prose(rng, 12), "parameters": parameters}}


def _body(rng: random.Random) -> dict[str, Any]:
    """The parts of a model call's event as the store keeps them."""
    dialect, path, prefix = rng.choice(
        (
            ("chat", "/v1/chat/completions", "chatcmpl-"),
            ("messages", "/v1/messages", "msg_"),
            ("responses", "/v1/responses", "resp_"),
        )
    )
    names = [rng.randbytes(16).hex() for _ in range(rng.randrange(1, 6))]
    prompt, output = rng.randrange(20, 3000), rng.randrange(1, 500)
    return {
        "o": {"messages": names},
        "a": {"messages": [rng.randbytes(16).hex()]},
        "y": {"status": 200, "delivery": "complete", "finish_reasons": [rng.choice(("stop", "length", "tool_calls"))]},
        "m": {
            "model": "tiny",
            "completion_id": prefix + rng.randbytes(24).hex(),
            "dialect": dialect,
            "path": path,
            "key_id": rng.randbytes(8).hex(),
            "harness": rng.randbytes(16).hex(),
            "request": {"model": "tiny", "stream": True, "temperature": 0.7, "max_tokens": 1024, "top_p": 0.95, "n": 1},
            "headers": {"user-agent": "OpenAI/Python 2.14.0", "x-stainless-retry-count": "0"},
            "worker": "http://127.0.0.1:30000",
            "latency_us": {"first_byte": rng.randrange(10**5), "total": rng.randrange(10**7)},
            "engine": {"name": "sglang", "version": "0.5.23"},
            "sampling": {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "grammar": False, "max_new_tokens": 256},
            "versions": [[["v000000", 0, output]]],
            "usage": {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output},
        },
    }


if __name__ == "__main__":
    main(int(sys.argv[1]))
