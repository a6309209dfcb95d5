"""What a table needs of a database. Two implement it: PostgreSQL and SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import polars as pl

from eventide.sinks.tables.types import Dialect


class Found(NamedTuple):
    """A column that a table has."""

    name: str
    type: str
    has_default: bool


class Connection(Protocol):
    """A connection. Statements outside of a transaction take effect at once."""

    @property
    def lost(self) -> bool:
        """Whether the other end is gone, so that a new connection may help."""
        ...

    def transaction(self) -> AbstractContextManager[object]:
        """All or nothing."""
        ...

    def run(self, statement: str) -> None:
        """A statement without values."""
        ...

    def tell(self, statement: str, values: Sequence[Any]) -> int:
        """A statement with a ``?`` for each value. How many rows it changed."""
        ...

    def ask(self, question: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """A query with a ``?`` for each value."""
        ...

    def columns(self, table: str) -> list[Found]:
        """The columns of a table (quoted); none if there is no such table."""
        ...

    def load(self, table: str, rows: pl.DataFrame) -> None:
        """Append rows to a table (quoted), as fast as the database allows."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class Database(Protocol):
    """How a database is reached."""

    @property
    def dialect(self) -> Dialect:
        """Whose SQL it speaks."""
        ...

    @property
    def url(self) -> str:
        """Its address, without a password."""
        ...

    @property
    def errors(self) -> type[Exception]:
        """What its driver raises."""
        ...

    def check_names(self, table: str, columns: Sequence[str]) -> None:
        """Refuse names that it cannot have."""
        ...

    def connect(self) -> Connection:
        """A new connection."""
        ...
