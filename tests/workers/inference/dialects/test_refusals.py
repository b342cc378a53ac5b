"""A wrong value is the caller's mistake, a 400 in the dialect's form, and never the engine's failure or its end."""

import asyncio
import itertools
import json
import uuid
from collections import Counter
from typing import Any

import httpx
import pytest

from tests.engine_fixture import MODEL_NAME, RunningEngine
from tests.workers.inference.dialects.wrong_values import ODD, PLAIN, cases
from workers.inference.dialects.refusals import MAX_BIAS, as_refusal, check_biases
from workers.inference.recording import check_lengths, check_prompt_ids, part_rids

NUM_AT_ONCE = 8


def headers() -> dict[str, str]:
    return {"content-type": "application/json", "x-headrace-rid": f"chatcmpl-{uuid.uuid4().hex}", "x-headrace-record": "1"}


async def ask(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> httpx.Response:
    return await client.post(path, content=json.dumps({"model": MODEL_NAME, **body}), headers=headers())


def is_told(path: str, answer: httpx.Response) -> bool:
    """Whether a refusal is in the dialect's form and says something."""
    said = answer.json()
    if path.startswith("/v1/messages"):
        return said["type"] == "error" and len(said["error"]["message"]) > 2
    error = said["error"] if path == "/v1/responses" else said
    return error["code"] == 400 and len(error["message"]) > 2


@pytest.mark.engine
@pytest.mark.parametrize("num_odd", [2, pytest.param(len(ODD) + 1, marks=pytest.mark.soak)])
async def test_no_wrong_value_of_any_field_is_more_than_a_400(sglang_engine: RunningEngine, num_odd: int) -> None:
    limits = httpx.Limits(max_connections=NUM_AT_ONCE)
    async with httpx.AsyncClient(base_url=sglang_engine.url, timeout=300, limits=limits) as client:
        api = (await client.get("/openapi.json")).json()
        schemas = {path: api["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"] for path in PLAIN}
        named = {path: schema["$ref"].rpartition("/")[2] for path, schema in schemas.items()}
        fields = {path: list(api["components"]["schemas"][name]["properties"]) for path, name in named.items()}
        left, seen, bad = iter(cases(fields, num_odd)), Counter[tuple[str, int]](), []

        async def asker() -> None:
            for path, what, body in left:
                answer = await ask(client, path, body)
                seen[path, answer.status_code] += 1
                if answer.status_code not in (200, 400) or (answer.status_code == 400 and not is_told(path, answer)):
                    bad.append(f"{path} {what}: {answer.status_code} {answer.text[:200]}")

        await asyncio.gather(*(asker() for _ in range(NUM_AT_ONCE)))
        assert not bad, "\n".join(bad)
        assert all(seen[path, 400] > 20 for path in PLAIN) and sum(seen.values()) > 500, seen
        assert (await client.get("/ready")).status_code == 200


KNOWN = {
    "a format that is a list": ("/v1/chat/completions", {"response_format": [None]}),
    "a parameter of the template's function": ("/v1/chat/completions", {"chat_template_kwargs": {"tokenize": False}}),
    "a template of one's own": ("/v1/chat/completions", {"chat_template_kwargs": {"chat_template": "x"}}),
    "an infinite bias": ("/v1/chat/completions", {"logit_bias": {"260": 1e308}}),
    "a bias of minus infinity": ("/v1/completions", {"logit_bias": {"260": -1e308}}),
    "a grammar that is none": ("/v1/chat/completions", {"ebnf": "x"}),
    "a schema that is none": ("/v1/completions", {"json_schema": "x"}),
    "ids that the vocabulary lacks": ("/v1/embeddings", {"input": [10**9]}),
    "several inputs": ("/v1/embeddings", {"input": ["a", "b"]}),  # of a model that does not embed
    "an input without tokens": ("/v1/embeddings", {"input": [[]]}),
}


@pytest.mark.engine
@pytest.mark.parametrize("stream", [False, True])
async def test_what_once_was_a_500_or_worse_is_a_400(sglang_engine: RunningEngine, stream: bool) -> None:
    async with httpx.AsyncClient(base_url=sglang_engine.url, timeout=300) as client:
        for name, (path, wrong) in KNOWN.items():
            answer = await ask(client, path, {**PLAIN[path], "stream": stream, **wrong})
            assert answer.status_code == 400 and is_told(path, answer), f"{name}: {answer.status_code} {answer.text[:300]}"
            assert answer.headers["content-type"] == "application/json"
        assert (await ask(client, "/v1/chat/completions", PLAIN["/v1/chat/completions"])).status_code == 200


def test_every_place_meets_every_odd_value_in_the_long_form_and_some_in_the_short() -> None:
    fields = {path: list(plain) for path, plain in PLAIN.items()}
    long, short = (list(cases(fields, number)) for number in (len(ODD) + 1, 2))
    assert len(long) > 5 * len(short) > 1000
    assert all(json.dumps(body) for _, _, body in itertools.chain(long, short))


@pytest.mark.parametrize("bias", [1e308, -1e308, float("nan"), float("inf"), MAX_BIAS * 2, "5", None, [1]])
def test_biases_that_no_distribution_survives_are_refused(bias: Any) -> None:
    with pytest.raises(ValueError, match="logit_bias must lie between"):
        check_biases({"1": 2.0, "2": bias})


def test_other_biases_pass() -> None:
    for biases in (None, {}, {"1": -100, "2": 100.0, "3": -MAX_BIAS}, [1]):
        check_biases(biases)


def test_a_refusal_of_the_engines_is_told_in_its_words_and_a_stumble_by_its_name() -> None:
    refused = ValueError("too long")
    assert as_refusal(refused) is refused
    assert str(as_refusal(KeyError("tokenize"))) == "a value of the request has a wrong type or form (KeyError: 'tokenize')"


class Inputs:
    """What the engine's request object has of inputs."""

    def __init__(self, text: Any = None, input_ids: Any = None) -> None:
        self.text, self.input_ids = text, input_ids


def test_each_input_to_embed_has_an_id_of_its_own_where_there_are_several() -> None:
    assert part_rids("r", Inputs("a")) == part_rids("r", Inputs(input_ids=[1, 2])) == "r"
    assert part_rids("r", Inputs(["a"])) == ["r_0"]
    assert part_rids("r", Inputs(input_ids=[[1], [2, 3]])) == ["r_0", "r_1"]


def test_ids_are_checked_wherever_they_stand() -> None:
    for prompts in ([5, 10], [-1], [[1], [10]]):
        with pytest.raises(ValueError, match="between 0 and 9"):
            check_prompt_ids(prompts, 10)
    for prompts in ([], [[]], [[1], []]):
        with pytest.raises(ValueError, match="no tokens"):
            check_lengths(prompts)
    for prompts in (None, [1], [[1], [9]]):
        check_prompt_ids(prompts, 10)
        check_lengths(prompts)
