"""Window join and cogroup: rows of several inputs with the same key and window, as pairs or as groups.

A windowed aggregate collects the rows of each side. Groups are emitted as they are; pairs are each row of one side with
each of the other. Between two panes of a window only the pairs that have changed are retracted and emitted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from eventide import _columns as c
from eventide.errors import PlanError
from eventide.kernels.grouping import GROUP, number
from eventide.operators.operator import Output
from eventide.operators.windowed_aggregate import WindowedAggregate
from eventide.panes import DIFF, PANE, RESERVED, WINDOW
from eventide.plan.fingerprint import fingerprint
from eventide.plan.plan import Input
from eventide.plan.window_plan import WindowPlan


@dataclass(frozen=True)
class PairColumns:
    """The columns of a pair: the key once, then the other columns of each side, by their name on that side."""

    key: tuple[str, ...]
    sides: tuple[dict[str, str], dict[str, str]]

    @property
    def names(self) -> list[str]:
        """All of them, in order."""
        left, right = self.sides
        return [*self.key, *left.values(), *right.values()]


def pair_columns(
    inputs: Sequence[Input], schemas: Sequence[Mapping[str, pl.DataType]], *, suffix: str, reserved: Collection[str]
) -> PairColumns:
    """Names for the columns of both sides; a right one whose name the left has gets the suffix."""
    for source, schema in zip(inputs, schemas, strict=True):
        if taken := [name for name in schema if name in reserved and name not in source.key]:
            raise _taken(source, taken)
    key = inputs[0].key
    left, right = ([n for n in schema if n not in side.key] for side, schema in zip(inputs, schemas, strict=True))
    others = {*key, *left}
    columns = PairColumns(key, ({n: n for n in left}, {n: f"{n}{suffix}" if n in others else n for n in right}))
    for name in columns.names:
        if name in reserved or columns.names.count(name) > 1:
            raise PlanError(
                f"the joined rows would have two columns {name!r}, or one with a name of Eventide's own. "
                "Rename it on one side, or choose another suffix=."
            )
    return columns


def _taken(source: Input, names: Sequence[str]) -> PlanError:
    """Columns of an input that every joined row has, such as those of panes."""
    steps = [f"rename({{{source.time!r}: 'event_time'}})"] if source.time in names else []
    time = " Event time is one of them: use ev.stream(time='event_time', …)." if steps else ""
    others = ", ".join(repr(name) for name in names if name != source.time)
    steps += [f"drop({others})"] if others else []
    once = ""
    if DIFF in names:
        once = (
            " Without 'diff' a retraction would count as a row: if the rows are panes, let their pipeline emit each "
            "window once (without early panes and allowed_lateness)."
        )
    return PlanError(
        f"the rows of {source.name!r} have columns that every joined row has: {', '.join(map(repr, names))}. "
        f"Rename those that you need, and drop the others before the join: rows.{'.'.join(steps)}.{time}{once}"
    )


class WindowJoin(WindowedAggregate):
    """A plan with sides, bound to their columns."""

    def __init__(self, plan: WindowPlan, *schemas: Mapping[str, pl.DataType]) -> None:
        self._mode = plan.mode
        inner = replace(plan, mode="retracting") if plan.sides and plan.sides.how else plan
        super().__init__(inner if plan.layout == "panes" else plan, *schemas)
        self._pairs = _Pairs(plan, self.schemas) if plan.sides and plan.sides.how else None

    def output_schemas(self) -> dict[str, dict[str, pl.DataType]]:
        """The columns of pairs or groups, late rows and dead letters."""
        schemas = super().output_schemas()
        if self._pairs is None:
            return schemas
        return schemas | {"panes": dict(self._pairs.of(pl.DataFrame(schema=schemas["panes"])).schema)}

    def _facts(self) -> dict[str, str]:
        return fingerprint(replace(self.plan, mode=self._mode))

    def _output(self, *arguments: Any) -> Output:
        output = super()._output(*arguments)
        if self._pairs is None:
            return output
        pairs = self._pairs.of(output.panes)
        if self.plan.layout == "panes":
            match self._mode:
                case "accumulating":
                    pairs = pairs.filter(pl.col(DIFF) > 0)
                case "discarding":
                    pairs = self._pairs.changes(output.panes).filter(pl.col(DIFF) > 0)
                case "retracting":
                    pairs = self._pairs.changes(output.panes)
        return replace(output, panes=pairs)


class _Pairs:
    """Panes of two lists to rows of both."""

    def __init__(self, plan: WindowPlan, schemas: tuple[dict[str, pl.DataType], ...]) -> None:
        assert plan.sides is not None
        self._key = list(plan.key)
        self._how = plan.sides.how
        self._names = [source.name for source in plan.edges]
        columns = pair_columns(plan.edges, schemas, suffix=plan.sides.suffix, reserved=RESERVED)
        self._left, self._right = columns.sides

    def of(self, panes: pl.DataFrame) -> pl.DataFrame:
        """The pairs of each pane, in the order of panes."""
        return self._emitted(panes, *self._sides(panes), self._matched(panes))

    def changes(self, panes: pl.DataFrame) -> pl.DataFrame:
        """The pairs that the panes of a step add or retract; retractions first."""
        if panes.is_empty():
            return self.of(panes)
        left, right = self._sides(panes)
        pairs = self._matched(panes)
        same = number(panes.select(*self._key, *WINDOW), [*self._key, *WINDOW]).rows[GROUP]
        contents = pl.DataFrame(
            {
                "window": same.gather(pairs[c.PANE_ROW]),
                "left": _content(left).gather(pairs[c.LEFT]),
                "right": _content(right).gather(pairs[c.RIGHT]),
            }
        )
        rows = number(contents, contents.columns).rows.select(GROUP)
        rows = rows.with_columns(panes[DIFF].gather(pairs[c.PANE_ROW]).cast(pl.Int64).alias(DIFF))
        nth = pl.int_range(pl.len()).over(GROUP, DIFF)
        added, retracted = (pl.col(DIFF) > 0).sum().over(GROUP), (pl.col(DIFF) < 0).sum().over(GROUP)
        changed = rows.select(nth >= pl.min_horizontal(added, retracted)).to_series()
        pairs = pairs.filter(changed)
        return self._emitted(panes, left, right, pairs).sort(DIFF, maintain_order=True)

    def _sides(self, panes: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows of each side, one by one, with the number of their pane."""
        numbered = panes.with_row_index(c.PANE_ROW)
        left, right = (
            numbered.select(c.PANE_ROW, pl.col(name).alias("row")).filter(pl.col("row").list.len() > 0).explode("row")
            for name in self._names
        )
        return left, right

    def _matched(self, panes: pl.DataFrame) -> pl.DataFrame:
        """The pairs by number: pane, left row and right row; null where there is none."""
        left, right = (
            side.with_row_index(number_).select(c.PANE_ROW, number_)
            for side, number_ in zip(self._sides(panes), (c.LEFT, c.RIGHT), strict=True)
        )
        known = panes.select(pl.all_horizontal(pl.col(name).is_not_null() for name in self._key)).to_series()
        equal = left.filter(known.gather(left[c.PANE_ROW])) if len(known) else left  # a null equals nothing
        pairs = [equal.join(right, on=c.PANE_ROW, how="inner", maintain_order="left_right")]
        if self._how in ("left", "full"):
            pairs.append(left.join(pairs[0], on=c.LEFT, how="anti", maintain_order="left"))
        if self._how in ("right", "full"):
            pairs.append(right.join(pairs[0], on=c.RIGHT, how="anti", maintain_order="left"))
        return (
            pl.concat(pairs, how="diagonal").select(c.PANE_ROW, c.LEFT, c.RIGHT).sort(c.PANE_ROW, maintain_order=True)
        )

    def _emitted(
        self, panes: pl.DataFrame, left: pl.DataFrame, right: pl.DataFrame, pairs: pl.DataFrame
    ) -> pl.DataFrame:
        info = panes.select(*self._key, *WINDOW, *PANE, DIFF)[pairs[c.PANE_ROW]]
        ours = left["row"].struct.unnest().select(**{new: pl.col(name) for name, new in self._left.items()})
        theirs = right["row"].struct.unnest().select(**{new: pl.col(name) for name, new in self._right.items()})
        parts = [ours.select(pl.all().gather(pairs[c.LEFT])), theirs.select(pl.all().gather(pairs[c.RIGHT]))]
        return pl.concat([info, *parts], how="horizontal").select(
            *self._key, *WINDOW, *self._left.values(), *self._right.values(), *PANE, DIFF
        )


def _content(rows: pl.DataFrame) -> pl.Series:
    """A number for each row, the same for equal rows."""
    return number(rows.select("row"), ["row"]).rows[GROUP]
