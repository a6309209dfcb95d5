"""Deduplication: repeated rows become dead letters, known by their sequence number or by an id.

By number: a number counts as seen once a row with it has arrived, even a late row or a dead letter. In a bundle the
first row wins. Equal rows have the same key, so the result does not depend on how a bundle is divided into buckets.

By id: the first row of a key with an id counts. Another row whose event time is at most ``within`` away from it is a
repeat; a row further away is a first row again. A first row is stored until the watermark is more than ``within`` past
its time. A row without an id is never a repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import polars as pl

from eventide import _columns as c
from eventide.kernels.keys import join_on_key
from eventide.operators.admission import dead_letters, repeated
from eventide.operators.inputs import Inputs
from eventide.operators.operator import Stamp
from eventide.plan.plan import Plan
from eventide.state.pane_log import PaneCodec
from eventide.state.pane_table import CLOCK, DUE, EMPTY_TABLE, HASH, PaneTable, row_hashes
from eventide.time import MIN
from eventide.watermarks import AnyTracker, InputTracker
from eventide.windows.lateness import is_due

Column: TypeAlias = Callable[[int, str], pl.Expr]
Widen: TypeAlias = Callable[[int, pl.DataFrame], pl.DataFrame]


Ids: TypeAlias = Mapping[str, PaneTable]

_ID = "__id{}"
_POSITION = "__position"  # the position of a row in its bundle
_NO_CLOCK = (MIN, MIN)


@dataclass(frozen=True)
class _Edge:
    """An input whose duplicates become dead letters."""

    name: str  # of its table
    key: Mapping[str, str]  # what state and the input call the columns of the key
    ids: Mapping[str, str]  # the same for those of the id
    within: int

    @property
    def by(self) -> tuple[str, ...]:
        """The columns in which repeats are equal."""
        return (*self.key, *self.ids)


class Deduplication:
    """Sets the repeats of all inputs of a plan aside.

    Where rows have other columns than ``inputs``, ``column`` reads a column of them, and ``widen`` converts them for
    dead letters.
    """

    def __init__(
        self, plan: Plan, inputs: Inputs, *, column: Column | None = None, widen: Widen = lambda _, rows: rows
    ) -> None:
        self._plan = plan
        self._inputs = inputs
        self._column = column or inputs.column
        self._widen = widen
        self._edges: dict[int, _Edge] = {}
        for edge, source in enumerate(plan.edges):
            options = source.watermark.options
            if options.ids:
                key = dict(zip(plan.key, source.key, strict=True))
                ids = {_ID.format(number): name for number, name in enumerate(options.ids)}
                self._edges[edge] = _Edge(f"ids {edge}", key, ids, options.ids_within)
        self.codecs = {edge.name: PaneCodec(edge.by) for edge in self._edges.values()}

    def initial(self) -> dict[str, PaneTable]:
        return dict.fromkeys(self.codecs, EMPTY_TABLE)

    def by_number(self, stamps: Sequence[Stamp], tracker: AnyTracker) -> Sequence[Stamp]:
        """The stamps without rows whose number was seen before; those become dead letters.

        ``tracker`` is the one before the bundle. Repeats within a stamp are already set aside.
        """
        for edge, source in enumerate(self._plan.edges):
            at = [i for i, stamp in enumerate(stamps) if stamp.edge == edge]
            if not source.watermark.options.deduplicate or not at:
                continue
            of_rows = source.watermark.identity(partial(self._column, edge))
            of_dead = source.watermark.identity(partial(self._inputs.column, edge))
            numbers, heights = [], []
            for i in at:
                rows, dead = stamps[i].stamped.rows, stamps[i].dead
                numbers += [rows.select(of_rows), *(letters.select(of_dead) for letters in dead)]
                heights.append((rows.height, sum(letters.height for letters in dead)))
            repeats = _repeats(pl.concat(numbers), tracker.input(edge))
            stamps = self._set_aside(stamps, at, _parts(repeats, heights), partial(repeated, source.watermark))
        return stamps

    def by_id(
        self, stamps: Sequence[Stamp], known: Ids, previous: Sequence[int], reached: Sequence[int]
    ) -> tuple[Sequence[Stamp], Ids]:
        """The stamps without rows whose id was seen before, and what is remembered.

        ``previous`` and ``reached`` are the watermarks of each input before and after the bundle.
        """
        for number, edge in self._edges.items():
            at = [i for i, stamp in enumerate(stamps) if stamp.edge == number]
            rows = pl.concat([self._read(number, edge, stamps[i].stamped.rows) for i in at]) if at else None
            table, repeats = _divided(edge, known[edge.name], rows, previous[number], reached[number])
            known = {**known, edge.name: table}
            if repeats is not None:
                detail = f"a row with the same {' and '.join(map(repr, edge.ids.values()))} arrived before"
                heights = [(stamps[i].stamped.rows.height, 0) for i in at]
                letters = partial(dead_letters, reason="duplicate", detail=detail)
                stamps = self._set_aside(stamps, at, _parts(repeats, heights), letters)
        return stamps, known

    def _read(self, number: int, edge: _Edge, rows: pl.DataFrame) -> pl.DataFrame:
        column = partial(self._column, number)
        names = {**edge.key, **edge.ids}
        return rows.select(*(column(theirs).alias(ours) for ours, theirs in names.items()), c.TIME)

    def _set_aside(
        self,
        stamps: Sequence[Stamp],
        at: Sequence[int],
        repeats: Iterable[pl.Series],
        letters: Callable[[pl.DataFrame], pl.DataFrame],
    ) -> list[Stamp]:
        """The stamps, where the repeats among the rows of those ``at`` some places are dead letters."""
        result = list(stamps)
        for i, again in zip(at, repeats, strict=True):
            if again.any():
                stamp, rows = stamps[i], stamps[i].stamped.rows
                dead = letters(self._widen(stamp.edge, rows.filter(again)))
                stamped = replace(stamp.stamped, rows=rows.filter(~again))
                result[i] = replace(stamp, dead=[*stamp.dead, dead], stamped=stamped)
        return result


def _repeats(numbers: pl.DataFrame, tracker: InputTracker) -> pl.Series:
    first = numbers.select(pl.struct(pl.all()).is_first_distinct()).to_series()
    return ~first | tracker.has_seen(numbers)


def _parts(values: pl.Series, heights: Iterable[tuple[int, int]]) -> Iterator[pl.Series]:
    """Values by stamp: each has some, followed by others that are left out."""
    start = 0
    for height, others in heights:
        yield values.slice(start, height)
        start += height + others


def _divided(
    edge: _Edge, table: PaneTable, rows: pl.DataFrame | None, previous: int, reached: int
) -> tuple[PaneTable, pl.Series | None]:
    """The table after a bundle, and which of the rows (in order of arrival) are repeats."""
    if rows is None or rows.is_empty():
        return table.take(pl.Series([], dtype=pl.UInt64), due=(previous, reached), clock=_NO_CLOCK)[0], None
    with_id = pl.all_horizontal(pl.col(name).is_not_null() for name in edge.ids)
    rest = rows.with_row_index(_POSITION).filter(with_id)
    table, taken = table.take(row_hashes(rest, edge.by), due=(previous, reached), clock=_NO_CLOCK)
    known = [frame.select(*edge.by, c.FIRST) for frame in taken]
    stored = list(known)
    if known:
        rest = rest.filter(~pl.col(_POSITION).is_in(_near(edge, rest, pl.concat(known))[_POSITION].implode()))
    firsts: list[pl.DataFrame] = []
    while rest.height:  # once for each span of time in which ids of the bundle begin again
        first = rest.unique(list(edge.by), keep="first", maintain_order=True)
        firsts.append(first)
        if first.height == rest.height:
            break
        spans = first.select(*edge.by, pl.col(c.TIME).alias(c.FIRST))
        rest = rest.filter(~pl.col(_POSITION).is_in(_near(edge, rest, spans)[_POSITION].implode()))
    if firsts:
        stored.append(pl.concat(firsts).select(*edge.by, pl.col(c.TIME).alias(c.FIRST)))
    counted = pl.concat([first[_POSITION] for first in firsts]) if firsts else pl.Series([], dtype=pl.UInt32)
    repeats = rows.with_row_index(_POSITION).select(with_id & ~pl.col(_POSITION).is_in(counted.implode())).to_series()
    return table.put(_with_due(edge, stored, reached)) if stored else table, repeats


def _near(edge: _Edge, rows: pl.DataFrame, firsts: pl.DataFrame) -> pl.DataFrame:
    """The rows that are near in time to a first row with the same id."""
    pairs = join_on_key(rows, firsts, edge.by, how="inner")
    return pairs.filter((pl.col(c.TIME) - pl.col(c.FIRST)).abs() <= edge.within)


def _with_due(edge: _Edge, firsts: Sequence[pl.DataFrame], reached: int) -> pl.DataFrame:
    """First rows that are still to be remembered."""
    due = (pl.col(c.FIRST) + (edge.within + 1)).alias(DUE)
    rows = (
        pl.concat(firsts).with_columns(due, pl.lit(None, pl.Int64).alias(CLOCK)).filter(~is_due(pl.col(DUE), reached))
    )
    return rows.with_columns(row_hashes(rows, edge.by).alias(HASH))
