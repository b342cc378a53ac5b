"""The byte search: finds values in every form and place, and is not believed when it misses a control."""

import base64
import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from dataproxy.redact import TokenBytes
from dataproxy.redact.at_rest import __main__ as command
from dataproxy.redact.at_rest import readings, search_at_rest
from tests.dataproxy.redact.encoder import Encoder

VALUE = "ana.smith@example.com"


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A directory like the real one: a database with triggers, a log, a journal segment."""
    directory = tmp_path / "data"
    for name in ("store", "logs", "journal"):
        (directory / name).mkdir(parents=True)
    with closing(sqlite3.connect(directory / "store" / "headrace.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE event (id TEXT PRIMARY KEY, body BLOB NOT NULL, tokens BLOB, n INTEGER) WITHOUT ROWID")
        database.execute("CREATE TRIGGER stay BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'append only'); END")
        insert(database, "e0", zstandard.compress(b'{"text": "<EMAIL_1>"}'), zstandard.compress(b"\5\0\0\0\6\0\0\0"))
    (directory / "logs" / "gateway.log").write_text("started\n")
    (directory / "journal" / "1.seg").write_bytes(bytes(range(256)))
    return directory


def insert(database: sqlite3.Connection, name: str, body: bytes, tokens: bytes) -> None:
    database.execute("INSERT INTO event VALUES (?, ?, ?, 1)", (name, body, tokens))
    database.commit()


def test_a_clean_directory_is_clean_and_every_control_was_found(data_dir: Path, tokens: TokenBytes) -> None:
    result = search_at_rest(data_dir, None, [VALUE], tokens)
    assert result.found == [] and result.missed == []
    assert result.planted_found and result.planted > 30
    assert result.num_columns == 4


FORMS = {
    "plain": f"to {VALUE}\n".encode(), "upper": VALUE.upper().encode(), "utf-16": VALUE.encode("utf-16-le"),
    "hex": VALUE.encode().hex().encode(), "base64-1": base64.b64encode(f"x{VALUE}".encode()),
    "base64-2": base64.b64encode(f"xy{VALUE}yz".encode()), "percent": VALUE.replace("@", "%40").encode(),
    "zlib": zlib.compress(VALUE.encode()), "zstd": b"head" + zstandard.compress(VALUE.encode()) + b"tail",
    "zstd-base64": base64.b64encode(zstandard.compress(VALUE.encode())),
}  # fmt: skip


def test_a_value_in_a_file_is_found_in_every_form(data_dir: Path, tokens: TokenBytes) -> None:
    places = {}
    for form, content in FORMS.items():
        for name in (f"logs/{form}.log", f"journal/{form}.seg", f"{form}.json"):
            (data_dir / name).write_bytes(bytes(range(256)) + content + b"\n")
            places[f"data/{name}"] = form
    result = search_at_rest(data_dir, None, ["nobody@example.org", VALUE], tokens)
    assert {place for index, place, _, _ in result.found if index == 1} == set(places)
    assert {index for index, _, _, _ in result.found} == {1}


def test_a_value_in_compressed_token_ids_of_a_column_is_found(data_dir: Path, tokens: TokenBytes, encoder: Encoder) -> None:
    ids = encoder.ids(f"a longer text that has {VALUE} in it").astype("<i4").tobytes()
    with closing(sqlite3.connect(data_dir / "store" / "headrace.db")) as database:
        insert(database, "e1", b"nothing", zstandard.compress(ids))
    result = search_at_rest(data_dir, None, [VALUE], tokens)
    assert ("data/store/headrace.db:event.tokens", "zstd/tokens") in {(place, how) for _, place, how, _ in result.found}


def test_a_value_that_only_the_write_ahead_log_has_is_found(data_dir: Path, tokens: TokenBytes) -> None:
    with closing(sqlite3.connect(data_dir / "store" / "headrace.db")) as database:
        insert(database, "e1", VALUE.encode(), b"")
        result = search_at_rest(data_dir, None, [VALUE], tokens)
    assert "data/store/headrace.db-wal" in {place for _, place, _, _ in result.found}


def test_file_names_and_the_configuration_are_searched_too(data_dir: Path, tmp_path: Path, tokens: TokenBytes) -> None:
    (data_dir / "logs" / f"{VALUE}.log").write_text("")
    config = tmp_path / "config"
    config.mkdir()
    (config / "admin.key").write_text("4111 1111 1111 1111")
    result = search_at_rest(data_dir, config, [VALUE, "4111111111111111", "4111 1111 1111 1111"], tokens)
    assert {(index, place) for index, place, _, _ in result.found} == {(0, "names of files"), (2, "config/admin.key")}


def test_a_search_that_cannot_read_tokens_misses_the_control_of_that_column(
    data_dir: Path, tokens: TokenBytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readings, "_token_texts", lambda data, tokens: iter(()))
    result = search_at_rest(data_dir, None, [VALUE], tokens)
    assert not result.planted_found
    assert "headrace.db:event.tokens" in result.missed


def test_without_values_there_is_nothing_to_prove(data_dir: Path, tokens: TokenBytes) -> None:
    with pytest.raises(ValueError, match="no values"):
        search_at_rest(data_dir, None, [], tokens)


@pytest.mark.slow
def test_the_command_reports_places_without_values(
    data_dir: Path, tokenizer_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = tmp_path / "values.txt"
    values.write_text(f"{VALUE}\n")
    argv = ["at_rest", str(data_dir), "--values", str(values), "--tokenizer", str(tokenizer_file), "--json"]
    monkeypatch.setattr("sys.argv", argv)
    assert command.main() == 0
    assert json.loads(capsys.readouterr().out)["planted_found"] is True
    (data_dir / "logs" / "gateway.log").write_text(VALUE)
    assert command.main() == 1
    out = capsys.readouterr().out
    assert json.loads(out)["found"] > 0 and VALUE not in out
