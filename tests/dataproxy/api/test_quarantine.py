"""The quarantine: listed, opened on record, tried again once the cause is mended; nothing is stored twice or shown."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from dataproxy.client import Denied, NotFound, SyncDataProxyClient
from dataproxy.client.types import QuarantineRetry
from dataproxy.store.schema import access_log, event, key_usage
from deploy.cli import app
from tests.dataproxy.api.served import serve
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.proxy import BROKEN_WORD, Proxy


@pytest.fixture
def socket_path(proxy: Proxy, tmp_path: Path) -> Iterator[Path]:
    with serve(proxy.services, tmp_path / "api.sock") as path:
        yield path


@pytest.fixture
def admin(proxy: Proxy, socket_path: Path) -> Iterator[SyncDataProxyClient]:
    with SyncDataProxyClient(socket_path, proxy.files.api_key("admin"), purpose="ticket 4711") as client:
        yield client


async def fill(proxy: Proxy, *texts: str) -> list[str]:
    """Drain an exchange with each text; gives the events."""
    pairs = [exchange([user(text)]) for text in texts]
    journal = proxy.journal()
    await write(journal, *pairs)
    journal.close()
    proxy.drain()
    return [asked.event_id for asked, _ in pairs]


def mend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the redactor be certain of what it was not certain of."""
    monkeypatch.setattr("tests.dataproxy.proxy.BROKEN_WORD", "\0never")


async def test_a_mended_cause_lets_rows_be_stored_once_and_they_stay_listed(
    proxy: Proxy, admin: SyncDataProxyClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, good, second = await fill(proxy, f"say {BROKEN_WORD}", "good", f"and {BROKEN_WORD}")
    used = proxy.rows(select(key_usage))
    assert {row.event_id: row.stored for row in admin.list_quarantine()} == {first: False, second: False}
    assert admin.retry_quarantine(QuarantineRetry()).failed == dict.fromkeys((first, second), "redaction_not_located")
    mend(monkeypatch)
    assert admin.retry_quarantine(QuarantineRetry([first])).stored == [first]
    assert admin.retry_quarantine(QuarantineRetry([first])).failed == {}
    assert admin.retry_quarantine(QuarantineRetry(reason="redaction_not_located")).stored == [second]
    assert all(row.stored for row in admin.list_quarantine()) and len(admin.list_quarantine("another")) == 0
    kept = [row.event_id for row in proxy.rows(select(event).where(event.c.kind == "model_call"))]
    assert sorted(kept) == sorted([first, good, second])
    assert proxy.rows(select(key_usage)) == used, "what they used was counted when they came"


async def test_opening_is_put_on_record_and_shows_no_text(proxy: Proxy, admin: SyncDataProxyClient) -> None:
    (broken,) = await fill(proxy, f"say {BROKEN_WORD}")
    opened = admin.open_quarantine(broken)
    assert (opened.agent, opened.status, opened.stored, opened.reason_now) == ("triage", 200, False, "redaction_not_located")
    assert BROKEN_WORD not in repr(opened) and opened.request_bytes > 0
    (row,) = proxy.rows(select(access_log).where(access_log.c.what == "quarantine"))
    assert row.tenant == "acme" and row.purpose == "ticket 4711"


async def test_nobody_else_may_open_it(proxy: Proxy, socket_path: Path, admin: SyncDataProxyClient) -> None:
    (broken,) = await fill(proxy, f"say {BROKEN_WORD}")
    with SyncDataProxyClient(socket_path, proxy.key("reviewer")) as reviewer:
        assert [row.event_id for row in reviewer.list_quarantine()] == [broken]
        with pytest.raises(Denied):
            reviewer.open_quarantine(broken)
    with SyncDataProxyClient(socket_path, proxy.key("admin", "other")) as other:
        assert other.list_quarantine() == []
        assert other.retry_quarantine(QuarantineRetry([broken])).failed == {}
        with pytest.raises(NotFound):
            other.open_quarantine(broken)
    targets = {row.target for row in proxy.rows(select(access_log).where(access_log.c.what == "quarantine"))}
    assert targets == {""}, "the lists alone"


async def test_the_command_tries_again(proxy: Proxy, admin: SyncDataProxyClient, monkeypatch: pytest.MonkeyPatch) -> None:
    (broken,) = await fill(proxy, f"say {BROKEN_WORD}")
    monkeypatch.setattr("deploy.commands.quarantine.admin_client", lambda *_: admin)
    done = CliRunner().invoke(app, ["quarantine", "retry"])
    assert "0 stored, 1 failed again." in done.stdout and f"{broken}: redaction_not_located" in done.stdout
