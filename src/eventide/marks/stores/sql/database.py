"""Steps on a database: all or nothing, through connections that are kept, and tried again where that is harmless.

Statements are written for PostgreSQL, with ``?`` for values; SQLite drops what it does not need (``FOR UPDATE``). Locks
are taken in one order, so that no two steps wait for each other: stream, lease, writers, transactions, segments (in the
order of their numbers).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from eventide.errors import marks as errors

Values: TypeAlias = Sequence[Any]
Rows: TypeAlias = list[tuple[Any, ...]]
T = TypeVar("T")


class Step(Protocol):
    """What can be done within one step."""

    @property
    def now(self) -> int:
        """The time on the store's clock, not before the locks of the last ``ask`` were held."""
        ...

    def ask(self, *questions: tuple[str, Values]) -> list[Rows]:
        """The answers, in one round trip. Each question is a statement that has rows to give, and its values."""
        ...

    def tell(self, order: str, values: Values = ()) -> None:
        """A statement. It may be sent only with the end of the step."""
        ...

    def tell_each(self, order: str, rows: Sequence[Values]) -> None:
        """The same statement with many values."""
        ...


class Connection(Step, Protocol):
    """A connection; outside of ``changing`` each question stands for itself."""

    @property
    def lost(self) -> bool:
        """Whether the server has hung up."""
        ...

    @property
    def unsure(self) -> bool:
        """Whether the end of a step was sent and not answered: it may have been done."""
        ...

    def changing(self) -> AbstractContextManager[object]:
        """All or nothing; what is durable afterwards is seen by others at once."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


@dataclass
class _Here:
    """What belongs to one process. Connections do not survive a fork."""

    process: int = field(default_factory=os.getpid)
    idle: list[Connection] = field(default_factory=list)
    turn: threading.Lock = field(default_factory=threading.Lock)


_left_behind: list[_Here] = []  # not even closed after a fork: the parent still uses them


class Database:
    """A database, through as many connections as there are threads that use it at the same time."""

    def __init__(
        self,
        url: str,
        opened: Callable[[], Connection],
        faults: type[Exception],
        *,
        one_writes: bool = False,
    ) -> None:
        """``one_writes``: threads wait for their turn here, because the database lets only one write."""
        self.url = url
        self._opened = opened
        self._faults = faults
        self._one_writes = one_writes
        self._here = _Here()

    def change(self, work: Callable[[Step], T], *, again: bool = False) -> T:
        """A step. ``again`` says that it may be done twice without harm."""

        def changed(connection: Connection) -> T:
            with self._turn(), connection.changing():
                return work(connection)

        return self._use(changed, again)

    def look(self, work: Callable[[Step], T]) -> T:
        """Questions that change nothing, each answered from one moment."""
        return self._use(work, again=True)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        for connection in _taken(self._mine().idle):
            connection.close()

    def _use(self, use: Callable[[Connection], T], again: bool) -> T:
        try:
            connection = self._connection()
            try:
                return use(connection)
            except self._faults:
                # The server may have been restarted since this connection was made.
                if not connection.lost or (connection.unsure and not again):
                    raise
            finally:
                self._give_back(connection)
            self.close()
            connection = self._connection()
            try:
                return use(connection)
            finally:
                self._give_back(connection)
        except self._faults as cause:
            raise errors.store_failed(self.url, cause) from cause

    def _connection(self) -> Connection:
        idle = self._mine().idle
        try:
            return idle.pop()
        except IndexError:
            return self._opened()

    def _give_back(self, connection: Connection) -> None:
        if connection.lost:
            connection.close()
        else:
            self._mine().idle.append(connection)

    def _turn(self) -> AbstractContextManager[object]:
        return self._mine().turn if self._one_writes else nullcontext()

    def _mine(self) -> _Here:
        if self._here.process != os.getpid():
            _left_behind.append(self._here)
            self._here = _Here()
        return self._here


def _taken(idle: list[Connection]) -> list[Connection]:
    """All of a list that other threads use, too."""
    found = []
    while idle:
        try:
            found.append(idle.pop())
        except IndexError:
            break
    return found
