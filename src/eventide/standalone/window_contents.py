"""What a window holds and emits: results of aggregates, or its new messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import polars as pl

from eventide import _columns as c
from eventide.aggregates import Aggregate, bind
from eventide.standalone.stores import MessageStore, Range
from eventide.standalone.stores.memory import WINDOW_NAME


class Content(Protocol):
    """The contents of windows, bound to the columns of messages."""

    @property
    def needs_messages(self) -> bool:
        """Whether messages are stored."""
        ...

    @property
    def schema(self) -> Mapping[str, pl.DataType]:
        """The columns that are stored with a window."""
        ...

    def start(self, assigned: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """Return the contents of new messages by window, and the messages on which user-written code failed."""
        ...

    def merge(self, windows: pl.DataFrame) -> pl.DataFrame:
        """Merge the stored and the new contents of each window. Stored contents precede new ones."""
        ...

    def output(self, windows: pl.DataFrame, messages: MessageStore) -> pl.DataFrame:
        """Return the rows to emit for these windows, with the name of the window."""
        ...

    def after_emission(self) -> list[pl.Expr]:
        """Return the contents of a window after its pane was emitted."""
        ...

    def inspect(self, windows: pl.DataFrame, messages: MessageStore) -> pl.DataFrame:
        """Return the windows for ``get_windows()``, with their name."""
        ...


class Results:
    """Results of aggregates.

    Small accumulators are stored with the window. Aggregates that need every value, such as a median or a list, are
    computed from the messages of the window when it is emitted.
    """

    def __init__(
        self, aggregates: Mapping[str, Aggregate], key: Sequence[str], schema: pl.Schema, *, by_session: bool
    ) -> None:
        columns = dict(schema) | {name: pl.Int64() for name in (c.OFFSET, c.TIME, c.AT)}
        needing_rows = {d.name for d in bind(aggregates, columns, time=c.TIME).describe() if d.needs_rows}
        small = {name: aggregate for name, aggregate in aggregates.items() if name not in needing_rows}
        large = {name: aggregate for name, aggregate in aggregates.items() if name in needing_rows}
        self._small = bind(small, columns, time=c.TIME) if small else None
        self._large = bind(large, columns, time=c.TIME) if large else None
        self._key = list(key)
        self._names = list(aggregates)
        self._by_session = by_session
        self.needs_messages = self._large is not None
        self.schema: Mapping[str, pl.DataType] = self._small.schema if self._small else {}

    def start(self, assigned: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """Return cells, where accumulators are stored with the window."""
        if self._small is None:
            return assigned.select(WINDOW_NAME).unique(maintain_order=True), None
        started = self._small.start(assigned, WINDOW_NAME)
        if started.failed is None:
            return started.cells, None
        # A message that fails in one of its windows counts in none of them.
        failed = assigned[started.failed].unique(c.OFFSET, maintain_order=True)
        usable = assigned.join(failed, on=c.OFFSET, how="anti", maintain_order="left")
        return self._small.start(usable, WINDOW_NAME).cells, failed

    def merge(self, windows: pl.DataFrame) -> pl.DataFrame:
        """Return one cell per window."""
        return windows.select(WINDOW_NAME).unique() if self._small is None else self._small.merge(windows, WINDOW_NAME)

    def output(self, windows: pl.DataFrame, messages: MessageStore) -> pl.DataFrame:
        """Return one row of results per window."""
        results = windows.select(*WINDOW_NAME, *self._key)
        if self._small is not None:
            small = self._small.results(windows.select(*WINDOW_NAME, *self._small.columns))
            results = results.join(small, on=WINDOW_NAME, how="left", maintain_order="left")
        if self._large is not None:
            large = self._large.results(self._large.start(self._rows(windows, messages), WINDOW_NAME).cells)
            results = results.join(large, on=WINDOW_NAME, how="left", maintain_order="left")
        return results.select(*WINDOW_NAME, *self._key, *self._names)

    def after_emission(self) -> list[pl.Expr]:
        """Return nothing: results accumulate."""
        return []

    def inspect(self, windows: pl.DataFrame, messages: MessageStore) -> pl.DataFrame:
        """Return the current results."""
        return self.output(windows, messages)

    def _rows(self, windows: pl.DataFrame, messages: MessageStore) -> pl.DataFrame:
        """Return the messages of windows, with the window name. Windows with the same bounds share one read."""
        by = WINDOW_NAME if self._by_session else [c.START, c.END]
        parts = []
        for row in windows.select(by).unique(maintain_order=True).iter_rows(named=True):
            read = messages.read(Range(row[c.START], row[c.END]), session=row.get(c.SESSION))
            if read is not None:
                parts.append(read.with_columns(pl.lit(row[name], pl.Int64).alias(name) for name in (c.START, c.END)))
        if not parts:
            return windows.select(WINDOW_NAME).clear()
        return pl.concat(parts).join(windows.select(WINDOW_NAME), on=WINDOW_NAME, how="semi", maintain_order="left")


class NewMessages:
    """The messages since the last pane of a window, for joins."""

    needs_messages = True
    schema: Mapping[str, pl.DataType] = {c.PENDING_OFFSETS: pl.List(pl.Int64)}

    def __init__(self, key: Sequence[str], schema: pl.Schema) -> None:
        self._key = list(key)
        self._columns = schema.names()
        self._empty = pl.DataFrame(schema=schema | {c.OFFSET: pl.Int64()})
        self._pending = self._empty  # pending messages that this process has seen

    def start(self, assigned: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """Return the new offsets of each window."""
        self._pending = pl.concat([self._pending, assigned.select(self._empty.columns)])
        return assigned.group_by(WINDOW_NAME, maintain_order=True).agg(pl.col(c.OFFSET).alias(c.PENDING_OFFSETS)), None

    def merge(self, windows: pl.DataFrame) -> pl.DataFrame:
        """Return all pending offsets."""
        return windows.group_by(WINDOW_NAME, maintain_order=True).agg(
            pl.col(c.PENDING_OFFSETS).list.explode(keep_nulls=False, empty_as_null=False)
        )

    def output(self, windows: pl.DataFrame, messages: MessageStore) -> pl.DataFrame:
        """Return the pending messages, in the order of arrival."""
        offsets = windows.select(*WINDOW_NAME, pl.col(c.PENDING_OFFSETS).alias(c.OFFSET)).explode(c.OFFSET)
        missing = offsets.join(self._pending, on=c.OFFSET, how="anti")[c.OFFSET]
        stored = messages.named(missing) if missing.len() else None
        if stored is not None:
            self._pending = pl.concat([self._pending, stored.select(self._empty.columns)])
        pending = offsets.join(self._pending, on=c.OFFSET, maintain_order="left")
        self._pending = self._pending.join(pending, on=c.OFFSET, how="anti")
        return pending.select(*WINDOW_NAME, *self._columns)

    def after_emission(self) -> list[pl.Expr]:
        """Return no pending offsets."""
        return [pl.lit([], pl.List(pl.Int64)).alias(c.PENDING_OFFSETS)]

    def inspect(self, windows: pl.DataFrame, messages: MessageStore) -> pl.DataFrame:
        """Return the keys of the windows."""
        return windows.select(*WINDOW_NAME, *self._key)
