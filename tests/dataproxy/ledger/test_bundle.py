"""Evidence: the program in it proves it with nothing of ours, and refuses it after any change."""

import hashlib
import hmac
import json
import random
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from sqlalchemy import select, text

from dataproxy.client.review_types import NO_PURPOSE, Retention
from dataproxy.ledger.bundle import ALSO_HELD, write_bundle
from dataproxy.ledger.evidence import verify
from dataproxy.ledger.notes import NoteSigner
from dataproxy.retain.retention import set_retention
from dataproxy.store.access import record_access
from dataproxy.store.schema import access_log, event, trajectory
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.ledger.lived_in import READER, live
from tests.dataproxy.proxy import Clock, Proxy
from tests.dataproxy.retain.erasing import erased


def unpacked(proxy: Proxy, directory: Path, trajectories: list[str] | None = None) -> Path:
    """The bundle of acme, cut to ``trajectories``."""
    proxy.services.checkpoints.cut()
    with (directory / "e.zip").open("wb") as file, proxy.services.database.read() as connection:
        write_bundle(connection, "acme", trajectories, proxy.services.checkpoints, file)
    with zipfile.ZipFile(directory / "e.zip") as bundle:
        bundle.extractall(directory / "e")
    return directory / "e"


def check(bundle: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What our own copy of the program says: the one in the bundle may be what was changed."""
    program = [sys.executable, "-I", str(verify.__file__), str(bundle), *arguments]
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)


def sign_again(proxy: Proxy, bundle: Path) -> None:
    """A manifest that fits what the files are now, as whoever has the ledger's key could make it."""
    origin, *lines = (bundle / "manifest.txt").read_text().partition("\n\n")[0].split("\n")
    names = [line.split(" ")[2] for line in lines]
    data = {name: (bundle / name).read_bytes() for name in names}
    lines = [f"{len(data[name].splitlines())} {hashlib.sha256(data[name]).hexdigest()} {name}" for name in names]
    (bundle / "manifest.txt").write_text(proxy.services.checkpoints.signer.sign_text("\n".join([origin, *lines, ""])))


async def test_a_bundle_proves_itself_with_erased_rows_in_it(proxy: Proxy, clock: Clock, tmp_path: Path) -> None:
    await live(proxy, clock)
    erased(proxy, "session", "named-acme")
    bundle = unpacked(proxy, tmp_path)
    done = check(bundle)
    assert done.returncode == 0 and "(1 erased)" in done.stdout, done.stdout + done.stderr
    assert "all of them are here" in done.stdout
    assert (bundle / "verify.py").read_bytes() == Path(str(verify.__file__)).read_bytes()
    assert "hello from acme" in (bundle / "events.jsonl").read_text()
    assert "hello from other" not in "".join(path.read_text() for path in bundle.iterdir())
    assert re.search(r"\(1 erased\): \d+ events, 2 rewards, 1 read, 1 event of a read, ", done.stdout), done.stdout
    counts = re.findall(r"(\d+) [a-z]", done.stdout.splitlines()[0].partition("erased): ")[2])
    assert f"verified: {sum(map(int, counts))} rows of acme" in done.stdout
    assert (bundle / "access.jsonl").read_text().count("\n") == 2  # the event and its row in the access log


async def test_a_bundle_of_one_trajectory_holds_nothing_of_another(proxy: Proxy, clock: Clock, tmp_path: Path) -> None:
    await live(proxy, clock)
    mine = proxy.rows(select(trajectory.c.trajectory_id).where(trajectory.c.session_id == "named-acme"))[0][0]
    bundle = unpacked(proxy, tmp_path, [mine])
    done = check(bundle)
    assert done.returncode == 0 and "are not in this evidence" in done.stdout, done.stderr
    shown = {json.loads(line)["key"] for line in (bundle / "events.jsonl").read_text().splitlines()}
    assert shown == {row.event_id for row in proxy.rows(select(event.c.event_id).where(event.c.trajectory_id == mine))}


async def test_a_bundle_of_one_trajectory_holds_every_read_of_the_tenant_and_says_so(
    proxy: Proxy, clock: Clock, tmp_path: Path
) -> None:
    await live(proxy, clock)
    mine = proxy.rows(select(trajectory.c.trajectory_id).where(trajectory.c.session_id == "named-acme"))[0][0]
    with proxy.services.database.write() as connection:
        record_access(connection, READER, "acme", "trajectories", "", clock(), "a list that may have held it")
        record_access(connection, READER, "acme", "trajectory", "tr-another", clock(), "not of it")
    bundle = unpacked(proxy, tmp_path, [mine])
    held = [json.loads(line) for line in (bundle / "access.jsonl").read_text().splitlines()]
    every = {row.event_id for row in proxy.rows(select(access_log.c.event_id).where(access_log.c.tenant == "acme"))}
    assert len(every) >= 3 and {row["key"] for row in held if row["kind"] == "access_log"} == every
    docs = Path(__file__).parents[3] / "docs" / "audit.md"
    for told in (bundle / "README.txt", docs):
        assert ALSO_HELD in " ".join(told.read_text().split()), told
    assert f"means: {NO_PURPOSE};" in (bundle / "README.txt").read_text()


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 12))])
async def test_a_bundle_that_was_changed_and_signed_again_is_refused(proxy: Proxy, clock: Clock, tmp_path: Path, seed: int) -> None:
    await live(proxy, clock)
    bundle, chance = unpacked(proxy, tmp_path), random.Random(seed)
    name = ("events.jsonl", "checkpoints.jsonl", "others.jsonl")[seed % 3]
    lines = [json.loads(line) for line in (bundle / name).read_text().splitlines()]
    line = chance.choice(lines)
    if name == "checkpoints.jsonl":
        line["note"] = line["note"].replace("\n", "1\n", 2)
    elif seed % 2 == 0:
        line["parts"][0]["text"] = line["parts"][0]["text"].replace("acme", "acne").replace("1", "2")
    else:
        line["chain"], line["erased_by"], line["parts"] = "", "nobody", []
    (bundle / name).write_text("".join(json.dumps(one) + "\n" for one in lines))
    sign_again(proxy, bundle)
    done = check(bundle)
    assert done.returncode == 1 and f"\n{name} line " in done.stderr and "manifest" not in done.stderr, done.stdout


async def test_a_line_that_was_taken_out_is_noticed_and_its_file_named(proxy: Proxy, clock: Clock, tmp_path: Path) -> None:
    await live(proxy, clock)
    with proxy.services.database.write() as connection:
        set_retention(connection, Retention("acme", "short", 30, "contract"), "key-1", clock())
    bundle = unpacked(proxy, tmp_path)
    taken: set[tuple[str, str]] = set()
    for name in ("events.jsonl", "access.jsonl", "others.jsonl", "checkpoints.jsonl", "README.txt", "verify.py"):
        lines = (bundle / name).read_bytes().splitlines(keepends=True)
        for at in range(len(lines) - 1, -1, -1):  # the last line of each kind: nothing comes after it in its file's chain
            kind = json.loads(lines[at]).get("kind", "") if name.endswith(".jsonl") else ""
            if (name, kind) not in taken:
                (bundle / name).write_bytes(b"".join(lines[:at] + lines[at + 1 :]))
                done = check(bundle)
                assert done.returncode == 1 and f"{name}: 1 of its {len(lines)} lines is gone" in done.stderr, done.stdout
                taken.add((name, kind))
        (bundle / name).write_bytes(b"".join(lines))
    assert check(bundle).returncode == 0
    assert {kind for _, kind in taken} >= {
        "event",
        "access_log",
        "reward",
        "consent",
        "retention_policy",
        "training_use",
        "quarantine",
    }


async def test_the_key_is_compared_with_the_one_given_in_either_form(proxy: Proxy, clock: Clock, tmp_path: Path) -> None:
    await live(proxy, clock)
    bundle, verifier = unpacked(proxy, tmp_path), proxy.services.checkpoints.signer.verifier
    given = (proxy.files.directory / "ledger.pub").read_text()
    assert (bundle / "ledger.pub").read_text() == given
    done = check(bundle)
    for shown in (done.stdout, (bundle / "README.txt").read_text()):
        assert given.strip() in shown and verifier.key_line() in shown
    for key in (given, verifier.key_line()):
        assert check(bundle, "--key", key).returncode == 0
    other = NoteSigner(bytes(32)).verifier
    for key in (other.public.hex(), other.key_line(), ""):
        done = check(bundle, "--key", key)
        assert done.returncode == 1 and "another key than the one given" in done.stderr
    done = check(bundle, "--witness", "no key")
    assert done.returncode == 1 and "--witness: no key is no verifier key" in done.stderr


def problems(bundle: Path) -> list[str]:
    """The same as the program would name, and quicker."""
    found = verify.Bundle(bundle)
    verify.check(found, None, [])
    return found.problems


async def test_any_byte_of_any_file_is_answered_for_and_the_file_is_named(proxy: Proxy, clock: Clock, tmp_path: Path) -> None:
    await live(proxy, clock)
    bundle, chance = unpacked(proxy, tmp_path), random.Random(7)
    assert {path.name for path in bundle.iterdir()} == set(verify.NAMES) and not problems(bundle)
    for name in verify.NAMES:
        whole = (bundle / name).read_bytes()
        for _ in range(40):
            at, bit = chance.randrange(len(whole)), 1 << chance.randrange(8)
            (bundle / name).write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            assert any(problem.startswith(name) for problem in problems(bundle)), (name, at, bit)
        (bundle / name).unlink()
        assert f"{name}: it is missing" in problems(bundle)
        (bundle / name).write_bytes(whole)


async def test_all_that_is_wrong_is_named_with_file_and_line_and_not_without_end(
    proxy: Proxy, clock: Clock, tmp_path: Path
) -> None:
    await live(proxy, clock)
    bundle = unpacked(proxy, tmp_path)
    lines = (bundle / "events.jsonl").read_text().splitlines(keepends=True)
    (bundle / "events.jsonl").write_text("".join([lines[0], "{" + lines[1], *lines[2:]]))
    (bundle / "others.jsonl").write_text((bundle / "others.jsonl").read_text().replace('"', "'", 1))
    (bundle / "README.txt").unlink()
    done = check(bundle)
    assert done.returncode == 1 and not done.stdout and "Traceback" not in done.stderr
    for named in ("events.jsonl line 2: it was changed", "others.jsonl line 1: it was changed", "README.txt: it is missing"):
        assert f"\n{named}" in done.stderr, done.stderr
    assert "are gone" not in done.stderr and "events.jsonl line 1:" not in done.stderr
    with (bundle / "events.jsonl").open("a") as file:
        file.write("no row\n" * 30)
    shown = check(bundle).stderr.splitlines()
    num = int(shown[0].split()[2])
    assert num > 30 and len(shown) == 1 + verify.MOST + 1 and shown[-1] == f"and {num - verify.MOST} more"


async def test_a_read_that_was_deleted_before_the_export_is_missing(proxy: Proxy, clock: Clock, tmp_path: Path) -> None:
    await live(proxy, clock)
    with proxy.services.database.write() as connection:
        connection.execute(text("DROP TRIGGER access_log_no_delete"))
        connection.execute(text("DELETE FROM access_log WHERE tenant = 'acme'"))
    (problem,) = problems(unpacked(proxy, tmp_path))
    assert re.fullmatch(r"access\.jsonl line \d: access_log \w+ \(leaf \d+\): the row is missing", problem)


async def test_a_text_with_any_line_separator_is_one_line(proxy: Proxy, clock: Clock, tmp_path: Path) -> None:
    journal = proxy.journal()
    await write(journal, exchange([user("one\u2028two\x85three\x0bfour\r\nfive")], tenant="acme"))
    journal.close()
    proxy.drain()
    bundle = unpacked(proxy, tmp_path)
    assert "one\u2028two" in (bundle / "events.jsonl").read_text() and not problems(bundle)


async def test_a_row_made_up_or_shown_twice_is_refused_whoever_signed(proxy: Proxy, clock: Clock, tmp_path: Path) -> None:
    await live(proxy, clock)
    bundle = unpacked(proxy, tmp_path)
    whole = (bundle / "others.jsonl").read_text()
    row = next(one for one in map(json.loads, whole.splitlines()) if one["kind"] == "consent")
    (bundle / "others.jsonl").write_text(whole + json.dumps(row) + "\n")
    sign_again(proxy, bundle)
    assert [problem.rpartition(": ")[2] for problem in problems(bundle)] == ["it is here twice"]
    commitment = hmac.digest(bytes(16), b"", "sha256").hex()
    made_up = {**row, "key": "made-up", "parts": [], "salt": bytes(16).hex(), "commitment": commitment}
    (bundle / "others.jsonl").write_text(whole + json.dumps(made_up) + "\n")
    sign_again(proxy, bundle)
    assert [problem.rpartition(": ")[2] for problem in problems(bundle)] == ["it is no leaf of the last checkpoint"]
