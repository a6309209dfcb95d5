"""Tables of a lakehouse that equal the sum of the diffs: the part that Delta Lake and Iceberg share.

A batch changes a table in one commit, and the same commit names the batch. So a batch that Spark repeats has no effect.
The rows of the windows that a batch touches are read, changed in memory and replaced. The cost of a batch follows these
windows, not the table, as long as files are written in the order of event time, which streams do by themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import polars as pl
import pyarrow as pa

from eventide.errors import DataError, DriverLimitWarning, PlanError
from eventide.panes import WINDOW
from eventide.sinks.sink import Output, OutputInfo
from eventide.sinks.table_merge import table_changes
from eventide.sinks.table_sql import COPIES, TableLayout, table_layout

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from eventide.sinks.batch import SinkBatch

_START = WINDOW[0]
_MOST_STARTS = 256  # a longer list of windows becomes a range
_UNSUPPORTED = ("map", "variant", "void", "daytimeinterval", "yearmonthinterval", "interval", "time")
_ATTEMPTS = 5
_LARGE = 256 << 20
"""Batches from this size on are reported if the executors have them: the driver holds them, and some copies."""
_NTH = "__nth"


@dataclass(frozen=True)
class WindowFilter:
    """The windows of a batch, by their start: a list, or a range that holds more windows than the batch has."""

    starts: tuple[object, ...] = ()
    bounds: tuple[object, object] | None = None
    has_null: bool = False  # the global window has no start

    @classmethod
    def of(cls, rows: pl.DataFrame) -> WindowFilter:
        """Return the windows of some panes.

        >>> WindowFilter.of(pl.DataFrame({"window_start": [3, None, 1, 3]}))
        WindowFilter(starts=(1, 3), bounds=None, has_null=True)
        """
        starts = rows[_START].unique().sort()
        present = starts.drop_nulls()
        has_null = len(present) < len(starts)
        if len(present) > _MOST_STARTS:
            return cls(bounds=(present[0], present[-1]), has_null=has_null)
        return cls(starts=tuple(present.to_list()), has_null=has_null)


class LakeTable(Protocol):
    """A table in a format of a lakehouse. Each method but ``rows_in`` makes at most one commit."""

    @property
    def name(self) -> str:
        """The table in messages."""
        ...

    @property
    def conflicts(self) -> tuple[type[Exception], ...]:
        """What the library raises if another writer committed first."""
        ...

    def prepare(self, schema: pa.Schema, *, extend: bool) -> None:
        """Create the table, or reject one with other columns. ``extend`` adds the columns that it lacks."""
        ...

    def last_batch(self, claim: str) -> int | None:
        """Return the number of the last batch that the newest commit of a claim names."""
        ...

    def rows_in(self, windows: WindowFilter) -> pa.Table:
        """Return the rows of some windows, as of the version that the next commit follows."""
        ...

    def append(self, rows: pa.Table, claim: str, batch_id: int) -> None:
        """Append rows."""
        ...

    def replace(self, windows: WindowFilter, rows: pa.Table, claim: str, batch_id: int) -> None:
        """Replace all rows of some windows."""
        ...


@dataclass(frozen=True)
class LakeSink:
    """The outputs of a query as tables of a lakehouse, exactly once."""

    table: LakeTable
    label: str
    columns: tuple[str, ...] | None = None
    log: bool = False
    _layouts: dict[Output, TableLayout] = field(default_factory=dict, compare=False, repr=False)
    _warned: list[int] = field(default_factory=list, compare=False, repr=False)

    def __repr__(self) -> str:
        return self.label

    @property
    def collects(self) -> bool:
        """Whether the driver holds each batch in memory, also if the executors have its rows."""
        return True

    def open(self, schema: StructType, info: OutputInfo) -> None:
        """Create the table, or compare it with the output."""
        from pyspark.sql.pandas.types import to_arrow_schema

        layout = table_layout(schema, info, self.columns)
        layout = TableLayout(layout.read) if self.log else layout
        self._check_types(layout)
        arrow = to_arrow_schema(schema, timezone="UTC")
        wanted = pa.schema([_wider(arrow.field(name)) for name in layout.columns])
        self.table.prepare(wanted, extend=info.output != "panes")
        self._layouts[info.output] = layout

    def write(self, batch: SinkBatch, batch_id: int, info: OutputInfo) -> None:
        """Change the table in one commit, unless a commit names the batch already."""
        table, layout = self.table, self._layouts[info.output]
        claim = f"eventide.{info.query}.{info.output}"
        for attempt in range(_ATTEMPTS):
            last = table.last_batch(claim)
            if (last is not None and last >= batch_id) or batch.is_empty():
                return
            self._warn_of_size(batch, batch_id)
            try:
                self._commit(table, layout, batch, claim, batch_id)
                return
            except table.conflicts as cause:  # another writer committed first: read again
                if attempt + 1 == _ATTEMPTS:
                    raise DataError(
                        f"Batch {batch_id} was not written to {table.name}: other writers committed first, "
                        f"{_ATTEMPTS} times. A restart from the checkpoint writes it again. Cause: {cause}"
                    ) from cause

    def close(self) -> None:
        """Do nothing: no connection stays open between commits."""

    def _commit(self, table: LakeTable, layout: TableLayout, batch: SinkBatch, claim: str, batch_id: int) -> None:
        names = [column.name for column in layout.read]
        arrow = batch.arrow.select(names)
        if not layout.identity:
            table.append(_widened(arrow.select(layout.columns)), claim, batch_id)
            return
        rows = pl.DataFrame(arrow)
        windows = WindowFilter.of(rows)
        current = pl.DataFrame(table.rows_in(windows)).select(layout.columns)
        updated = apply_changes(current, rows, layout).sort(layout.identity, nulls_last=False)
        table.replace(windows, _widened(updated.to_arrow(compat_level=pl.CompatLevel.oldest())), claim, batch_id)

    def _warn_of_size(self, batch: SinkBatch, batch_id: int) -> None:
        """Warn, once for each sink, of a large batch that the driver collects from the executors.

        If its size is not known before, it is collected first.
        """
        if batch.is_local or self._warned:
            return
        size = batch.arrow.nbytes if batch.size is None else batch.size
        if size < _LARGE:
            return
        self._warned.append(batch_id)
        warnings.warn(
            f"Batch {batch_id} has {size >> 20:,} MB for {self!r}, and the driver collects it: it reads the "
            "windows of the batch, changes them and replaces them in one commit. Use smaller batches "
            "(maxFilesPerTrigger, maxOffsetsPerTrigger), or give the driver several times this memory.",
            DriverLimitWarning,
            stacklevel=2,
        )

    def _check_types(self, layout: TableLayout) -> None:
        for column in layout.fields:
            if column.kind in _UNSUPPORTED:
                raise PlanError(
                    f"{self!r}: the column {column.name!r} is {column.dtype.simpleString()}, which the table cannot "
                    "store. Cast it, or name the columns to store: columns=[…]."
                )


def apply_changes(current: pl.DataFrame, rows: pl.DataFrame, layout: TableLayout) -> pl.DataFrame:
    """Return the rows of some windows after a batch, given those before it.

    >>> layout = TableLayout((), identity=("k",))
    >>> before = pl.DataFrame({"k": ["a", "b"], "n": [1, 5]})
    >>> batch = pl.DataFrame({"k": ["a", "a", "b"], "n": [1, 2, 5], "pane_index": [0, 1, 0], "diff": [-1, 1, -1]})
    >>> apply_changes(before, batch, layout).rows()
    [('a', 2)]
    """
    added, removed = table_changes(rows, layout)
    added = added.select(current.columns).cast(current.schema)
    if layout.many == "each":
        numbered = current.with_columns(pl.int_range(pl.len()).over(layout.content).alias(_NTH))
        counted = numbered.join(removed, on=layout.content, how="left", nulls_equal=True)
        left = counted.filter(pl.col(_NTH) >= pl.col(COPIES).fill_null(0)).select(current.columns)
        return pl.concat([left, added])
    identities = pl.concat([added.select(layout.identity), removed.select(layout.identity)])
    left = current.join(identities, on=layout.identity, how="anti", nulls_equal=True)
    return pl.concat([left, added])


def check_columns(name: str, current: pa.Schema, wanted: pa.Schema, *, extend: bool) -> None:
    """Reject a table whose columns have other types than those of the output, which a write would cast silently.

    Unless the table is extended, reject other columns too: they would stay empty.
    """
    other = [
        f"{column.name} is {current.field(column.name).type} in the table and {column.type} in the output"
        for column in wanted
        if column.name in current.names and _common(current.field(column.name).type) != _common(column.type)
    ]
    if other:
        raise PlanError(
            f"{name} has columns of other types than this output: {'; '.join(other)}. Cast these columns in the "
            "pipeline, or use another table."
        )
    missing = [] if extend else [column.name for column in new_columns(current, wanted)]
    extra = [] if extend else [column for column in current.names if column not in wanted.names]
    if missing or extra:
        raise PlanError(
            f"{name} has other columns than this output: {_named('missing', missing)}{_named('not written', extra)}"
            "use another table, or choose columns=[…]."
        )


def new_columns(current: pa.Schema, wanted: pa.Schema) -> list[pa.Field]:
    """Return the columns that a table lacks."""
    return [column for column in wanted if column.name not in current.names]


def _named(what: str, names: Sequence[str]) -> str:
    return f"{what} {', '.join(names)}; " if names else ""


def _common(dtype: pa.DataType) -> pa.DataType:
    """Return the type that stands for all types of Arrow in which a format may return a column.

    >>> _common(pa.large_list(pa.field("item", pa.large_string(), nullable=False)))
    ListType(list<element: string>)
    """
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return pa.list_(pa.field("element", _common(dtype.value_type)))
    if pa.types.is_struct(dtype):
        return pa.struct([pa.field(part.name, _common(part.type)) for part in dtype])
    if pa.types.is_large_string(dtype):
        return pa.string()
    if pa.types.is_large_binary(dtype):
        return pa.binary()
    return pa.int32() if pa.types.is_int8(dtype) or pa.types.is_int16(dtype) else dtype


def _wider(column: pa.Field) -> pa.Field:
    """Return a column with the narrowest type that both formats have; all may be null."""
    narrow = pa.types.is_int8(column.type) or pa.types.is_int16(column.type)
    return pa.field(column.name, pa.int32() if narrow else column.type, nullable=True)


def _widened(rows: pa.Table) -> pa.Table:
    return rows.cast(pa.schema([_wider(column) for column in rows.schema]))
