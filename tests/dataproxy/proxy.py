"""A data proxy in this process: real files, a real database, a hand-written redactor and a clock that a test moves."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sqlalchemy import Select, func, select

from atdp.events import Span
from dataproxy.capture import Journal
from dataproxy.client.types import Consent, NewKey
from dataproxy.keyfiles import KeyFiles, ensure
from dataproxy.redact import Exchange, RedactedExchange, RedactedText, RedactionFailed
from dataproxy.services import Services, build_services
from dataproxy.settings import Settings
from dataproxy.store.compression import decompress
from dataproxy.store.consents import add_consent
from dataproxy.store.database import Database
from dataproxy.store.keys import issue_key
from dataproxy.store.postgres import PostgresUrls
from dataproxy.store.schema import metadata
from tests.dataproxy import compiled
from tests.dataproxy.exchanges import MAC_SECRET

compiled.share()

_ZSTD = b"\x28\xb5\x2f\xfd"
MASK = 16
SECRET_WORD = "hunter2"
SECRET_ID = 99
BROKEN_WORD = "unredactable"
UNSURE_WORD = "Perhapsson"


class WordRedactor:
    """Replaces two words in JSON leaves, of one unsure, and one id in tokens; fails on another word. Same door as the real one."""

    def redact_exchange(self, exchange: Exchange) -> RedactedExchange:
        """Every leaf and array, as the real redactor would."""
        spans: list[Span] = []
        request = self._leaf(exchange.request, "/request", spans)
        response = self._leaf(exchange.response, "/response", spans)
        strings = {name: self._leaf(text, f"/strings/{name}", spans) for name, text in exchange.strings.items()}
        prompt = exchange.prompt_ids
        return RedactedExchange(
            request=request,
            response=response,
            prompt_ids=_masked(prompt) if prompt is not None else None,
            output_ids=[_masked(ids) for ids in exchange.output_ids],
            strings=strings,
            spans=spans,
            prompt_altered=(prompt == SECRET_ID).astype(np.uint8) if prompt is not None else None,
            output_altered=[(ids == SECRET_ID).astype(np.uint8) for ids in exchange.output_ids],
        )

    def redact_text(self, text: str) -> RedactedText:
        """One text."""
        spans: list[Span] = []
        return RedactedText(self._leaf(text, "", spans), spans)

    def _leaf(self, value, path, spans):  # type: ignore[no-untyped-def]  # any JSON in, the same shape out
        if isinstance(value, dict):
            return {key: self._leaf(item, f"{path}/{key}", spans) for key, item in value.items()}
        if isinstance(value, list):
            return [self._leaf(item, f"{path}/{i}", spans) for i, item in enumerate(value)]
        if isinstance(value, str) and BROKEN_WORD in value:
            raise RedactionFailed("not_located")
        if isinstance(value, str) and SECRET_WORD in value:
            start = value.index(SECRET_WORD)
            spans.append(Span("PASSWORD", "word", 1.0, path, start, start + 12, "<PASSWORD_1>"))
            return value.replace(SECRET_WORD, "<PASSWORD_1>")
        if isinstance(value, str) and UNSURE_WORD in value:
            start = value.index(UNSURE_WORD)
            spans.append(Span("PERSON", "word", 0.6, path, start, start + 10, "<PERSON_1>"))
            return value.replace(UNSURE_WORD, "<PERSON_1>")
        return value


def _masked(ids):  # type: ignore[no-untyped-def]
    return np.where(ids == SECRET_ID, MASK, ids).astype(np.int32)


class OneRedactor:
    """The same redactor for every tenant."""

    def __init__(self) -> None:
        self._redactor = WordRedactor()

    def of(self, tenant: str) -> WordRedactor:
        """It."""
        return self._redactor


class Clock:
    """UTC µs that move only when told."""

    def __init__(self, now_us: int = 1_000_000_000) -> None:
        self.now_us = now_us

    def __call__(self) -> int:
        return self.now_us

    def advance(self, seconds: float) -> None:
        """Move on."""
        self.now_us += int(seconds * 1e6)


@cache
def migrated_store() -> bytes:
    """The file of an empty SQLite store: `test_migrations` makes stores, all others begin with a copy of this one."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "headrace.db"
        Database(path).close()
        return path.read_bytes()


class Proxy:
    """Services over ``directory``, the store in ``urls`` or ``database`` if given; ``restart`` is what a new process would find."""

    def __init__(self, directory: Path, clock: Clock, urls: PostgresUrls | None = None, database: Database | None = None) -> None:
        self.data_dir = directory / "data"
        self.files: KeyFiles = ensure(directory / "config")
        (directory / "config" / "mac.key").write_text(MAC_SECRET.hex())
        self.clock = clock
        self._settings = Settings(
            data_dir=self.data_dir,
            config_dir=directory / "config",
            database_url=urls.app if urls else None,
            database_owner_url=urls.owner if urls else None,
        )
        self._database = database
        store = self.data_dir / "store" / "headrace.db"
        if urls is None and database is None and not store.exists():
            store.parent.mkdir(parents=True, mode=0o700)
            store.write_bytes(migrated_store())
        self.services: Services = self._build()

    def _build(self) -> Services:
        return build_services(self._settings, self.files, OneRedactor(), self.clock, self._database)

    def restart(self) -> None:
        """Close and open again."""
        self.services.database.close()
        self.services = self._build()

    def journal(self, **options: int) -> Journal:
        """A gateway's journal."""
        return Journal.open(self.data_dir / "journal", self.files.journal_public(), **options)  # type: ignore[arg-type]

    def drain(self) -> int:
        """Drain all there is; gives the number of exchanges."""
        total = 0
        while count := self.services.drain.run_once():
            total += count
        return total

    def consent(self, tenant: str = "acme", agent: str = "", training: bool = True, recording: bool = True) -> None:
        """Put a consent on record."""
        item = Consent(tenant, recording, training, "a test", agent, self.clock())
        with self.services.database.write() as connection:
            add_consent(connection, item, "key-0")

    def key(self, role: str, tenant: str = "acme", agent: str = "triage") -> str:
        """A new API key."""
        with self.services.database.write() as connection:
            issued = issue_key(connection, NewKey(tenant, agent, role), self.clock())  # type: ignore[arg-type]
        with self.services.database.read() as connection:
            self.services.keys.load(connection)
        return issued.key

    def rows(self, query: Select) -> list:  # type: ignore[type-arg]
        """What ``query`` finds."""
        with self.services.database.read() as connection:
            return list(connection.execute(query).all())

    def everything_at_rest(self) -> bytes:
        """The bytes of every file, and of every compressed column as it reads."""
        found = [path.read_bytes() for path in self.data_dir.rglob("*") if path.is_file()]
        for table in metadata.sorted_tables:
            for row in self.rows(select(table)):
                for value in row:
                    if isinstance(value, bytes) and value.startswith(_ZSTD):
                        found.append(decompress(value))
        return b"\0".join(found)

    def count(self, table) -> int:  # type: ignore[no-untyped-def]
        """Rows in ``table``."""
        return self.rows(select(func.count()).select_from(table))[0][0]
