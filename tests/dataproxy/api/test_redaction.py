"""A tenant's redaction policy: put on record, held to by the drain, named in every event."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from dataproxy.client import BadRequest, Denied, SyncDataProxyClient
from dataproxy.client.types import RedactionSet, RedactionTest
from dataproxy.services import Services, build_services
from dataproxy.store.schema import redaction_policy
from deploy.cli import app
from tests.dataproxy.api.served import serve
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.proxy import Clock, Proxy

POLICY = {
    "rules": [{"name": "employee", "pattern": "EMP-[0-9]{5}", "kind": "EMPLOYEE_ID"}],
    "allow": ["help@example.com"],
    "actions": {"EMPLOYEE_ID": "drop"},
}


class RealProxy(Proxy):
    """With the redactors of production."""

    def _build(self) -> Services:
        return build_services(self._settings, self.files, None, self.clock, self._database)


@pytest.fixture
def real(tmp_path: Path) -> Iterator[RealProxy]:
    proxy = RealProxy(tmp_path, Clock())
    yield proxy
    proxy.services.database.close()


@pytest.fixture
def admin(real: RealProxy, tmp_path: Path) -> Iterator[SyncDataProxyClient]:
    with serve(real.services, tmp_path / "a.sock") as path, SyncDataProxyClient(path, real.files.api_key("admin")) as client:
        yield client


def event_of(client: SyncDataProxyClient, event_id: str) -> str:
    return msgspec.json.encode(client.get_event(event_id)).decode()


@pytest.mark.slow
async def test_a_policy_holds_for_what_is_drained_after_it_and_events_name_it(real: RealProxy, admin: SyncDataProxyClient) -> None:
    real.consent()
    before, after = (exchange([user("I am EMP-12345, help@example.com")], prompt=None) for _ in range(2))
    journal = real.journal()
    await write(journal, before)
    real.drain()
    shown = admin.set_redaction(RedactionSet(POLICY, "staff numbers", "acme"))
    await write(journal, after)
    real.drain()
    journal.close()
    assert shown.number == 1 and admin.get_redaction("acme") == shown
    old, new = (event_of(admin, asked.event_id) for asked, _ in (before, after))
    assert "EMP-12345" in old and "help@example.com" not in old and 'pattern-2/0"' in old
    assert "EMP-12345" not in new and "<EMPLOYEE_ID_1>, help@example.com" in new and 'pattern-2/1"' in new


def test_what_may_stay_is_kept_as_a_digest_only(real: RealProxy, admin: SyncDataProxyClient) -> None:
    admin.set_redaction(RedactionSet(POLICY, "why", "acme"))
    ((body,),) = real.rows(select(redaction_policy.c.body))
    kept = json.loads(body)
    assert "help@example.com" not in body and "allow" not in kept and len(kept["allow_digests"]) == 1
    again = admin.set_redaction(RedactionSet(kept, "the same again, as it was shown", "acme"))
    assert again.number == 2 and again.policy["allow_digests"] == kept["allow_digests"]
    assert admin.test_redaction(RedactionTest("help@example.com ana@example.com", "acme")).text == "help@example.com <EMAIL_1>"


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"rules": [{"name": "x", "pattern": "(a)\\1", "kind": "X1"}]}, "Back-references"),
        ({"rules": [{"name": "x", "pattern": "(?<=a)b", "kind": "X1"}]}, "refused"),
        ({"rules": [{"name": "x", "pattern": "a", "kind": "lower"}]}, "EMPLOYEE_ID"),
        ({"rules": [{"name": "X Y", "pattern": "a", "kind": "X1"}]}, "a-z"),
        ({"rules": [{"name": "x", "pattern": "a", "kind": "X1"}] * 2}, "twice"),
        ({"rulez": []}, "unknown field"),
        ({"actions": {"CARD": "burn"}}, "burn"),
        ({"names": ["DOG"]}, "DOG"),
        ({"allow_patterns": ["("]}, "allow_patterns"),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused_with_a_reason(
    admin: SyncDataProxyClient, policy: dict[str, object], message: str
) -> None:
    with pytest.raises(BadRequest, match=message):
        admin.set_redaction(RedactionSet(policy, "why", "acme"))
    assert admin.get_redaction("acme").number == 0


def test_a_tenants_keys_see_and_set_their_own_alone(real: RealProxy, admin: SyncDataProxyClient, tmp_path: Path) -> None:
    admin.set_redaction(RedactionSet(POLICY, "why", "acme"))
    with serve(real.services, tmp_path / "b.sock") as path:
        with SyncDataProxyClient(path, real.key("admin", "other")) as other:
            assert other.get_redaction().number == 0
            for refused in (lambda: other.get_redaction("acme"), lambda: other.set_redaction(RedactionSet({}, "why", "acme"))):
                with pytest.raises(BadRequest, match="that tenant's redaction only"):
                    refused()
        with SyncDataProxyClient(path, real.key("reviewer", "acme")) as reviewer:
            assert reviewer.get_redaction().number == 1
            with pytest.raises(Denied):
                reviewer.set_redaction(RedactionSet({}, "why"))


def test_the_command_sets_shows_and_tries(
    real: RealProxy, admin: SyncDataProxyClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.commands.redaction.admin_client", lambda *_: admin)
    file, runner = tmp_path / "policy.json", CliRunner()
    file.write_text(json.dumps(POLICY))
    tried = runner.invoke(app, ["redaction", "test", "EMP-12345", "--tenant", "acme", "--policy", str(file)])
    assert tried.stdout.strip() == "<EMPLOYEE_ID_1>"
