"""Statements are compiled once for a run of tests and not once a test.

Each test has a database, and so an engine, of its own; SQLAlchemy keeps compiled statements by engine, and compiling them again was
two fifths of what the tests of the store cost. What a dialect's name and driver have in common is the same text of SQL here.
"""

from typing import Any

from sqlalchemy import Connection, Engine, event


class Compiled(dict[Any, Any]):
    """By the dialect's name and driver in place of the dialect, which is an engine's own."""

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get(_of_any_engine(key), default)

    def __setitem__(self, key: tuple[Any, ...], value: Any) -> None:
        super().__setitem__(_of_any_engine(key), value)


def _of_any_engine(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dialect, *rest = key
    return (dialect.name, dialect.driver, *rest)


_COMPILED = Compiled()


def share() -> None:
    """From now on, for all engines of this process."""

    @event.listens_for(Engine, "engine_connect")
    def use(connection: Connection) -> None:
        connection.execution_options(compiled_cache=_COMPILED)
