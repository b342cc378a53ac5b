"""Which of an agent's headers are kept, and which the engine sees."""

from gateway.headers import forwarded_lines, recorded_headers

HEADERS = [
    (b"authorization", b"Bearer hr_secret"),
    (b"cookie", b"a=b"),
    (b"user-agent", b"shop/2"),
    (b"x-headrace-release", b"shop-2026.11"),
    (b"x-priority", b"9"),
]


def test_the_release_that_an_agent_declares_is_recorded_and_no_secret() -> None:
    assert recorded_headers(HEADERS) == {"user-agent": "shop/2", "x-headrace-release": "shop-2026.11"}


def test_the_engine_sees_no_header_that_is_ours_or_that_steers_it() -> None:
    assert forwarded_lines(HEADERS) == b"user-agent: shop/2\r\n"
