"""The reviewer's commands against a data proxy that serves: verify, log, search, export, erase, hold, retention, consent."""

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from dataproxy.client.review_types import NO_PURPOSE, OWN_PURPOSE
from dataproxy.client.types import KeyInfo
from dataproxy.store.access import record_access
from deploy.cli import app
from deploy.launcher.lock import InstanceLock
from tests.dataproxy.api.served import serve
from tests.dataproxy.ledger.lived_in import READER, live
from tests.dataproxy.proxy import SECRET_WORD, Clock, Proxy


class Running:
    """A data proxy with a day behind it, and the command line pointed at it."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy

    def __call__(self, *arguments: str, ok: bool = True) -> Result:
        """Run ``headrace`` with the directories of this one."""
        where = ["--data-dir", str(self.proxy.data_dir), "--config-dir", str(self.proxy.files.directory)]
        done = CliRunner().invoke(app, [*arguments, *where])
        assert (done.exit_code == 0) is ok, (done.output, done.exception)
        return done

    def json(self, *arguments: str) -> dict[str, object]:
        """What it prints with --json."""
        found: dict[str, object] = json.loads(self(*arguments, "--json").stdout)
        return found


@pytest.fixture
def headrace(tmp_path: Path) -> Iterator[Running]:
    clock = Clock()
    proxy = Proxy(tmp_path, clock)
    proxy.consent()
    asyncio.run(live(proxy, clock))
    run_dir = proxy.data_dir / "run"
    with InstanceLock(run_dir), serve(proxy.services, run_dir / "dataproxy.sock"):
        yield Running(proxy)
    proxy.services.database.close()


@pytest.mark.slow
def test_verify_says_that_nothing_was_changed_and_then_what_was(headrace: Running) -> None:
    assert "Verified: 3 logs" in headrace("audit", "verify").stdout
    assert headrace.json("audit", "verify")["ok"] is True
    with closing(sqlite3.connect(headrace.proxy.data_dir / "store" / "headrace.db")) as raw:
        raw.execute("DROP TRIGGER reward_no_update")
        raw.execute("UPDATE reward SET value = 2 WHERE value IS NOT NULL")
        (reward_id,) = raw.execute("SELECT reward_id FROM reward WHERE value = 2").fetchone()
        raw.commit()
    done = headrace("audit", "verify", ok=False)
    assert done.exit_code == 1 and f"reward {reward_id} of acme: the row is not what was stored" in done.stdout


@pytest.mark.slow
def test_verify_offline_needs_nobody_to_run(tmp_path: Path) -> None:
    clock = Clock()
    proxy = Proxy(tmp_path, clock)
    proxy.consent()
    asyncio.run(live(proxy, clock))
    proxy.services.database.close()
    command = [sys.executable, "-m", "deploy.cli", "audit", "verify", "--offline"]
    where = ["--data-dir", str(proxy.data_dir), "--config-dir", str(proxy.files.directory)]
    done = subprocess.run([*command, *where], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 and done.stdout.startswith("verified: 3 tenants"), done.stderr


def test_reads_are_listed_with_their_purpose(headrace: Running) -> None:
    headrace("audit", "list", "--purpose", "quarterly review")
    rows = headrace.json("audit", "log")["rows"]
    assert isinstance(rows, list)
    assert {row["purpose"] for row in rows if row["what"] == "events"} == {"quarterly review"}
    assert rows[-1]["what"] == "access_log"
    assert "quarterly review" in headrace("audit", "log").stdout


def test_a_read_without_a_purpose_says_so_and_one_of_a_program_of_ours_that_it_is(headrace: Running) -> None:
    clock, ours = headrace.proxy.clock, KeyInfo("internal-trainer-0123456789ab", "", "", "trainer", [], 0, None, None)
    with headrace.proxy.services.database.write() as connection:
        record_access(connection, READER, "acme", "trajectory", "tr-1", clock())
        record_access(connection, ours, "acme", "trajectory", "tr-1", clock())
        record_access(connection, ours, "acme", "vault", "tr-1", clock(), "training, lease-1")
    lines = [line for line in headrace("audit", "log", "--target", "tr-1").stdout.splitlines() if " tr-1 " in line]
    whys = [next(why for why in (NO_PURPOSE, OWN_PURPOSE, "training, lease-1") if why in line) for line in lines]
    assert sorted(whys) == sorted([NO_PURPOSE, OWN_PURPOSE, "training, lease-1", NO_PURPOSE])  # one of them: this read itself


def test_search_finds_text_and_says_where_to_go_on(headrace: Running) -> None:
    found = headrace.json("audit", "search", "AND NOW", "--kind", "model_call")
    events = found["events"]
    assert isinstance(events, list) and {event["tenant"] for event in events} == {"acme", "other"} and found["next_after"] is None
    assert "--after" in headrace("audit", "search", "--limit", "1").stdout
    assert "Nothing here" in headrace("audit", "search", "hunter2").stdout


def test_a_redacted_event_is_shown_with_spans_and_surrogates_and_the_look_is_on_record(headrace: Running) -> None:
    listed = headrace.json("audit", "list", "--session", "named-acme", "--kind", "model_call")["events"]
    assert isinstance(listed, list) and len(listed) == 1
    event_id = listed[0]["event_id"]
    shown = headrace("audit", "show", event_id, "--purpose", "case 9").stdout
    assert SECRET_WORD not in shown and "my word is <PASSWORD_1>" in shown
    (found,) = re.findall(r"<PASSWORD_1> PASSWORD by word \(1\.00\) at (/\S+) (\d+):(\d+)", shown)
    assert re.search(r"tokens choice 0: 3 prompt and \d+ output ids, 1 masked", shown)

    event = headrace.json("audit", "show", f"chatcmpl-{event_id}{16 * '0'}")["event"]  # by the answer's own id, too
    assert isinstance(event, dict)
    (span,) = event["spans"]
    assert (span["path"], span["start"], span["end"]) == (found[0], int(found[1]), int(found[2]))
    assert span["path"] == "/request/messages/1/content" and "my word is <PASSWORD_1>" in json.dumps(event["o"])
    assert "my word is <PASSWORD_1>"[span["start"] : span["end"]] == span["surrogate"]
    reads = headrace.json("audit", "log")["rows"]
    assert isinstance(reads, list) and [row["purpose"] for row in reads if row["what"] == "event"] == ["case 9", ""]


def test_a_trajectory_is_told_from_its_first_call_to_what_was_trained_on_it(headrace: Running) -> None:
    listed = headrace.json("audit", "list", "--kind", "model_call")["events"]
    assert isinstance(listed, list)
    told = {
        event["trajectory_id"]: headrace("audit", "trajectory", event["trajectory_id"], "--purpose", "case 11").stdout
        for event in listed
        if event["tenant"] == "acme"
    }
    assert SECRET_WORD not in "".join(told.values())
    (altered,) = [text for text in told.values() if "my word is <PASSWORD_1>" in text]
    assert "reward None; not trainable (altered); trained by no version\nnow: not eligible\n" in altered
    assert re.search(r"^  \w+#0 is context only: altered$", altered, re.MULTILINE)
    (trained,) = [text for text in told.values() if "trained by v000001" in text]
    assert re.search(r"^reward 1\.0; trainable \(\w+\); trained by v000001$", trained, re.MULTILINE), trained
    assert re.search(r"^  reward 1 by \w+ for event \w+$", trained, re.MULTILINE), trained
    reads = headrace.json("audit", "log")["rows"]
    assert isinstance(reads, list)
    assert {row["purpose"] for row in reads if row["what"] == "trajectory" and row["key_id"] != "key-7"} == {"case 11"}


def test_evidence_is_checked_by_its_own_program(headrace: Running, tmp_path: Path) -> None:
    headrace("audit", "export", "--tenant", "acme", "-o", str(tmp_path / "e.zip"))
    with zipfile.ZipFile(tmp_path / "e.zip") as bundle:
        bundle.extractall(tmp_path / "e")
    done = subprocess.run([sys.executable, "-I", str(tmp_path / "e" / "verify.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "verified" in done.stdout, done.stderr


def test_evidence_is_named_by_what_it_holds(headrace: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for asked in ((), ("--session", "named-acme"), ("--subject", "ann")):
        headrace("audit", "export", "--tenant", "acme", *asked)
    kinds = {re.sub(r"-\d{8}-\d{6}\.zip$", "", file.name) for file in tmp_path.glob("*.zip")}
    assert kinds == {"headrace-evidence-acme", "headrace-evidence-acme-session-named-acme", "headrace-evidence-acme-subject"}


@pytest.mark.slow
def test_erasure_is_shown_first_asked_for_and_done(headrace: Running) -> None:
    what = ("audit", "erase", "--tenant", "acme", "--subject", "ann", "--reason", "request of 3 May")
    assert "Would be erased" in headrace(*what, "--dry-run").stdout
    assert headrace(*what, ok=False).exit_code == 1  # nobody said yes
    hold = headrace("audit", "hold", "add", "--tenant", "acme", "--subject", "ann", "--reason", "case 7").stdout.split(":")[0]
    refused = headrace(*what, "--yes", ok=False)
    assert "a legal hold is on it" in str(refused.exception)
    assert hold in headrace("audit", "hold", "list").stdout
    headrace("audit", "hold", "release", hold, "--reason", "closed")
    done = headrace(*what, "--yes").stdout
    assert "2 events" in done and "v000001" in done and "hold nothing of it any more" in done
    assert "(4 erased)" in headrace("audit", "verify").stdout  # two events, two rewards with free text


@pytest.mark.slow
def test_retention_and_consent_refuse_whom_nobody_knows(headrace: Running) -> None:
    headrace("audit", "retention", "set", "short", "--tenant", "acme", "--days", "30", "--reason", "contract")
    assert "short" in headrace("audit", "retention", "list").stdout
    unknown = headrace("audit", "retention", "set", "short", "--tenant", "acmee", "--reason", "x", ok=False)
    assert "no tenant is called 'acmee'; did you mean acme?" in str(unknown.exception)
    slip = headrace("consent", "grant", "acme", "--agent", "triagge", ok=False)
    assert "no agent of tenant acme is called 'triagge'; did you mean triage?" in str(slip.exception)
    headrace("consent", "grant", "acme", "--agent", "triagge", "--new")
    headrace("consent", "revoke", "acme", "--session", "named-acme")
    assert "named-acme" in headrace("consent", "show").stdout
    assert "only once it is recorded" in str(
        headrace("consent", "revoke", "acme", "--session", "named-acme", "--recording", ok=False).exception
    )
