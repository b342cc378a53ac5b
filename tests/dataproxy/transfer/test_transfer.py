"""A tenant carried to another store, on either database, arrives whole; what was changed, is there already or foreign does not."""

import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import select

from dataproxy.client import BadRequest, Denied, NotFound, SyncDataProxyClient
from dataproxy.client.review_types import AuditReport
from dataproxy.client.types import Feedback
from dataproxy.ledger.verify import verify
from dataproxy.store.postgres import PostgresUrls
from dataproxy.store.schema import access_log, content, event, log_head, metadata, trajectory
from dataproxy.transfer.form import MANIFEST, SIGNATURE
from dataproxy.transfer.write import member
from deploy.exports.tar_rows import RowCounter
from tests.dataproxy.api.served import serve
from tests.dataproxy.exchanges import exchange, said, user, write
from tests.dataproxy.isolation.tenants import OURS, THEIRS, settle
from tests.dataproxy.proxy import SECRET_ID, SECRET_WORD, Clock, Proxy

pytestmark = pytest.mark.slow
Files = dict[str, bytes]


@pytest.fixture
def admin(proxy: Proxy, tmp_path: Path) -> Iterator[SyncDataProxyClient]:
    with serve(proxy.services, tmp_path / "a.sock") as path, SyncDataProxyClient(path, proxy.files.api_key("admin")) as client:
        yield client


@pytest.fixture
def other(tmp_path: Path, store_kind: str, request: pytest.FixtureRequest) -> Iterator[Proxy]:
    """Another store of the same installation, on the other database, with a tenant of its own."""
    urls = PostgresUrls(request.getfixturevalue("postgres_database").urls.app) if store_kind == "sqlite" else None
    made = Proxy(tmp_path / "other", Clock(), urls)
    made.consent("elsewhere")
    yield made
    made.services.database.close()


@pytest.fixture
def other_admin(proxy: Proxy, other: Proxy, tmp_path: Path) -> Iterator[SyncDataProxyClient]:
    with serve(other.services, tmp_path / "b.sock") as path, SyncDataProxyClient(path, other.files.api_key("admin")) as client:
        yield client


def exported(client: SyncDataProxyClient, path: Path, tenant: str = OURS) -> Path:
    with client.export_tenant(tenant) as (_, pieces):
        path.write_bytes(b"".join(pieces))
    return path


def rows(proxy: Proxy, tenant: str) -> dict[str, list[str]]:
    """Everything of ``tenant``, contents as they read, positions counted from its first."""
    found = {}
    for table in metadata.sorted_tables:
        if "tenant" not in table.c or table.name in ("access_log", "log_head", "log_leaf", "log_salt", "checkpoint"):
            continue
        where = table.c.tenant == tenant
        columns = [column for column in table.c if column.name not in ("position", "data", "body")]
        found[table.name] = sorted(map(repr, proxy.rows(select(*columns).where(where))))
    kept = select(event.c.event_id).where(event.c.tenant == tenant, event.c.kind != "access").order_by(event.c.position)
    found["event"] = [row[0] for row in proxy.rows(kept)]
    return found


def members(path: Path) -> Files:
    with tarfile.open(path) as tar:
        return {name: tar.extractfile(name).read() for name in tar.getnames()}  # type: ignore[union-attr]


def packed(path: Path, files: Files) -> Path:
    path.write_bytes(b"".join(piece for name, data in files.items() for piece in member(name, data)) + bytes(1024))
    return path


async def test_a_tenant_arrives_whole_on_the_other_database_and_goes_on_working(
    proxy: Proxy, other: Proxy, admin: SyncDataProxyClient, other_admin: SyncDataProxyClient, tmp_path: Path
) -> None:
    await settle(proxy)
    before = rows(proxy, OURS)
    path = exported(admin, tmp_path / "acme.tar")
    imported = other_admin.import_tenant(path, proxy.files.ledger_public().hex())
    assert imported.tenant == OURS and rows(other, OURS) == before and len(before["event"]) == 8
    assert rows(other, THEIRS)["event"] == []
    event_ids = [row[0] for row in proxy.rows(select(event.c.event_id).where(event.c.tenant == OURS, event.c.kind == "model_call"))]
    for event_id in event_ids:
        assert other_admin.get_event(event_id) == admin.get_event(event_id)
    target = other.rows(select(trajectory.c.trajectory_id).where(trajectory.c.tenant == OURS))[0][0]
    assert other_admin.feedback(Feedback(target, 1.0)).status == "stored"
    positions = [row[0] for row in other.rows(select(event.c.position).order_by(event.c.position))]
    assert len(set(positions)) == len(positions)


async def test_the_export_is_on_record_before_it_and_the_import_after(
    proxy: Proxy, other: Proxy, admin: SyncDataProxyClient, other_admin: SyncDataProxyClient, tmp_path: Path
) -> None:
    await settle(proxy)
    path = exported(admin, tmp_path / "acme.tar")
    other_admin.import_tenant(path, proxy.files.ledger_public().hex())
    reads = [(row.what, row.target) for row in other.rows(select(access_log).where(access_log.c.tenant == OURS))]
    assert ("tenant export", OURS) in reads and ("tenant import", proxy.files.ledger_public().hex()) in reads


async def test_all_of_it_is_redacted_and_readable_without_us(proxy: Proxy, admin: SyncDataProxyClient, tmp_path: Path) -> None:
    journal = proxy.journal()
    await write(journal, exchange([user(f"my word is {SECRET_WORD}"), said("hm"), user("x")], prompt=[1, SECRET_ID, 2]))
    journal.close()
    proxy.drain()
    files = members(exported(admin, tmp_path / "acme.tar"))
    everything = b"".join(files.values())
    assert SECRET_WORD.encode() not in everything and b"my word is <PASSWORD_1>" in everything
    row = json.loads(files["tables/token_segment/000000.jsonl"].splitlines()[0])["prompt_ids"]
    arrays = files["tables/token_segment/000000.bin"]
    assert SECRET_ID not in arrays[row["offset"] : row["offset"] + row["size"]] and row["dtype"] == "<i4"
    manifest = json.loads(files[MANIFEST])
    assert {part["name"] for part in manifest["parts"]} == files.keys() - {MANIFEST, SIGNATURE}


async def test_rows_are_counted_while_the_bytes_pass_in_pieces_of_any_size(
    proxy: Proxy, admin: SyncDataProxyClient, tmp_path: Path
) -> None:
    await settle(proxy)
    path = exported(admin, tmp_path / "acme.tar")
    data, expected = path.read_bytes(), sum(part["num_rows"] for part in json.loads(members(path)[MANIFEST])["parts"])
    for size in (1, 7, 511, 512, 513, 10_000, len(data)):
        counter = RowCounter()
        for start in range(0, len(data), size):
            counter.feed(data[start : start + size])
        assert counter.num_rows == expected


def _change(name: str, change: Callable[[bytes], bytes]) -> Callable[[Files], Files]:
    return lambda files: files | {name: change(files[name])}


def _signed_again(files: Files) -> Files:
    """Changed by somebody who knows the form: digests and signature fit, but the key is another."""
    key = Ed25519PrivateKey.generate()
    manifest = json.loads(files[MANIFEST]) | {"signer": key.public_key().public_bytes_raw().hex()}
    raw = msgspec.json.encode(manifest)
    return files | {MANIFEST: raw, SIGNATURE: key.sign(raw).hex().encode()}


TAMPERED: dict[str, Callable[[Files], Files]] = {
    "a byte of a row": _change("tables/event/000000.jsonl", lambda data: data.replace(b"model_call", b"model_ca11", 1)),
    "a byte of an array": _change("tables/token_segment/000000.bin", lambda data: bytes([data[0] ^ 1]) + data[1:]),
    "a row less": _change("tables/reward/000000.jsonl", lambda data: data.partition(b"\n")[2]),
    "a row more": _change("tables/consent/000000.jsonl", lambda data: data + data),
    "a file less": lambda files: {name: data for name, data in files.items() if name != "tables/reward/000000.jsonl"},
    "a file more": lambda files: files | {"tables/reward/000009.jsonl": b""},
    "the manifest": _change(MANIFEST, lambda data: data.replace(b'"tenant": "acme"', b'"tenant": "evil"')),
    "the signature": _change(SIGNATURE, lambda data: data[:-1] + (b"0" if data[-1:] != b"0" else b"1")),
    "no manifest": lambda files: {name: data for name, data in files.items() if name != MANIFEST},
    "another signer": _signed_again,
    "no tar": lambda files: {},
}


async def test_whatever_was_changed_nothing_of_it_is_stored(
    proxy: Proxy, other: Proxy, admin: SyncDataProxyClient, other_admin: SyncDataProxyClient, tmp_path: Path
) -> None:
    await settle(proxy)
    files, signer = members(exported(admin, tmp_path / "acme.tar")), proxy.files.ledger_public().hex()
    for what, change in TAMPERED.items():
        with pytest.raises(BadRequest):
            other_admin.import_tenant(packed(tmp_path / "changed.tar", change(files)), signer)
            raise AssertionError(what)
        assert not any(rows(other, OURS).values()), what
    assert not list((other.data_dir).glob("import-*"))
    other_admin.import_tenant(packed(tmp_path / "same.tar", files), signer)


async def test_a_tenant_that_is_here_already_and_an_unknown_signer_are_refused(
    proxy: Proxy, other: Proxy, admin: SyncDataProxyClient, other_admin: SyncDataProxyClient, tmp_path: Path
) -> None:
    await settle(proxy)
    path = exported(admin, tmp_path / "acme.tar")
    with pytest.raises(BadRequest, match="in this store already"):
        admin.import_tenant(path)
    with pytest.raises(BadRequest, match="--signed-by"):
        other_admin.import_tenant(path)
    other_admin.import_tenant(path, proxy.files.ledger_public().hex())
    before = rows(other, OURS)
    with pytest.raises(BadRequest, match="in this store already"):
        other_admin.import_tenant(path, proxy.files.ledger_public().hex())
    assert rows(other, OURS) == before


async def test_a_tenants_admin_exports_its_own_and_imports_nothing(
    proxy: Proxy, admin: SyncDataProxyClient, tmp_path: Path
) -> None:
    await settle(proxy)
    path = exported(admin, tmp_path / "other.tar", THEIRS)
    with serve(proxy.services, tmp_path / "c.sock") as socket, SyncDataProxyClient(socket, proxy.key("admin", OURS)) as own:
        exported(own, tmp_path / "own.tar")
        for tenant in (THEIRS, "nobody"):
            with pytest.raises(NotFound, match=f"no tenant {tenant}"), own.export_tenant(tenant):
                pass
        with pytest.raises(Denied):
            own.import_tenant(path)
    assert b"canary" not in (tmp_path / "own.tar").read_bytes()


async def test_the_log_that_was_carried_over_counts_on_from_where_it_was(
    proxy: Proxy, other: Proxy, admin: SyncDataProxyClient, other_admin: SyncDataProxyClient, tmp_path: Path
) -> None:
    await settle(proxy)
    other_admin.import_tenant(exported(admin, tmp_path / "acme.tar"), proxy.files.ledger_public().hex())
    heads = [p.rows(select(log_head.c.size, log_head.c.base_position).where(log_head.c.tenant == OURS))[0] for p in (proxy, other)]
    first = [
        min(row[0] for row in p.rows(select(event.c.position).where(event.c.tenant == OURS))) for p in (proxy, other)
    ]  # an import is a leaf of its own, and so is its event
    assert heads[1].size > heads[0].size and first[0] - heads[0].base_position == first[1] - heads[1].base_position
    assert proxy.count(content) and other.count(content)
    checkpoints = other.services.checkpoints
    with other.services.database.read() as connection:
        *_, report = verify(connection, OURS, checkpoints.signer.verifier, [x for x in checkpoints.read_file() if x.tenant == OURS])
    assert isinstance(report, AuditReport) and report.ok and report.checkpoints == 1, report
