"""What the engine had, what the store keeps and what the trainer is given are the same, id for id.

The reference is the tests' own tap in the engine's scheduler process, which shares no code with Headrace's plug-in.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anthropic
import msgspec
import numpy as np
import openai
import pytest

from atdp.events import TokenRecord
from atdp.samples import Lease, TokenSequence, TrainSample, TurnSpan
from atdp.versions import version_index
from dataproxy.client import SyncDataProxyClient
from dataproxy.client.review import ReviewClient
from dataproxy.client.types import LeaseRequest, NewKey, RedactionSet
from dataproxy.client.vault_types import VaultAsk
from dataproxy.redact.tokens import TokenBytes
from deploy.launcher.running import RunningStack
from tests.e2e import oracle
from tests.e2e.conftest import TappedStack
from tests.engine_fixture import Tapped
from workers.trainer.credit import PerTurn
from workers.trainer.rows import build_rows, unique_masks
from workers.trainer.vault import open_sample

pytestmark = pytest.mark.e2e

PROMPTS = [
    "Sort this ticket.",
    "把这张工单分类:包裹没到 📦🚚",
    "Ünïcödé — naïve café, 𝔣𝔯𝔞𝔨𝔱𝔲𝔯, العربية, ไทย",
    "a" * 300,
    'tab\tnewline\n"quotes" \\ \u200b',
]


@dataclass(frozen=True)
class Call:
    """One answer as the agent got it."""

    completion_id: str
    num_choices: int = 1


@dataclass(frozen=True)
class Tokens:
    """One choice's ids and the version of each output token, from whichever side."""

    prompt_ids: list[int]
    output_ids: list[int]
    versions: list[int]


@pytest.fixture(scope="module")
def calls(tapped_stack: TappedStack) -> list[Call]:
    """Streams, JSON answers, a conversation of three turns, n = 2, every dialect: by the SDKs, all rewarded."""
    stack = tapped_stack.stack
    key = stack.new_agent("acme", "bot", training=True, reason="exactness test")
    made: list[Call] = []
    with openai.OpenAI(base_url=f"{stack.gateway}/v1", api_key=key, max_retries=0) as agent:
        for number, prompt in enumerate(PROMPTS):
            made.append(stream(agent, stack.model, [user(prompt)]) if number % 2 else whole(agent, stack.model, [user(prompt)]))
        made += conversation(agent, stack.model)
        made.append(whole(agent, stack.model, [user("two answers, please")], n=2))
        made += completions(agent, stack.model) + responses(agent, stack.model) + messages(stack.gateway, key, stack.model)
        for call in made:
            agent.post("/feedback", body={"target": call.completion_id, "value": 1.0}, cast_to=object)
    ids = [oracle.event_id(call.completion_id) for call in made]
    oracle.until(lambda: set(ids) <= stored_ids(stack), "storage of every call", stack)
    return made


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def whole(agent: openai.OpenAI, model: str, messages: list[dict[str, str]], n: int = 1) -> Call:
    answer = agent.chat.completions.create(model=model, messages=messages, max_tokens=24, temperature=1.0, n=n)  # type: ignore[call-overload]
    assert "headrace_record" not in answer.model_extra
    return Call(answer.id, n)


def stream(agent: openai.OpenAI, model: str, messages: list[dict[str, str]]) -> Call:
    chunks = list(agent.chat.completions.create(model=model, messages=messages, max_tokens=24, temperature=1.0, stream=True))  # type: ignore[call-overload]
    assert chunks[-1].choices[0].finish_reason is not None
    return Call(chunks[0].id)


def conversation(agent: openai.OpenAI, model: str) -> list[Call]:
    """Three turns, each answer sent back as history."""
    messages, made = [user("first")], []
    for text in ("second", "third 漢字", "last"):
        answer = agent.chat.completions.create(model=model, messages=messages, max_tokens=12, temperature=1.0)  # type: ignore[call-overload]
        made.append(Call(answer.id))
        messages += [{"role": "assistant", "content": answer.choices[0].message.content}, user(text)]
    return made


def completions(agent: openai.OpenAI, model: str) -> list[Call]:
    two = agent.completions.create(model=model, prompt=PROMPTS[2], max_tokens=12, n=2)
    chunks = list(agent.completions.create(model=model, prompt=PROMPTS[1], max_tokens=12, stream=True))
    return [Call(two.id, 2), Call(chunks[0].id)]


def responses(agent: openai.OpenAI, model: str) -> list[Call]:
    """A stored conversation of three turns, the second streamed."""
    first = agent.responses.create(model=model, input=PROMPTS[1], max_output_tokens=12, temperature=1.0)
    asked: Any = {"model": model, "max_output_tokens": 12, "temperature": 1.0}
    events = list(agent.responses.create(input="second", previous_response_id=first.id, stream=True, **asked))
    second = events[-1].response
    third = agent.responses.create(input=PROMPTS[2], previous_response_id=second.id, **asked)
    assert events[0].response.id == second.id
    return [Call(first.id), Call(second.id), Call(third.id)]


def messages(gateway: str, key: str, model: str) -> list[Call]:
    """Two turns, whole and streamed, under the key's other header."""
    asked: Any = {"model": model, "max_tokens": 12, "system": "Sort.", "extra_body": {"temperature": 1.0}}
    with anthropic.Anthropic(base_url=gateway, api_key=key, max_retries=0) as agent:
        first = agent.messages.create(messages=[user(PROMPTS[2])], **asked)
        said = "".join(block.text for block in first.content if block.type == "text")
        history = [user(PROMPTS[2]), {"role": "assistant", "content": said}, user("again")]
        with agent.messages.stream(messages=history, **asked) as stream:
            second = stream.get_final_message()
    return [Call(first.id), Call(second.id)]


def stored_ids(stack: RunningStack) -> set[str]:
    return {row[0] for row in oracle.rows(stack, "SELECT event_id FROM event WHERE kind = 'model_call'")}


def from_tap(tap: Path, call: Call) -> list[Tokens]:
    """What the scheduler had, sorted: the samples of one call have no order there."""
    seen = [Tapped(**json.loads(line)) for line in tap.read_text().splitlines()]
    mine = [one for one in seen if one.rid.startswith(call.completion_id)]
    if call.num_choices > 1:  # the engine fills its prefix cache first, by a request that samples nothing
        mine = [one for one in mine if one.output_ids]
    tokens = [Tokens(one.prompt_ids, one.output_ids, [version_index(name) for name in one.versions]) for one in mine]
    return sorted(tokens, key=lambda one: one.output_ids)


def from_store(stack: RunningStack, call: Call) -> list[Tokens]:
    with stack.client() as client:
        records = client.get_event(oracle.event_id(call.completion_id)).tokens
    return sorted(map(record_tokens, records), key=lambda one: one.output_ids)


def record_tokens(record: TokenRecord) -> Tokens:
    assert not any(record.prompt_altered) and not any(record.output_altered)
    arrays = [np.frombuffer(data, "<i4").tolist() for data in (record.prompt_ids, record.output_ids, record.versions)]
    assert len(record.logprobs) == len(record.output_ids)
    return Tokens(*arrays)


def lease_all(stack: RunningStack, num_choices: int) -> Lease:
    """Every sampled choice, over as many leases as it takes: they settle one after another."""
    key = (stack.paths.config_dir / "trainer.key").read_text().strip()
    wanted = LeaseRequest(max_trajectories=1000, ttl_s=60, version_now="v000000", max_staleness=0, max_reuse=1)
    samples: list[Lease] = []

    def leased() -> bool:
        with SyncDataProxyClient(stack.paths.socket, key) as client:
            lease = client.lease(wanted)
        samples.append(lease)
        return sum(len(sequence.turns) for one in samples for s in one.samples for sequence in s.sequences) >= num_choices

    oracle.until(leased, "a lease of every rewarded trajectory", stack)
    return Lease(samples[0].lease_id, samples[0].deadline_us, [sample for lease in samples for sample in lease.samples])


def assert_same(reference: list[Tokens], found: list[Tokens], num_choices: int) -> None:
    assert len(reference) == num_choices
    assert all(one.prompt_ids and one.output_ids for one in reference)
    assert found == reference


def test_the_store_holds_the_ids_and_versions_that_the_scheduler_had(tapped_stack: TappedStack, calls: list[Call]) -> None:
    stack, tap = tapped_stack
    for call in calls:
        assert_same(from_tap(tap, call), from_store(stack, call), call.num_choices)


def test_one_changed_id_is_seen(tapped_stack: TappedStack, calls: list[Call]) -> None:
    stack, tap = tapped_stack
    reference, found = from_tap(tap, calls[0]), from_store(stack, calls[0])
    for field in ("prompt_ids", "output_ids", "versions"):
        changed = getattr(found[0], field).copy()
        changed[-1] += 1
        with pytest.raises(AssertionError):
            assert_same(reference, [replace(found[0], **{field: changed})], 1)


@pytest.fixture(scope="module")
def lease(tapped_stack: TappedStack, calls: list[Call]) -> Lease:
    """What a trainer is given of all those calls, once."""
    return lease_all(tapped_stack.stack, sum(call.num_choices for call in calls))


Had = Callable[[TurnSpan], list[Tokens]]


def had_by(tap: Path, calls: list[Call]) -> Had:
    """What the scheduler had, by turn of a batch."""
    by_event = {oracle.event_id(call.completion_id): from_tap(tap, call) for call in calls}
    return lambda turn: by_event[turn.event_id]


def assert_turns(ids: list[int], sequence: TokenSequence, had: Had) -> None:
    """Each turn that `ids` reach to is what the scheduler had, with all that came before it."""
    for turn in sequence.turns:
        if turn.end <= len(ids):
            versions = sequence.version_indices()[turn.start : turn.end].tolist()
            assert Tokens(ids[: turn.start], ids[turn.start : turn.end], versions) in had(turn)


def assert_batch(sample: TrainSample, had: Had) -> None:
    """A leased trajectory and the trainer's rows of it hold the scheduler's ids, and each sampled token is trained on once."""
    for sequence in sample.sequences:
        sampled = np.zeros(len(sequence), np.bool_)
        for turn in sequence.turns:
            sampled[turn.start : turn.end] = True
        assert (sequence.mask() == sampled).all()
        assert_turns(sequence.ids().tolist(), sequence, had)
    rows = build_rows([sample], [PerTurn(1.0)], head_index=0)
    sources = [one for one, mask in zip(sample.sequences, unique_masks(sample), strict=True) if mask.any()]
    for row, sequence in zip(rows, sources, strict=True):
        assert_turns(row.token_ids.tolist(), sequence, had)
    trained = sum(int(row.trained.sum()) for row in rows)
    assert trained == len({(t.event_id, t.choice, i) for s in sample.sequences for t in s.turns for i in range(t.start, t.end)})


def test_the_trainers_batch_holds_the_ids_that_the_scheduler_had_and_trains_on_sampled_tokens_alone(
    tapped_stack: TappedStack, calls: list[Call], lease: Lease
) -> None:
    had = had_by(tapped_stack.tap, calls)
    for sample in lease.samples:
        assert_batch(sample, had)
    seen = {turn.event_id for sample in lease.samples for sequence in sample.sequences for turn in sequence.turns}
    assert seen == {oracle.event_id(call.completion_id) for call in calls}


def test_one_changed_id_of_the_trainers_batch_is_seen(tapped_stack: TappedStack, calls: list[Call], lease: Lease) -> None:
    had = had_by(tapped_stack.tap, calls)
    sample = max(lease.samples, key=lambda one: max(len(sequence.turns) for sequence in one.sequences))
    sequence = max(sample.sequences, key=lambda one: len(one.turns))
    assert len(sequence.turns) > 1
    for turn in sequence.turns:
        for place in (turn.start - 1, turn.end - 1):  # of what was asked, and of what was sampled
            ids = sequence.ids().copy()
            ids[place] += 1
            changed = msgspec.structs.replace(sequence, token_ids=ids.tobytes())
            with pytest.raises(AssertionError):
                assert_batch(msgspec.structs.replace(sample, sequences=[changed]), had)
            with pytest.raises(AssertionError):
                assert_turns(ids.tolist(), sequence, had)


PERSONAL = "write to ann.bo@acme-corp.io, card 4111 1111 1111 1111, call +1 (212) 867-5309"
VALUES = ("ann.bo@acme-corp.io", "4111 1111 1111 1111", "867-5309")


def lease_of(stack: RunningStack, tenant: str) -> Lease:
    """The one trajectory of ``tenant``, once it is ready."""
    key = (stack.paths.config_dir / "trainer.key").read_text().strip()
    wanted = LeaseRequest(max_trajectories=9, ttl_s=60, version_now="v000000", max_staleness=0, max_reuse=1, tenant=tenant)
    found: list[Lease] = []

    def leased() -> bool:
        with SyncDataProxyClient(stack.paths.socket, key) as client:
            found.append(client.lease(wanted))
        return bool(found[-1].samples)

    oracle.until(leased, f"a lease of {tenant}'s trajectory", stack)
    return found[-1]


def test_rows_of_the_vault_are_what_the_scheduler_had_where_redaction_masked(tapped_stack: TappedStack) -> None:
    stack, tap = tapped_stack
    key = stack.new_agent("sealed", "bot", training=True, reason="exactness test")
    with stack.client() as client:
        other = client.create_key(NewKey("sealed", "", "reviewer")).key
        operator = (stack.paths.config_dir / "admin.key").read_text().strip()
    with ReviewClient(stack.paths.socket, operator) as asker, ReviewClient(stack.paths.socket, other) as approver:
        asked = asker.ask_approval(VaultAsk("sealed", 1, "exactness test"))
        approver.decide_approval(asked.approval_id, "approve", "exactness test")
    with openai.OpenAI(base_url=f"{stack.gateway}/v1", api_key=key, max_retries=0) as agent:
        call = whole(agent, stack.model, [user(PERSONAL)])
        agent.post("/feedback", body={"target": call.completion_id, "value": 1.0}, cast_to=object)
    (sample,) = lease_of(stack, "sealed").samples
    (masked,), (row,) = sample.sequences, open_sample(sample).sequences
    (turn,) = row.turns
    ids = row.ids().tolist()
    found = Tokens(ids[: turn.start], ids[turn.start : turn.end], row.version_indices()[turn.start : turn.end].tolist())
    assert from_tap(tap, call) == [found] and masked.ids().tolist() != ids
    assert not any(row.altered) and row.mask()[turn.start : turn.end].all()


def test_with_pseudonyms_the_engine_has_no_value_and_nothing_is_masked(tapped_stack: TappedStack) -> None:
    stack, tap = tapped_stack
    key = stack.new_agent("veiled", "bot", training=True, reason="exactness test")
    with stack.client() as client:
        client.set_redaction(RedactionSet({"pseudonymize": True}, "exactness test", "veiled"))
        oracle.until(lambda: any(row.pseudonymize for row in client.key_table()), "the policy", stack)
    tokens = TokenBytes.from_file(stack.model_dir / "tokenizer.json")
    turns = [user(PERSONAL)]
    with openai.OpenAI(base_url=f"{stack.gateway}/v1", api_key=key, max_retries=0) as agent:
        oracle.until(lambda: veils(agent, stack, tap, tokens), "the gateway's next key table", stack)
        for number in range(2):
            call = stream(agent, stack.model, turns) if number else whole(agent, stack.model, turns)
            (had,) = from_tap(tap, call)
            seen = tokens.decode(np.array(had.prompt_ids, np.int32))[0]
            assert not any(value.encode() in seen for value in VALUES) and b"@example." in seen
            oracle.until(lambda name=call.completion_id: {oracle.event_id(name)} <= stored_ids(stack), "storage", stack)
            assert from_store(stack, call) == [had]  # where a mask would be seen
            turns += [{"role": "assistant", "content": "noted"}, user("and ann.bo@acme-corp.io again")]


def veils(agent: openai.OpenAI, stack: RunningStack, tap: Path, tokens: TokenBytes) -> bool:
    """Whether the gateway has taken the policy up."""
    (had,) = from_tap(tap, whole(agent, stack.model, [user(VALUES[0])]))
    return b"@example." in tokens.decode(np.array(had.prompt_ids, np.int32))[0]
