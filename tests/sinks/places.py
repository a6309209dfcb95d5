"""Databases to test with: the same questions to PostgreSQL and to SQLite, and the same answers."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg


@dataclass(frozen=True)
class Place:
    """An empty database."""

    kind: str
    url: str

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        """What a reader sees, in the words of SQLite."""
        if self.kind == "sqlite":
            with sqlite3.connect(self.url.removeprefix("sqlite:///")) as reader:
                rows: list[tuple[Any, ...]] = reader.execute(question).fetchall()
            reader.close()
            return [tuple(map(plain, row)) for row in rows]
        with psycopg.connect(self.url) as connection:
            return [tuple(map(plain, row)) for row in connection.execute(question).fetchall()]

    def tell(self, *statements: str) -> None:
        """Change something behind the sink's back."""
        if self.kind == "sqlite":
            writer = sqlite3.connect(self.url.removeprefix("sqlite:///"))
            for statement in statements:
                writer.executescript(statement)
            writer.close()
            return
        with psycopg.connect(self.url) as connection:
            for statement in statements:
                connection.execute(statement)

    def counted(self, question: str) -> Counter[tuple[Any, ...]]:
        """The same, in no order."""
        return Counter(self.ask(question))


def plain(value: Any) -> Any:
    """A value that is equal to itself, the same from both databases."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0  # no negative zero
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, datetime):
        shown = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return shown.isoformat(timespec="microseconds") + ("Z" if value.tzinfo else "")
    if isinstance(value, memoryview):
        return bytes(value)
    return value
