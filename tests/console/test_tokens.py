"""The strip of tokens: what is learned from, how much of it stands on one page, and how heavy that is."""

import numpy as np

from atdp.events import TokenRecord
from dataproxy.console.rendering import rendered
from dataproxy.console.tokens import PAGE, strip


def record(num: int, altered: set[int]) -> TokenRecord:
    ids, logprobs, versions = np.arange(num, dtype="<i4"), np.full(num, -0.5, "<f4"), np.zeros(num, "<i4")
    mask = np.array([i in altered for i in range(num)], np.uint8)
    return TokenRecord(0, b"", ids.tobytes(), logprobs.tobytes(), versions.tobytes(), b"", mask.tobytes(), "stop")


def test_every_token_that_redaction_altered_says_so_in_text_and_no_other() -> None:
    page = rendered("tokens_piece.html", strips=[strip(record(40, {3, 4, 39}))], event_id="e", row=None, start=0, why_not="")
    assert page.count("<small>altered</small>") == 3 and page.count("<small>-0.50</small>") == 37
    assert "can be learned from</dt><dd>37</dd>" in page and "altered by redaction</dt><dd>3</dd>" in page


def test_an_answer_of_many_tokens_is_shown_a_page_at_a_time() -> None:
    num = 32_768
    long = strip(record(num, set(range(0, num, 2))), PAGE)
    assert ([token.index for token in long.tokens] == list(range(PAGE, 2 * PAGE))) and long.next_start == 2 * PAGE
    assert long.num_altered == num // 2
    row = type("Row", (), {"tenant": "acme"})
    assert len(rendered("tokens_piece.html", strips=[long], event_id="e", row=row, start=PAGE, why_not="")) < PAGE * 200
