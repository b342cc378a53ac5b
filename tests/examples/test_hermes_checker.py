"""The checker of the Hermes example: what is right, when it looks, and that it waits for a session that is not stored yet."""

import json
import time
from pathlib import Path

import httpx
import pytest

from examples.hermes import check_work, shift


@pytest.mark.parametrize(
    ("note", "right"), [("3 tickets\n", True), ("There are 3.", True), ("13 tickets", False), ("none", False), (None, False)]
)
def test_right_is_the_number_of_files_in_the_inbox(tmp_path: Path, note: str | None, right: bool) -> None:
    folder = shift.prepare(tmp_path, "s", 3)
    if note is not None:
        (folder / "count.txt").write_text(note)
    assert check_work.is_right(folder) is right


def test_each_session_is_rewarded_by_its_name_once_it_is_over_and_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [shift.prepare(tmp_path, name, 3) for name in ("one", "two")]
    (folders[0] / "count.txt").write_text("3 tickets")
    for folder in folders:
        (folder / shift.DONE).write_text(json.dumps({"session": folder.name, "completed": True, "ended_at": time.time()}))
    posted: list[dict[str, object]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        posted.append(json.loads(request.content))
        assert (request.url.path, request.headers["authorization"]) == ("/v1/feedback", "Bearer k")
        return httpx.Response(404 if len(posted) == 1 else 200, json={})

    made = httpx.Client
    monkeypatch.setattr(check_work.httpx, "Client", lambda **options: made(transport=httpx.MockTransport(answer), **options))
    check_work.main([*map(str, folders), "--base-url", "http://x/v1", "--api-key", "k", "--delay-s", "0"])
    assert [(said["target"], said["value"]) for said in posted] == [("one", 1.0), ("one", 1.0), ("two", 0.0)]
    assert len({said["idempotency_key"] for said in posted}) == 2


def test_a_reward_that_the_server_will_not_have_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(401, json={}))
    with httpx.Client(base_url="http://x/v1", transport=transport) as client, pytest.raises(httpx.HTTPStatusError):
        check_work.post(client, "one", 1.0)
