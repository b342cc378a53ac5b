"""The alarms as a file for Prometheus (node_exporter's textfile collector): the data proxy has no port that it could scrape."""

from pathlib import Path

from dataproxy.alarms.watch import exposition, look
from dataproxy.services import Services
from dataproxy.store.scope import EVERYBODY

EVERY_US = 60_000_000


class AlarmFile:
    """Writes ``metrics/dataproxy.prom`` in the data directory, once a minute at most."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._looked_us = 0
        self.path: Path = services.data_dir / "metrics" / "dataproxy.prom"

    def write(self) -> None:
        """If it is time again; a reader never sees half of it."""
        now_us = self._services.now_us()
        if now_us - self._looked_us < EVERY_US:
            return
        self._looked_us = now_us
        with self._services.database.read(EVERYBODY) as connection:
            alarms = look(connection, None, now_us)
        backlog = self._services.drain.backlog_bytes()
        text = exposition(alarms) + (
            "# HELP headrace_journal_backlog_bytes Of the journal that is not drained yet.\n"
            f"# TYPE headrace_journal_backlog_bytes gauge\nheadrace_journal_backlog_bytes {backlog}\n"
        )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(".dataproxy.prom.new")
        new.write_text(text)
        new.replace(self.path)
