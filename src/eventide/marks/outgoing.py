"""Events on their way to a stream: written one by one, sent in batches that never change."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from eventide.errors import PlanError
from eventide.errors import marks as stream_errors
from eventide.errors import writers as errors
from eventide.errors.controller import TooLargeError
from eventide.errors.marks import SeatTakenError
from eventide.marks.events import Rows, points, table_of

AUTOMATIC = 2**62
"""Numbers from here on are given by writers, those below by users: so the last one shows which of them were used."""


class Batch(NamedTuple):
    """Events under one number, and where each of them lies in the key space.

    Whenever it is sent again it is the same, so that the number alone shows whether it was stored before.
    """

    number: int
    table: pa.Table
    where: npt.NDArray[np.float64]
    together: bool = False
    """Whether it must be stored in one step."""


class Outgoing:
    """Events that were written and are not known to be stored: loose ones, after batches that wait to be sent.

    ``column`` routes events, unless an event has a key of its own. Those without either go by batches: each batch to
    the place that ``name`` and its number give, so that a batch is one piece, and many are spread evenly.
    """

    def __init__(self, schema: pa.Schema, column: str | None, name: str, last: int = 0) -> None:
        self.batches: deque[Batch] = deque()
        self.last = last
        """The number of the last batch."""
        self._schema = schema
        self._names = frozenset(schema.names)
        self._column = column
        self._name = name
        self._events: list[Mapping[str, Any]] = []
        self._keys: list[str | None] = []
        self._own_numbers: bool | None = None
        self._unsure = 0
        """The number of a batch that was sent, and not answered: it must be sent again as it is."""

    def __len__(self) -> int:
        return len(self._events) + sum(len(batch.table) for batch in self.batches)

    @property
    def loose(self) -> int:
        """How many events are in no batch yet."""
        return len(self._events)

    @property
    def events(self) -> list[Mapping[str, Any]]:
        """All of them, in the order in which they were written."""
        return [event for batch in self.batches for event in batch.table.to_pylist()] + list(self._events)

    def number_by(self, *, own: bool) -> None:
        """Refuse batches with numbers of the user's own beside others: they would be taken for one another."""
        if self._own_numbers is not None and self._own_numbers != own:
            raise errors.mixed_numbering(self._name, self._own_numbers)
        self._own_numbers = own

    def add(self, event: Mapping[str, Any], key: str | None) -> None:
        """One more event. Refused if it, or its key, is none."""
        if not isinstance(event, dict | Mapping):  # a dict is known at once, any other mapping is looked up
            raise errors.not_an_event(event)
        if key is not None and not isinstance(key, str):
            raise errors.not_a_routing_key(key)
        if not self._names.issuperset(event):
            raise stream_errors.unknown_columns(sorted(set(event) - self._names), self._schema.names)
        self._events.append(dict(event))  # the caller may go on using theirs
        self._keys.append(key)

    def gather(self) -> None:
        """Make a batch of the loose events. One that does not fit is refused, and does not hold up the others."""
        if not self._events:
            return
        try:
            table = table_of(self._events, self._schema)
        except PlanError:
            self._refuse_the_first_bad_one()
            raise
        where = self._where(table, self.last + 1, self._keys)
        self.last += 1
        self.batches.append(Batch(self.last, table, where))
        self._events, self._keys = [], []

    def sift(self) -> list[PlanError]:
        """Make a batch of all loose events that fit; what is wrong with the others."""
        refused: list[PlanError] = []
        while self._events:
            before = len(self._events)
            try:
                self.gather()
            except PlanError as cause:
                if len(self._events) == before:
                    raise
                refused.append(cause)
        return refused

    def take(self, rows: Rows, *, together: bool) -> None:
        """A batch of these rows."""
        self.batches.append(self.batch(self.last + 1, rows)._replace(together=together))
        self.last += 1

    def send_first(self, send: Callable[[Batch], None]) -> None:
        """Send the first batch, which then waits no more. One that is refused as too large is halved instead."""
        first = self.batches[0]
        try:
            send(first)
        except TooLargeError as cause:
            if first.number == self._unsure:
                raise
            self._halve(cause)
        except (PlanError, SeatTakenError):
            raise
        except BaseException:
            self._unsure = first.number
            raise
        else:
            self.batches.popleft()

    def _halve(self, cause: TooLargeError) -> None:
        """Two batches in the place of the first. Those behind it were never sent, so their numbers may change, too."""
        first = self.batches.popleft()
        size = len(first.table)
        if size < 2 or first.together:
            raise errors.too_large_to_send(size, cause) from cause
        half = size // 2
        pieces = [
            first._replace(table=first.table[:half], where=first.where[:half]),
            first._replace(table=first.table[half:], where=first.where[half:]),
        ]
        waiting = [*pieces, *self.batches]
        self.batches = deque(one._replace(number=number) for number, one in enumerate(waiting, first.number))
        self.last += 1

    def batch(self, number: int, rows: Rows) -> Batch:
        """Rows as a batch that is not kept here."""
        table = table_of(rows, self._schema)
        return Batch(number, table, self._where(table, number, ()))

    def _where(self, table: pa.Table, number: int, keys: Sequence[str | None]) -> npt.NDArray[np.float64]:
        if self._column is None:
            where = np.full(len(table), points([f"{self._name}/{number}"])[0])
        else:  # as the stream types it, so that a key has one place however it was written
            where = points(pl.Series(pl.from_arrow(table[self._column]))) if len(table) else np.empty(0)
        own = [place for place, key in enumerate(keys) if key is not None]
        if own:
            where[own] = points([keys[place] for place in own])
        return where

    def _refuse_the_first_bad_one(self) -> None:
        for place, event in enumerate(self._events):
            try:
                table_of([event], self._schema)
            except PlanError as cause:
                del self._events[place], self._keys[place]
                raise errors.bad_event(event, len(self), cause) from cause
