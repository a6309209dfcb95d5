"""What a window holds and tells: results of aggregates, or the messages that are new in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import polars as pl

from eventide.aggregates import Aggregate, bind
from eventide.operators import columns as c
from eventide.standalone import columns as s
from eventide.standalone.stores import Messages, Range
from eventide.standalone.stores.windows import NAME


class Content(Protocol):
    """What a kind of operator keeps in its windows. It is bound to the columns of messages before it is used."""

    @property
    def needs_messages(self) -> bool:
        """Messages are kept as they are."""
        ...

    @property
    def schema(self) -> Mapping[str, pl.DataType]:
        """The columns that rest with a window."""
        ...

    def started(self, placed: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """By window, what its new messages bring; and the messages on which user-written code failed."""
        ...

    def merged(self, windows: pl.DataFrame) -> pl.DataFrame:
        """What is known and what is new of each window, older first, as one."""
        ...

    def told(self, windows: pl.DataFrame, messages: Messages) -> pl.DataFrame:
        """What there is to tell of these windows: one or more rows each, with the window's name."""
        ...

    def afterwards(self) -> list[pl.Expr]:
        """What changes in a window that was told."""
        ...

    def shown(self, windows: pl.DataFrame, messages: Messages) -> pl.DataFrame:
        """The windows as a user sees them, with their name."""
        ...


class Results:
    """Results of aggregates.

    Aggregates whose partial results stay small rest in the window. The others, which need every value (a median, a
    list), are computed from the messages of the window when it is told.
    """

    def __init__(
        self, aggregates: Mapping[str, Aggregate], key: Sequence[str], schema: pl.Schema, *, by_session: bool
    ) -> None:
        columns = dict(schema) | {name: pl.Int64() for name in (s.OFFSET, c.TIME, c.AT)}
        needy = {d.name for d in bind(aggregates, columns, time=c.TIME).describe() if d.needs_rows}
        small = {name: aggregate for name, aggregate in aggregates.items() if name not in needy}
        large = {name: aggregate for name, aggregate in aggregates.items() if name in needy}
        self._small = bind(small, columns, time=c.TIME) if small else None
        self._large = bind(large, columns, time=c.TIME) if large else None
        self._key = list(key)
        self._names = list(aggregates)
        self._by_session = by_session
        self.needs_messages = self._large is not None
        self.schema: Mapping[str, pl.DataType] = self._small.schema if self._small else {}

    def started(self, placed: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """Cells, where partial results rest in the window."""
        if self._small is None:
            return placed.select(NAME).unique(maintain_order=True), None
        started = self._small.start(placed, NAME)
        if started.failed is None:
            return started.cells, None
        # A message that fails in one of its windows counts in none.
        failed = placed[started.failed].unique(s.OFFSET, maintain_order=True)
        usable = placed.join(failed, on=s.OFFSET, how="anti", maintain_order="left")
        return self._small.start(usable, NAME).cells, failed

    def merged(self, windows: pl.DataFrame) -> pl.DataFrame:
        """One cell a window."""
        return windows.select(NAME).unique() if self._small is None else self._small.merge(windows, NAME)

    def told(self, windows: pl.DataFrame, messages: Messages) -> pl.DataFrame:
        """One row of results a window."""
        found = windows.select(*NAME, *self._key)
        if self._small is not None:
            small = self._small.results(windows.select(*NAME, *self._small.columns))
            found = found.join(small, on=NAME, how="left", maintain_order="left")
        if self._large is not None:
            large = self._large.results(self._large.start(self._rows(windows, messages), NAME).cells)
            found = found.join(large, on=NAME, how="left", maintain_order="left")
        return found.select(*NAME, *self._key, *self._names)

    def afterwards(self) -> list[pl.Expr]:
        """Results accumulate: a window that was told keeps what it holds."""
        return []

    def shown(self, windows: pl.DataFrame, messages: Messages) -> pl.DataFrame:
        """The results as they stand."""
        return self.told(windows, messages)

    def _rows(self, windows: pl.DataFrame, messages: Messages) -> pl.DataFrame:
        """The messages of the windows, beside them. Windows with the same bounds share one read."""
        by = NAME if self._by_session else [c.START, c.END]
        parts = []
        for row in windows.select(by).unique(maintain_order=True).iter_rows(named=True):
            read = messages.read(Range(row[c.START], row[c.END]), session=row.get(s.SESSION))
            if read is not None:
                parts.append(read.with_columns(pl.lit(row[name], pl.Int64).alias(name) for name in (c.START, c.END)))
        if not parts:
            return windows.select(NAME).clear()
        return pl.concat(parts).join(windows.select(NAME), on=NAME, how="semi", maintain_order="left")


class NewMessages:
    """The messages that were added since a window was told; which is how joins see a stream."""

    needs_messages = True
    schema: Mapping[str, pl.DataType] = {s.WAITING: pl.List(pl.Int64)}

    def __init__(self, key: Sequence[str], schema: pl.Schema) -> None:
        self._key = list(key)
        self._columns = schema.names()
        self._empty = pl.DataFrame(schema=schema | {s.OFFSET: pl.Int64()})
        self._fresh = self._empty  # messages that wait, as far as this process has seen them

    def started(self, placed: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """The offsets that are new in each window."""
        self._fresh = pl.concat([self._fresh, placed.select(self._empty.columns)])
        return placed.group_by(NAME, maintain_order=True).agg(pl.col(s.OFFSET).alias(s.WAITING)), None

    def merged(self, windows: pl.DataFrame) -> pl.DataFrame:
        """All that wait."""
        return windows.group_by(NAME, maintain_order=True).agg(
            pl.col(s.WAITING).list.explode(keep_nulls=False, empty_as_null=False)
        )

    def told(self, windows: pl.DataFrame, messages: Messages) -> pl.DataFrame:
        """The messages that wait, in the order of arrival."""
        waiting = windows.select(*NAME, pl.col(s.WAITING).alias(s.OFFSET)).explode(s.OFFSET)
        missing = waiting.join(self._fresh, on=s.OFFSET, how="anti")[s.OFFSET]
        stored = messages.named(missing) if missing.len() else None
        if stored is not None:
            self._fresh = pl.concat([self._fresh, stored.select(self._empty.columns)])
        found = waiting.join(self._fresh, on=s.OFFSET, maintain_order="left")
        self._fresh = self._fresh.join(found, on=s.OFFSET, how="anti")
        return found.select(*NAME, *self._columns)

    def afterwards(self) -> list[pl.Expr]:
        """Nothing waits any more."""
        return [pl.lit([], pl.List(pl.Int64)).alias(s.WAITING)]

    def shown(self, windows: pl.DataFrame, messages: Messages) -> pl.DataFrame:
        """Just the windows."""
        return windows.select(*NAME, *self._key)
