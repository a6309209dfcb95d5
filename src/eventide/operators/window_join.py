"""Rows of several inputs, brought together by key and window: as groups, or in pairs.

Below it is a windowed aggregate that collects the rows of each side. What it emits is told as it is (groups), or each
row of one side beside each of the other (pairs). What changes between two panes of a window are the pairs themselves:
where they are taken back, only those that are gone are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from eventide.aggregates.numbering import GROUP, number
from eventide.operators.bundle import Output
from eventide.operators.pairing import pair_columns
from eventide.operators.windowed import WindowedAggregate
from eventide.panes import RESERVED
from eventide.plan.fingerprint import fingerprint
from eventide.plan.plan import Plan

_PANE = "__pane"  # the number of a pane in what a step emitted
_LEFT, _RIGHT = "__left", "__right"  # numbers of rows


class WindowJoin(WindowedAggregate):
    """A plan with sides, bound to their columns."""

    def __init__(self, plan: Plan, *schemas: Mapping[str, pl.DataType]) -> None:
        self._mode = plan.mode
        inner = replace(plan, mode="retracting") if plan.sides and plan.sides.how else plan
        super().__init__(inner if plan.layout == "panes" else plan, *schemas)
        self._pairs = _Pairs(plan, self.schemas) if plan.sides and plan.sides.how else None

    def output_schemas(self) -> dict[str, dict[str, pl.DataType]]:
        """The columns of pairs or groups, late rows and dead letters."""
        found = super().output_schemas()
        if self._pairs is None:
            return found
        return found | {"panes": dict(self._pairs.of(pl.DataFrame(schema=found["panes"])).schema)}

    def _facts(self) -> dict[str, str]:
        return fingerprint(replace(self.plan, mode=self._mode))

    def _output(self, *given: object) -> Output:
        output: Output = super()._output(*given)  # type: ignore[arg-type]
        if self._pairs is None:
            return output
        pairs = self._pairs.of(output.panes)
        if self.plan.layout == "panes":
            match self._mode:
                case "accumulating":
                    pairs = pairs.filter(pl.col("diff") > 0)
                case "discarding":
                    pairs = self._pairs.changes(output.panes).filter(pl.col("diff") > 0)
                case "retracting":
                    pairs = self._pairs.changes(output.panes)
        return replace(output, panes=pairs)


class _Pairs:
    """Panes of two lists to rows of both."""

    def __init__(self, plan: Plan, schemas: tuple[dict[str, pl.DataType], ...]) -> None:
        assert plan.sides is not None
        self._key = list(plan.key)
        self._how = plan.sides.how
        self._names = [one.name for one in plan.edges]
        columns = pair_columns(plan.edges, schemas, suffix=plan.sides.suffix, reserved=RESERVED)
        self._left, self._right = columns.sides

    def of(self, panes: pl.DataFrame) -> pl.DataFrame:
        """The pairs of each pane, in the order of panes."""
        return self._told(panes, *self._sides(panes), self._matched(panes))

    def changes(self, panes: pl.DataFrame) -> pl.DataFrame:
        """The pairs that have come or gone with the panes of a step; retractions first."""
        if panes.is_empty():
            return self.of(panes)
        left, right = self._sides(panes)
        pairs = self._matched(panes)
        same = number(panes.select(*self._key, "window"), [*self._key, "window"]).rows[GROUP]
        contents = pl.DataFrame(
            {
                "window": same.gather(pairs[_PANE]),
                "left": _content(left).gather(pairs[_LEFT]),
                "right": _content(right).gather(pairs[_RIGHT]),
            }
        )
        rows = number(contents, contents.columns).rows.select(GROUP)
        rows = rows.with_columns(panes["diff"].gather(pairs[_PANE]).cast(pl.Int64).alias("diff"))
        nth = pl.int_range(pl.len()).over(GROUP, "diff")
        came, gone = (pl.col("diff") > 0).sum().over(GROUP), (pl.col("diff") < 0).sum().over(GROUP)
        kept = rows.select(nth >= pl.min_horizontal(came, gone)).to_series()
        pairs = pairs.filter(kept)
        return self._told(panes, left, right, pairs).sort("diff", maintain_order=True)

    def _sides(self, panes: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows of each side, one by one, with the number of their pane."""
        numbered = panes.with_row_index(_PANE)
        left, right = (
            numbered.select(_PANE, pl.col(name).alias("row")).filter(pl.col("row").list.len() > 0).explode("row")
            for name in self._names
        )
        return left, right

    def _matched(self, panes: pl.DataFrame) -> pl.DataFrame:
        """Which row stands beside which: pane, left and right by number; null where there is none."""
        left, right = (
            side.with_row_index(number_).select(_PANE, number_)
            for side, number_ in zip(self._sides(panes), (_LEFT, _RIGHT), strict=True)
        )
        known = panes.select(pl.all_horizontal(pl.col(name).is_not_null() for name in self._key)).to_series()
        equal = left.filter(known.gather(left[_PANE])) if len(known) else left  # a null equals nothing
        pairs = [equal.join(right, on=_PANE, how="inner", maintain_order="left_right")]
        if self._how in ("left", "full"):
            pairs.append(left.join(pairs[0], on=_LEFT, how="anti", maintain_order="left"))
        if self._how in ("right", "full"):
            pairs.append(right.join(pairs[0], on=_RIGHT, how="anti", maintain_order="left"))
        return pl.concat(pairs, how="diagonal").select(_PANE, _LEFT, _RIGHT).sort(_PANE, maintain_order=True)

    def _told(self, panes: pl.DataFrame, left: pl.DataFrame, right: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
        about = panes.select(*self._key, "window", "pane", "diff")[pairs[_PANE]]
        ours = left["row"].struct.unnest().select(**{new: pl.col(name) for name, new in self._left.items()})
        theirs = right["row"].struct.unnest().select(**{new: pl.col(name) for name, new in self._right.items()})
        parts = [ours.select(pl.all().gather(pairs[_LEFT])), theirs.select(pl.all().gather(pairs[_RIGHT]))]
        return pl.concat([about, *parts], how="horizontal").select(
            *self._key, "window", *self._left.values(), *self._right.values(), "pane", "diff"
        )


def _content(rows: pl.DataFrame) -> pl.Series:
    """A number for each row, equal for rows that say the same."""
    return number(rows.select("row"), ["row"]).rows[GROUP]
