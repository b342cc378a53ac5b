"""The search itself: controls first, then the values, over the same places by the same code."""

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dataproxy.redact.at_rest.controls import CONTROL_TABLE, Controls, plant_database, plant_file, wal_of
from dataproxy.redact.at_rest.forms import Matcher
from dataproxy.redact.at_rest.places import Reading, database_readings, file_readings, files, is_sqlite
from dataproxy.redact.tokens import TokenBytes

_ALWAYS = (".log", ".seg")
"""Kinds of files that get a control even when the directory has none at the moment: logs and journal segments."""


@dataclass(slots=True, frozen=True)
class AtRest:
    """What the search saw. ``found`` lists (number of the value, place, way it was read, form); ``missed`` names controls that it
    did not find, ``planted`` counts them all."""

    found: list[tuple[int, str, str, str]]
    planted: int
    missed: list[str]
    num_values: int
    num_files: int
    num_columns: int
    num_bytes: int

    @property
    def planted_found(self) -> bool:
        """Whether the search can be believed."""
        return self.planted > 0 and not self.missed


def search_at_rest(data_dir: Path, config_dir: Path | None, values: Sequence[str], tokens: TokenBytes | None) -> AtRest:
    """Search everything below ``data_dir`` and ``config_dir`` for every form of every one of ``values``.

    Raises:
        ValueError: no values, so that nothing could be found.
    """
    if not values:
        raise ValueError("no values to search for")
    missed, planted = _check_controls(data_dir, tokens)
    matcher = Matcher(values)
    found: set[tuple[int, str, str, str]] = set()
    columns: set[str] = set()
    num_bytes = 0
    paths = [(path, f"{root.name}/{path.relative_to(root)}") for root in (data_dir, config_dir) if root for path in files(root)]
    found |= _search(matcher, Reading("names of files", "raw", "\n".join(place for _, place in paths).encode()))
    for path, place in paths:
        for reading in _all_readings(path, place, tokens):
            found |= _search(matcher, reading)
            num_bytes += len(reading.data) if reading.how == "raw" else 0
            if ":" in reading.place:
                columns.add(reading.place)
    return AtRest(sorted(found), planted, missed, len(values), len(paths), len(columns), num_bytes)


def _search(matcher: Matcher, reading: Reading) -> set[tuple[int, str, str, str]]:
    return {(index, reading.place, reading.how, form) for index, form in matcher.search(reading.data)}


def _all_readings(path: Path, place: str, tokens: TokenBytes | None) -> Iterable[Reading]:
    yield from file_readings(path, place, tokens)
    if is_sqlite(path):
        yield from database_readings(path, place, tokens)


def _check_controls(data_dir: Path, tokens: TokenBytes | None) -> tuple[list[str], int]:
    """Plant and search; names of the places whose control was not found, and how many were planted."""
    missed: list[str] = []
    planted = 0
    with tempfile.TemporaryDirectory() as directory:
        for number, (kind, source) in enumerate(_one_of_each_kind(data_dir).items()):
            controls, copy = Controls(tokens), Path(directory, f"{number}{kind}")
            plant_file(source, copy, f"file {kind}", controls)
            missed += _missed(controls, file_readings(copy, kind, tokens))
            planted += len(controls.places)
        for number, source in enumerate(path for path in files(data_dir) if is_sqlite(path)):
            controls, copy = Controls(tokens), Path(directory, f"{number}.db")
            with closing(plant_database(source, copy, source.name, controls)):
                missed += _missed(controls, database_readings(copy, source.name, tokens))
                in_log = Controls(tokens, {value: at for value, at in controls.places.items() if CONTROL_TABLE in at})
                missed += [f"{place}, write-ahead log" for place in _missed(in_log, file_readings(wal_of(copy), "", tokens))]
            planted += len(controls.places) + len(in_log.places)
    return missed, planted


def _missed(controls: Controls, readings: Iterable[Reading]) -> list[str]:
    values = list(controls.places)
    matcher = Matcher(values)
    seen = {index for reading in readings for index, _ in matcher.search(reading.data)}
    return [controls.places[value] for index, value in enumerate(values) if index not in seen]


def _one_of_each_kind(data_dir: Path) -> dict[str, Path | None]:
    """Suffix → one file with it, the smallest, databases and their logs left out."""
    kinds: dict[str, Path | None] = dict.fromkeys(_ALWAYS)
    for path in sorted(files(data_dir), key=lambda path: path.stat().st_size):
        if not is_sqlite(path) and not path.name.endswith(("-wal", "-shm")):
            kinds[path.suffix] = kinds.get(path.suffix) or path
    return kinds
