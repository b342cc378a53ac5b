"""The names of downloads: what they hold and the day, whatever is asked of them."""

import re

import pytest

from dataproxy.api.answers import attachment

AT_US = 1_796_062_000_000_000


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        (("evidence", "acme"), "headrace-evidence-acme-20261130.zip"),
        (("evidence", "acme", "trajectory-tr-0a1b"), "headrace-evidence-acme-trajectory-tr-0a1b-20261130.zip"),
        (("evidence", "a/b", "session-ticket 17 工单"), "headrace-evidence-a_b-session-ticket_17-20261130.zip"),
        (("evidence", '../x"\r\nset-cookie: a=b', "..."), "headrace-evidence-x_set-cookie_a_b-20261130.zip"),
        (("evidence", "x" * 500), f"headrace-evidence-{'x' * 80}-20261130.zip"),
    ],
)
def test_a_download_is_named_by_what_it_holds_and_the_day_in_safe_characters(parts: tuple[str, ...], named: str) -> None:
    (header,) = attachment(*parts, ending="zip", at_us=AT_US).values()
    assert header == f'attachment; filename="{named}"' and re.fullmatch(r"[A-Za-z0-9._-]+", named)
