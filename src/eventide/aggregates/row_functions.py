"""Row-wise Python aggregates: how user code runs, and what happens when it raises."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from eventide._column_refs import Computed
from eventide.aggregates.aggregate import Aggregate, Parts, Source
from eventide.aggregates.errors import _of, bad_on_error, no_retractions, unfinished_aggregate
from eventide.aggregates.value_lists import Entries, multiset, spelled_out
from eventide.errors import DataError, PlanError, cause_text
from eventide.kernels.grouping import GROUP, Numbered, number
from eventide.panes import DIFF, PANE

_PICKLE = 5  # fixed, so that the same state has the same bytes under every version of Python

Change: TypeAlias = tuple[int, Any, bool]
"""A row: its position, its value for user code, and whether it is added or retracted."""


class UserCodeError(Exception):
    """User code raised for one cell. The caller that knows the cell's key turns this into a DataError."""

    def __init__(self, function: str, cell: int, cause: Exception):
        super().__init__(function, cell, cause)
        self.function, self.cell, self.cause = function, cell, cause

    def with_key(self, keys: pl.DataFrame) -> DataError:
        """Return the error with the key of the cell."""
        key = keys.row(self.cell, named=True) if keys.width else {}
        return _merge_failed(self.function, key, self.cause)


@dataclass(frozen=True, eq=False)
class RowWise:
    """A pickled state per group."""

    name: str
    aggregate: Aggregate
    columns: Sequence[str]
    """The columns of a row that user code gets."""
    bare: bool
    """User code gets the value of the only column instead of a dict, and never null."""
    diff: str | None
    where: str | None = None
    """The boolean column of rows that count."""
    keeps_rows: bool = False
    empty: object = None

    @property
    def dtype(self) -> pl.DataType:
        return pl.Binary()

    def start(self, rows: pl.DataFrame, groups: int) -> tuple[pl.Series, dict[int, str]]:
        """Return a state for each group, and the reasons of failed rows by position."""
        seen = rows[self.columns[0]].to_list() if self.bare else rows.select(self.columns).to_dicts()
        signs = rows[self.diff].to_list() if self.diff else None
        counts = rows[self.where].to_list() if self.where else None
        failures: dict[int, str] = {}
        states = []
        for members in _members(rows[GROUP], groups):
            changes = [
                (position, seen[position], signs is None or signs[position] > 0)
                for position in members
                if not (self.bare and seen[position] is None) and (counts is None or counts[position])
            ]
            states.append(_pickled(self._folded(changes, failures), self.aggregate))
        return pl.Series(states, dtype=pl.Binary), failures

    def merge(self, cells: pl.DataFrame, groups: int) -> pl.Series:
        """Return a state for each group, from partial states in the order of arrival."""
        parts = cells[self.name].to_list()
        merged = []
        for cell, members in enumerate(_members(cells[GROUP], groups)):
            states = [parts[i] for i in members if parts[i] is not None]
            merged.append(self._joined(states, cell) if len(states) > 1 else next(iter(states), None))
        return pl.Series(merged, dtype=pl.Binary)

    def results(self, cells: pl.DataFrame) -> pl.Series:
        """Return the results of the states."""
        states = (None if s is None else pickle.loads(s) for s in cells[self.name].to_list())
        return finished(self.aggregate, states)

    def _folded(self, changes: Sequence[Change], failures: dict[int, str]) -> Any:
        """Fold all rows of a group into a state. A row on which user code raises does not change it."""
        state, before, copies = _fresh(self.aggregate), b"", False
        for nth, (position, row, is_added) in enumerate(changes):
            if copies:
                before = _pickled(state, self.aggregate)
            try:
                state = self.aggregate.add(state, row) if is_added else self.aggregate.remove(state, row)
            except Exception as cause:
                method = "add" if is_added else "remove"
                if self.aggregate.on_error == "raise":
                    failed = _called(self.aggregate, method)
                    raise DataError(f"{failed} failed on the row {row!r}: {cause_text(cause)}") from cause
                failures[position] = _reason(_called(self.aggregate, method), cause)
                # The state may be half changed. Copies are slow, so they are made only after the first failure.
                state = pickle.loads(before) if copies else self._folded(changes[:nth], failures)
                copies = True
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
    """Bind an aggregate that is written as ``create``, ``add``, ``merge`` and ``result``."""
    if not aggregate.python:
        raise unfinished_aggregate(aggregate, "bind")
    if aggregate.dtype is None:
        raise PlanError(f"{aggregate} has no result type. Set it, such as dtype = pl.Float64().")
    if aggregate.on_error not in ("dead", "raise"):
        raise bad_on_error(str(aggregate), aggregate.on_error)
    bare = isinstance(aggregate.reads, str)
    columns = [aggregate.reads] if isinstance(aggregate.reads, str) else list(aggregate.reads or _whole_row(source))
    types = {column: source.dtype(column, aggregate) for column in columns}
    if not aggregate.mergeable:
        return _bind_over_rows(aggregate, source, types, bare)
    if source.diff is not None and not aggregate.invertible:
        raise no_retractions(
            aggregate,
            "Add a remove method that undoes add, or leave out merge: then rows are kept instead.",
        )
    # Named after the result: two lambdas have the same name, but must not share a state.
    states = RowWise(f"state({source.name})", aggregate, columns, bare, source.diff, _condition(aggregate))
    return Parts([states], states.results)


def start_rowwise(
    accumulators: Sequence[RowWise], rows: pl.DataFrame, by: Sequence[str]
) -> tuple[Numbered, list[pl.Series], dict[int, str]]:
    """Return the states of all row-wise accumulators, over the rows on which none of them fails.

    A row that fails in one must not count in another, so all start again without the failed rows.
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
    """Return the results of states. None is the state of no rows."""
    values = []
    for cell, state in enumerate(states):
        try:
            values.append(aggregate.result(_fresh(aggregate) if state is None else state))
        except Exception as cause:
            raise UserCodeError(_called(aggregate, "result"), cell, cause) from cause
    try:
        return pl.Series(values, dtype=aggregate.dtype)
    except Exception as cause:
        raise DataError(
            f"{aggregate}: a result is not {aggregate.dtype}, as dtype= promises: {cause_text(cause)}"
        ) from cause


def _bind_over_rows(aggregate: Aggregate, source: Source, types: Mapping[str, pl.DataType], bare: bool) -> Parts:
    """Keep rows. Every result adds all of them, in the order of event time."""
    time = pl.col(source.time)
    where = _condition(aggregate)
    keep = pl.col(next(iter(types))).is_not_null() if bare else pl.lit(True) if where is None else pl.col(where)
    row, dtype = pl.struct(*types), pl.Struct(dict(types))
    name = f"rows({', '.join(types)}{'' if where is None else f' where {where}'})"
    if source.diff is None:
        fields = {"time": time, "row": row}
        entries = Entries(name, fields, {"time": pl.Int64(), "row": dtype}, keep=keep, order=["time", "row"])
    else:
        entries = multiset(name, source, {"time": (time, pl.Int64()), "row": (row, dtype)}, keep=keep)

    def folded(cell: int, rows: Sequence[dict[str, Any]]) -> Any:
        state = _fresh(aggregate)
        try:
            for item in rows:
                state = aggregate.add(state, next(iter(item.values())) if bare else item)
        except Exception as cause:
            raise UserCodeError(_called(aggregate, "add"), cell, cause) from cause
        return state

    def results(cells: pl.DataFrame) -> pl.Series:
        if source.diff is None:
            lists = cells[name].list.eval(pl.element().struct.field("row"))
        else:
            lists = spelled_out(cells, entries, "row")
        return finished(aggregate, (folded(cell, rows) for cell, rows in enumerate(lists.to_list())))

    return Parts([entries], results)


def _condition(aggregate: Aggregate) -> str | None:
    where = getattr(aggregate, "where", None)
    return where if isinstance(where, Computed) else None


def _whole_row(source: Source) -> list[str]:
    # A pane and its retraction differ in these columns, but are the same row.
    columns = [c for c in source.schema if not c.startswith("__") and c not in source.computed]
    return [c for c in columns if source.diff is None or c not in (source.diff, DIFF, *PANE)]


def _members(numbers: pl.Series, groups: int) -> Iterator[list[int]]:
    """Return the positions of each group, in order."""
    order = np.argsort(numbers.to_numpy(), kind="stable").tolist()
    end = 0
    for size in np.bincount(numbers.to_numpy(), minlength=groups).tolist():
        start, end = end, end + size
        yield order[start:end]


def _fresh(aggregate: Aggregate) -> Any:
    try:
        return aggregate.create()
    except Exception as cause:
        raise _merge_failed(_called(aggregate, "create"), {}, cause) from cause


def _pickled(state: Any, aggregate: Aggregate) -> bytes:
    try:
        return pickle.dumps(state, _PICKLE)
    except Exception as cause:
        raise DataError(
            f"{aggregate}: its state cannot be pickled, so it cannot be stored: {cause_text(cause)}"
        ) from cause


def _called(aggregate: Aggregate, method: str) -> str:
    """Return the user's name for the code that failed."""
    written: Callable[..., Any] | None = getattr(aggregate, "written", {}).get(method)
    if written is None:
        return f"{type(aggregate).__qualname__}.{method}"
    return f"{aggregate.word}: {called(written)}"


def called(function: Callable[..., Any]) -> str:
    """Return the name of a function."""
    return str(getattr(function, "__name__", repr(function)))


def _merge_failed(function: str, key: Mapping[str, object], cause: BaseException) -> DataError:
    """A user's function raised while partial results were merged or finished."""
    return DataError(f"{function} failed{_of(key)}: {cause_text(cause)}")


def _reason(function: str, cause: BaseException) -> str:
    """An exception in one line, as a dead letter carries it.

    >>> _reason("fold: add_up", KeyError("price"))
    "KeyError: 'price' (in fold: add_up)"
    """
    return f"{cause_text(cause)} (in {function})"
