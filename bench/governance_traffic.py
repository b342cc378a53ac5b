"""The same support traffic under each policy of what becomes of a value: sent through the real drain; what may train is counted.

For ``bench.governance``. Tickets are those of ``examples/triage``: about a third hold an e-mail address, a telephone number, a card
or an IBAN. A conversation has one to three turns, and half of the answers to a ticket with a value repeat it. Seeded.
"""

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, and_, func, select

from bench.drain import NoRedactors
from bench.drain_traffic import exchange
from dataproxy.capture import Journal
from dataproxy.client.types import Consent, KeyInfo
from dataproxy.client.vault_types import VaultAsk
from dataproxy.digests import KeyedDigests
from dataproxy.drain.redaction import Redactors
from dataproxy.keyfiles import ensure
from dataproxy.pseudonyms.substitute import pseudonymized
from dataproxy.redact import TokenBytes
from dataproxy.redact.detector import Detector
from dataproxy.redact.policy import RedactionPolicy
from dataproxy.services import Services, TenantRedactors, build_services
from dataproxy.settings import Settings
from dataproxy.store.compression import decompress
from dataproxy.store.consents import add_consent
from dataproxy.store.schema import eligibility, quarantine, token_segment
from dataproxy.vault.approvals import ask_approval, decide_approval
from examples.triage.tickets import tickets

TENANT = "bench"
_SYSTEM = "You are a support agent. Answer the customer's last message in a few sentences."
_ANSWERS = (
    "Thank you for writing. I have looked at it, and we take care of it today.",
    "I am sorry for the trouble. A colleague sends you a new one this week, and you pay nothing for it.",
    "This was our mistake. The money is on its way and should be there in three to five days.",
)
_MORE = (
    "And when will that be?",
    "Thanks. Is there anything that I should send you?",
    "Fine, but please hurry, I wait since Monday.",
)
_KINDS = ("EMAIL", "PHONE", "CARD", "IBAN")
_LIMIT_S = 5.0


@dataclass(slots=True, frozen=True)
class Vocabulary:
    """How text becomes ids. ``encode`` knows ``<|im_start|>`` and ``<|im_end|>``, ``table`` is id → bytes."""

    encode: Callable[[str], list[int]]
    table: TokenBytes
    mask_id: int


@dataclass(slots=True, frozen=True)
class Terms:
    """What becomes of a value. ``policy`` None: nothing, which no tenant can choose. ``vault``: raw tokens are kept."""

    policy: RedactionPolicy | None
    vault: bool = False


TERMS = {
    "nothing redacted": Terms(None),
    "mask": Terms(RedactionPolicy()),
    "pseudonymize": Terms(RedactionPolicy(pseudonymize=True)),
    "vault": Terms(RedactionPolicy(), vault=True),
    "drop": Terms(RedactionPolicy(actions=dict.fromkeys(_KINDS, "drop"))),
}


@dataclass(slots=True, frozen=True)
class Turn:
    """One call: what was asked, what was answered, and whether either holds a value."""

    messages: list[dict[str, Any]]
    answer: str
    personal: bool


def conversations(count: int) -> Iterator[list[Turn]]:
    """``count`` conversations, one for each ticket, from the first again after the last."""
    rng = random.Random(4)
    for ticket in islice(cycle(tickets("train")), count):
        messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": ticket.text}]
        turns = list[Turn]()
        for number in range(rng.randrange(1, 4)):
            answer = rng.choice(_ANSWERS)
            if ticket.personal and number == 0 and rng.random() < 0.5:
                answer += f" We have noted {ticket.personal[0]}."
            turns.append(Turn(list(messages), answer, bool(ticket.personal)))
            messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": rng.choice(_MORE)}]
        yield turns


def trained_share(terms: Terms, vocabulary: Vocabulary, count: int) -> dict[str, Any]:
    """What may train of ``count`` conversations under ``terms``.

    ``trainable`` is the share of calls, ``trainable_with_value`` that of those in whose conversation there is a value,
    ``trained_tokens`` the share of sampled tokens that a loss is computed on, ``altered_tokens`` that of all tokens which were
    overwritten.
    """
    with tempfile.TemporaryDirectory() as directory:
        files = ensure(Path(directory) / "config")
        settings = Settings(data_dir=Path(directory) / "data", config_dir=files.directory)
        services = build_services(settings, files, _redactors(terms, vocabulary))
        try:
            _permit(services, terms.vault)
            journal = Journal.open(settings.data_dir / "journal", files.journal_public(), "relaxed")
            personal = asyncio.run(_write(journal, terms, vocabulary, count))
            journal.close()
            while services.drain.run_once():
                pass
            with services.database.read() as connection:
                return _counted(connection, personal, terms.vault)
        finally:
            services.database.close()


def _redactors(terms: Terms, vocabulary: Vocabulary) -> Redactors:
    policy = terms.policy
    return (
        NoRedactors() if policy is None else TenantRedactors(bytes(32), vocabulary.mask_id, vocabulary.table, lambda _: (1, policy))
    )


def _permit(services: Services, vault: bool) -> None:
    """Consent to train and, for the vault, one person's request and another's word."""
    other = KeyInfo("key-b", TENANT, "", "reviewer", [], 0, None, None)
    with services.database.write() as connection:
        add_consent(connection, Consent(TENANT, True, True, "a measurement"), "key-a")
        if vault:
            asked = ask_approval(connection, VaultAsk(TENANT, 7, "a measurement"), "key-a", services.now_us())
            decide_approval(connection, asked, "approve", "a measurement", other, services.now_us())


async def _write(journal: Journal, terms: Terms, vocabulary: Vocabulary, count: int) -> set[str]:
    """Journal the calls; gives the ids of those in whose conversation there is a value."""
    replaces = terms.policy is not None and terms.policy.pseudonymize
    detector, digests, personal = Detector(bytes(32)), KeyedDigests(bytes(32)), set[str]()
    for number, turns in enumerate(conversations(count)):
        for turn in turns:
            said, surrogates = _replaced(detector, digests, f"s{number}", turn) if replaces else (turn, [])
            asked, got = exchange(said.messages, said.answer, encode_text=vocabulary.encode)
            journal.begin(msgspec.structs.replace(asked, surrogates=surrogates))
            await journal.finish(got)
            if turn.personal:
                personal.add(asked.event_id)
    return personal


def _replaced(detector: Detector, digests: KeyedDigests, session: str, turn: Turn) -> tuple[Turn, list[str]]:
    """The turn as the model sees it, and what stands for values in it."""
    body = msgspec.json.encode({"messages": [*turn.messages, {"role": "assistant", "content": turn.answer}]})
    made = pseudonymized(detector, digests, session, body, _LIMIT_S)
    *messages, answer = msgspec.json.decode(made.body)["messages"]
    return Turn(messages, answer["content"], turn.personal), [form.surrogate for form in made.forms]


def _counted(connection: Connection, personal: set[str], vault: bool) -> dict[str, Any]:
    same = [eligibility.c[name] == token_segment.c[name] for name in ("tenant", "event_id", "choice")]
    columns = [token_segment.c[name] for name in ("event_id", "num_prompt", "num_output", "num_altered", "output_altered")]
    query = select(*columns, eligibility.c.eligible, eligibility.c.reason).join(token_segment, and_(*same))
    rows = connection.execute(query).all()
    held = [row for row in rows if row.event_id in personal]
    trained = sum(row.num_output - (0 if vault else sum(decompress(row.output_altered))) for row in rows if row.eligible)
    return {
        "calls": len(rows),
        "calls_with_value": len(held),
        "trainable": _share(sum(row.eligible for row in rows), len(rows)),
        "trainable_with_value": _share(sum(row.eligible for row in held), len(held)),
        "trained_tokens": _share(trained, sum(row.num_output for row in rows)),
        "altered_tokens": _share(sum(row.num_altered for row in rows), sum(row.num_prompt + row.num_output for row in rows)),
        "reasons": dict(Counter(row.reason for row in rows)),
        "quarantined": connection.execute(select(func.count()).select_from(quarantine)).scalar_one(),
    }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0
