"""User-written code, row by row: how it is run, and what happens when it raises."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from eventide.aggregates.aggregate import Aggregate, Parts, Source
from eventide.aggregates.entries import Entries, multiset, spelled_out
from eventide.aggregates.numbering import GROUP, Numbered, number
from eventide.errors import DataError
from eventide.errors import aggregates as errors

_PICKLE = 5  # fixed, so that the same state has the same bytes under every version of Python

Change: TypeAlias = tuple[int, Any, bool]
"""A row: its position, what user code sees of it, and whether it comes or is taken back."""


class UserCodeError(Exception):
    """User-written code raised for one cell. Whoever knows the cell's key turns this into a DataError."""

    def __init__(self, function: str, cell: int, cause: Exception):
        super().__init__(function, cell, cause)
        self.function, self.cell, self.cause = function, cell, cause

    def with_key(self, keys: pl.DataFrame) -> DataError:
        """The error as the user sees it."""
        key = keys.row(self.cell, named=True) if keys.width else {}
        return errors.merge_failed(self.function, key, self.cause)


@dataclass(frozen=True, eq=False)
class RowWise:
    """A pickled state per group."""

    name: str
    aggregate: Aggregate
    columns: Sequence[str]
    """What user code sees of a row."""
    bare: bool
    """It sees the value of the only column, not a dict, and never a null."""
    diff: str | None
    keeps_rows: bool = False
    empty: object = None

    @property
    def dtype(self) -> pl.DataType:  # noqa: D102
        return pl.Binary()

    def start(self, rows: pl.DataFrame, groups: int) -> tuple[pl.Series, dict[int, str]]:
        """A state for each group, and why rows failed, by their position."""
        seen = rows[self.columns[0]].to_list() if self.bare else rows.select(self.columns).to_dicts()
        signs = rows[self.diff].to_list() if self.diff else None
        failures: dict[int, str] = {}
        states = []
        for members in _members(rows[GROUP], groups):
            changes = [
                (position, seen[position], signs is None or signs[position] > 0)
                for position in members
                if not (self.bare and seen[position] is None)
            ]
            states.append(_pickled(self._folded(changes, failures), self.aggregate))
        return pl.Series(states, dtype=pl.Binary), failures

    def merge(self, cells: pl.DataFrame, groups: int) -> pl.Series:
        """A state for each group, from partial ones in order of arrival."""
        parts = cells[self.name].to_list()
        merged = []
        for cell, members in enumerate(_members(cells[GROUP], groups)):
            known = [parts[i] for i in members if parts[i] is not None]
            merged.append(self._joined(known, cell) if len(known) > 1 else next(iter(known), None))
        return pl.Series(merged, dtype=pl.Binary)

    def results(self, cells: pl.DataFrame) -> pl.Series:
        """What the states show."""
        states = (None if s is None else pickle.loads(s) for s in cells[self.name].to_list())
        return finished(self.aggregate, states)

    def _folded(self, changes: Sequence[Change], failures: dict[int, str]) -> Any:
        """All rows of a group in one state. A row on which user code raises leaves no trace in it."""
        state, before, careful = _fresh(self.aggregate), b"", False
        for nth, (position, row, comes) in enumerate(changes):
            if careful:
                before = _pickled(state, self.aggregate)
            try:
                state = self.aggregate.add(state, row) if comes else self.aggregate.remove(state, row)
            except Exception as cause:
                method = "add" if comes else "remove"
                if self.aggregate.on_error == "raise":
                    raise errors.row_failed(_called(self.aggregate, method), row, cause) from cause
                failures[position] = errors.reason(_called(self.aggregate, method), cause)
                # The state may be half changed. Copies cost time, so they are made only after a failure.
                state = pickle.loads(before) if careful else self._folded(changes[:nth], failures)
                careful = True
        return state

    def _joined(self, pickled: Sequence[bytes], cell: int) -> bytes:
        try:
            state = pickle.loads(pickled[0])
            for other in pickled[1:]:
                state = self.aggregate.merge(state, pickle.loads(other))
        except Exception as cause:
            raise UserCodeError(_called(self.aggregate, "merge"), cell, cause) from cause
        return _pickled(state, self.aggregate)


def bind_rowwise(aggregate: Aggregate, source: Source) -> Parts:
    """An aggregate that is written as ``create``, ``add``, ``merge`` and ``result``."""
    if not aggregate.python:
        raise errors.unfinished_aggregate(aggregate, "bind")
    if aggregate.dtype is None:
        raise errors.undeclared_result(aggregate)
    if aggregate.on_error not in ("dead_letter", "raise"):
        raise errors.bad_on_error(str(aggregate), aggregate.on_error)
    bare = isinstance(aggregate.reads, str)
    columns = [aggregate.reads] if isinstance(aggregate.reads, str) else list(aggregate.reads or _whole_row(source))
    types = {column: source.dtype(column, aggregate) for column in columns}
    if not aggregate.mergeable:
        return _over_kept_rows(aggregate, source, types, bare)
    if source.diff is not None and not aggregate.invertible:
        raise errors.no_retractions(
            aggregate,
            "Give it a remove method that undoes add, or leave merge away: then rows are kept instead.",
        )
    # Named for the result: two lambdas look alike, but must not share a state.
    states = RowWise(f"state({source.name})", aggregate, columns, bare, source.diff)
    return Parts([states], states.results)


def start_rowwise(
    accumulators: Sequence[RowWise], rows: pl.DataFrame, by: Sequence[str]
) -> tuple[Numbered, list[pl.Series], dict[int, str]]:
    """The states of all row-wise accumulators, over the rows on which none of them fails.

    A row that fails in one must not count in another, so failures start the whole over without those rows.
    """
    failures: dict[int, str] = {}
    positions = np.arange(rows.height)
    while True:
        numbered = number(rows, by)
        states: list[pl.Series] = []
        failed: dict[int, str] = {}
        for accumulator in accumulators:
            state, reasons = accumulator.start(numbered.rows, numbered.groups)
            states.append(state.alias(accumulator.name))
            failed = reasons | failed
        if not failed:
            return numbered, states, failures
        failures |= {int(positions[i]): reason for i, reason in failed.items()}
        good = np.ones(rows.height, bool)
        good[list(failed)] = False
        rows, positions = rows.filter(pl.Series(good)), positions[good]


def finished(aggregate: Aggregate, states: Any) -> pl.Series:
    """The results of states; None stands for that of no rows."""
    values = []
    for cell, state in enumerate(states):
        try:
            values.append(aggregate.result(_fresh(aggregate) if state is None else state))
        except Exception as cause:
            raise UserCodeError(_called(aggregate, "result"), cell, cause) from cause
    try:
        return pl.Series(values, dtype=aggregate.dtype)
    except Exception as cause:
        raise errors.result_misfit(aggregate, aggregate.dtype, cause) from cause


def _over_kept_rows(aggregate: Aggregate, source: Source, types: Mapping[str, pl.DataType], bare: bool) -> Parts:
    """Rows are kept, and all of them are added, in the order of event time, for every result."""
    time = pl.col(source.time)
    keep = pl.col(next(iter(types))).is_not_null() if bare else pl.lit(True)
    row, dtype = pl.struct(*types), pl.Struct(dict(types))
    name = f"rows({', '.join(types)})"
    if source.diff is None:
        fields = {"time": time, "row": row}
        kept = Entries(name, fields, {"time": pl.Int64(), "row": dtype}, keep=keep, order=["time", "row"])
    else:
        kept = multiset(name, source, {"time": (time, pl.Int64()), "row": (row, dtype)}, keep=keep)

    def folded(cell: int, rows: Sequence[dict[str, Any]]) -> Any:
        state = _fresh(aggregate)
        try:
            for each in rows:
                state = aggregate.add(state, next(iter(each.values())) if bare else each)
        except Exception as cause:
            raise UserCodeError(_called(aggregate, "add"), cell, cause) from cause
        return state

    def results(cells: pl.DataFrame) -> pl.Series:
        if source.diff is None:
            lists = cells[name].list.eval(pl.element().struct.field("row"))
        else:
            lists = spelled_out(cells, kept, "row")
        return finished(aggregate, (folded(cell, rows) for cell, rows in enumerate(lists.to_list())))

    return Parts([kept], results)


def _whole_row(source: Source) -> list[str]:
    # A pane and its retraction differ in these two, and must still be recognised as the same row.
    own = [c for c in source.schema if not c.startswith("__")]
    return [c for c in own if source.diff is None or c not in (source.diff, "diff", "pane")]


def _members(numbers: pl.Series, groups: int) -> Iterator[list[int]]:
    """The positions of each group, in order."""
    order = np.argsort(numbers.to_numpy(), kind="stable").tolist()
    end = 0
    for size in np.bincount(numbers.to_numpy(), minlength=groups).tolist():
        start, end = end, end + size
        yield order[start:end]


def _fresh(aggregate: Aggregate) -> Any:
    try:
        return aggregate.create()
    except Exception as cause:
        raise errors.merge_failed(_called(aggregate, "create"), {}, cause) from cause


def _pickled(state: Any, aggregate: Aggregate) -> bytes:
    try:
        return pickle.dumps(state, _PICKLE)
    except Exception as cause:
        raise errors.not_picklable(aggregate, cause) from cause


def _called(aggregate: Aggregate, method: str) -> str:
    """What the user calls the code that failed."""
    written: Callable[..., Any] | None = getattr(aggregate, "written", {}).get(method)
    if written is None:
        return f"{type(aggregate).__qualname__}.{method}"
    return f"{aggregate.word}: {called(written)}"


def called(function: Callable[..., Any]) -> str:
    """The name of a function as its author knows it."""
    return str(getattr(function, "__name__", repr(function)))
