"""The demo's tickets: every personal value in them goes, from text and from tokens, and nothing else does."""

import pytest

from dataproxy.redact import Exchange, Redactor
from examples.triage.tickets import Ticket, tickets
from tests.dataproxy.redact.encoder import Encoder


@pytest.mark.slow
def test_every_ticket_loses_its_personal_values_and_nothing_else(redactor: Redactor, encoder: Encoder) -> None:
    every: list[Ticket] = [*tickets("train"), *tickets("held_out")]
    assert sum(len(ticket.personal) for ticket in every) > 100
    for ticket in every:
        redacted = redactor.redact_exchange(
            Exchange(
                request={"messages": [{"role": "user", "content": ticket.text}]},
                response={"choices": [{"message": {"content": f'{{"note": "{ticket.text}"}}'}}]},
                prompt_ids=encoder.chat(("user", ticket.text)),
                output_ids=[encoder.ids(f'{{"note": "{ticket.text}"}}<|im_end|>')],
            )
        )
        assert redacted.prompt_ids is not None
        left = f"{redacted.request}{redacted.response}{encoder.text(redacted.prompt_ids)}{encoder.text(redacted.output_ids[0])}"
        assert not [value for value in ticket.personal if value in left]
        assert len(redacted.spans) == 2 * len(ticket.personal), ticket.text
