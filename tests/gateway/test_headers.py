"""Which of an agent's headers are kept, and which the engine sees."""

from gateway.headers import forwarded_lines, recorded_headers

HEADERS = [
    (b"authorization", b"Bearer hr_secret"),
    (b"cookie", b"a=b"),
    (b"user-agent", b"shop/2"),
    (b"x-headrace-release", b"shop-2026.11"),
    (b"x-headrace-retrieval", b"manuals@41"),
    (b"x-priority", b"9"),
]


def test_what_an_agent_declares_of_itself_is_recorded_and_no_secret() -> None:
    declared = {"x-headrace-release": "shop-2026.11", "x-headrace-retrieval": "manuals@41"}
    assert recorded_headers(HEADERS) == {"user-agent": "shop/2", **declared}


def test_the_engine_sees_no_header_that_is_ours_or_that_steers_it() -> None:
    assert forwarded_lines(HEADERS) == b"user-agent: shop/2\r\n"
