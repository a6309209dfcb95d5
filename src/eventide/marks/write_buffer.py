"""Events that a writer has not stored yet: single events, and batches with a sequence number."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from eventide.errors import PlanError, shown
from eventide.marks.errors import TooLargeError, unknown_columns
from eventide.marks.events import Rows, key_points, to_table

FIRST_AUTO_SEQUENCE = 2**62
"""Sequences from here on are automatic, those below are explicit. So the last one shows which kind was used."""


class WriteBatch(NamedTuple):
    """Events under one sequence number, and their points in the key space.

    A batch never changes after it was sent, so the sequence alone shows whether it is already stored.
    """

    sequence: int
    table: pa.Table
    points: npt.NDArray[np.float64]
    is_atomic: bool = False
    """Whether it must be stored in one step."""


class WriteBuffer:
    """Events that are not known to be stored: batches to send, followed by single events.

    ``routing_column`` routes events that have no key of their own. Events without either are routed by batch, to the
    point of ``name`` and the sequence: a batch stays together, and batches are spread evenly.
    """

    def __init__(self, schema: pa.Schema, routing_column: str | None, name: str, last_sequence: int = 0) -> None:
        self.batches: deque[WriteBatch] = deque()
        self.last_sequence = last_sequence
        self.in_doubt = 0
        """The sequence of a batch that was sent and not acknowledged. It must be sent again unchanged."""
        self._schema = schema
        self._columns = frozenset(schema.names)
        self._routing_column = routing_column
        self._name = name
        self._events: list[Mapping[str, Any]] = []
        self._keys: list[str | None] = []
        self._is_explicit: bool | None = None

    def __len__(self) -> int:
        return len(self._events) + sum(len(batch.table) for batch in self.batches)

    @property
    def unbatched(self) -> int:
        """The number of events that are in no batch yet."""
        return len(self._events)

    @property
    def events(self) -> list[Mapping[str, Any]]:
        """All events, in the order in which they were written."""
        return [event for batch in self.batches for event in batch.table.to_pylist()] + list(self._events)

    def use_sequences(self, *, explicit: bool) -> None:
        """Choose explicit or automatic sequences. Reject a mix: batches would be mistaken for duplicates."""
        if self._is_explicit is not None and self._is_explicit != explicit:
            used = "append(…, sequence=…)" if self._is_explicit else "write(), or append() without sequence"
            raise PlanError(
                f"Writer {self._name!r} has already used {used}. Explicit and automatic sequences cannot be mixed, "
                "because batches would be skipped: use one of them only, or two writer ids."
            )
        self._is_explicit = explicit

    def add(self, event: Mapping[str, Any], key: str | None) -> None:
        """Add an event."""
        if not isinstance(event, dict | Mapping):  # the check for dict is fast, the one for Mapping is not
            raise PlanError(
                f"write() takes one event as a dict, not {type(event).__name__}. For many at once use append()."
            )
        if key is not None and not isinstance(key, str):
            raise PlanError(
                f"write(routing_key={shown(key)}): the key must be a text. To route by a column of another type, "
                "use Writer(…, routing_key='column')."
            )
        if not self._columns.issuperset(event):
            raise unknown_columns(sorted(set(event) - self._columns), self._schema.names)
        self._events.append(dict(event))  # the caller may change its dict
        self._keys.append(key)

    def make_batch(self) -> None:
        """Make a batch of the single events. An event that does not fit is removed and reported."""
        if not self._events:
            return
        try:
            table = to_table(self._events, self._schema)
        except PlanError:
            self._reject_first_misfit()
            raise
        points = self._points(table, self.last_sequence + 1, self._keys)
        self.last_sequence += 1
        self.batches.append(WriteBatch(self.last_sequence, table, points))
        self._events, self._keys = [], []

    def make_valid_batch(self) -> list[PlanError]:
        """Make a batch of all single events that fit. Return the errors of the others."""
        errors: list[PlanError] = []
        while self._events:
            count = len(self._events)
            try:
                self.make_batch()
            except PlanError as cause:
                if len(self._events) == count:
                    raise
                errors.append(cause)
        return errors

    def add_batch(self, rows: Rows, *, is_atomic: bool) -> None:
        """Add a batch of rows."""
        self.batches.append(self.new_batch(self.last_sequence + 1, rows)._replace(is_atomic=is_atomic))
        self.last_sequence += 1

    def new_batch(self, sequence: int, rows: Rows) -> WriteBatch:
        """Rows as a batch that is not added to the buffer."""
        table = to_table(rows, self._schema)
        return WriteBatch(sequence, table, self._points(table, sequence, ()))

    def split_first(self, cause: TooLargeError) -> None:
        """Split the first batch, which was too large. Later batches were never sent, so their sequences may change.

        A batch that cannot be split is removed and reported.
        """
        first = self.batches.popleft()
        count = len(first.table)
        if count < 2 or first.is_atomic:
            events = "1 event was" if count == 1 else f"{count} events of one append() were"
            raise TooLargeError(f"{events} not accepted: {cause} Other events are still buffered.") from cause
        half = count // 2
        pieces = [
            first._replace(table=first.table[:half], points=first.points[:half]),
            first._replace(table=first.table[half:], points=first.points[half:]),
        ]
        pending = [*pieces, *self.batches]
        self.batches = deque(batch._replace(sequence=number) for number, batch in enumerate(pending, first.sequence))
        self.last_sequence += 1

    def _points(self, table: pa.Table, sequence: int, keys: Sequence[str | None]) -> npt.NDArray[np.float64]:
        if self._routing_column is None:
            points = np.full(len(table), key_points([f"{self._name}/{sequence}"])[0])
        else:  # in the type of the stream, so that a key has one point however it was written
            column = table[self._routing_column]
            points = key_points(pl.Series(pl.from_arrow(column))) if len(table) else np.empty(0)
        keyed = [row for row, key in enumerate(keys) if key is not None]
        if keyed:
            points[keyed] = key_points([keys[row] for row in keyed])
        return points

    def _reject_first_misfit(self) -> None:
        for index, event in enumerate(self._events):
            try:
                to_table([event], self._schema)
            except PlanError as cause:
                del self._events[index], self._keys[index]
                raise PlanError(
                    f"The event {event!r} was rejected: {cause} The other {len(self)} events are still buffered."
                ) from cause
