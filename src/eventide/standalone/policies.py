"""When a window's news are told: by the early policy while it fills, when it is full, by the late policy afterwards."""

from __future__ import annotations

import polars as pl

from eventide.errors import triggers as errors
from eventide.operators import columns as c
from eventide.panes import EARLY, LATE, ON_TIME, TIMING
from eventide.standalone import columns as s
from eventide.standalone.full_size import FullSize
from eventide.triggers import AfterWatermark, Trigger
from eventide.triggers.trigger import ADDED, COMPLETE, NOW, WAS_COMPLETE, Changes

FIRES = "__fires"
MOVED = "__moved"  # the window is new, or its bounds have changed
_PHASE = "__policy.late_phase"
_PASSING = [column.meta.output_name() for column in (COMPLETE, WAS_COMPLETE, NOW, ADDED)]


class Policies:
    """Two triggers around the full window, compiled to columns that rest with each window."""

    def __init__(self, early: Trigger, late: Trigger, full: FullSize, *, operator: str) -> None:
        for name, trigger in (("early", early), ("late", late)):
            if not hasattr(trigger, "compile"):
                raise errors.not_a_trigger(f"{operator}({name}=…)", trigger)
        self.full = full
        self._described = f"early: {early.describe()}; {full.describe()}; late: {late.describe()}"
        self._trigger = AfterWatermark(early, late).compile("__policy")
        self.columns = self._trigger.columns()
        add, moved, fired = Changes(), Changes(), Changes()
        self._trigger.add(pl.lit(True), add)
        self._trigger.moved(pl.col(MOVED), moved)
        self._trigger.fired(pl.col(FIRES), fired)
        self._steps = [step for step in (moved.expressions(), add.expressions()) if step]
        self._after = fired.expressions()

    def describe(self) -> str:
        """One line for ``explain()``."""
        return self._described

    def schema(self) -> dict[str, pl.DataType]:
        """What rests with a window."""
        return {column.name: column.dtype for column in self.columns}

    def merging(self) -> list[pl.Expr]:
        """How windows that become one combine it."""
        return [getattr(pl.col(column.name), column.merge)() for column in self.columns]

    def wakes(self, now: int) -> pl.Expr:
        """Whether a clock has run out."""
        clocks = [(pl.col(column.name) <= now).fill_null(False) for column in self.columns if column.due]
        return pl.any_horizontal(clocks) if clocks else pl.lit(False)

    def evaluated(self, windows: pl.DataFrame, now: int) -> pl.DataFrame:
        """Windows (with ``FRONT``, ``WAS_FRONT``, ``ADDED``, ``MOVED``) and whether their news are told now."""
        new = pl.col(s.TOLD).is_null()
        judged = (
            windows.lazy()
            .with_columns(
                self.full.reached(pl.col(s.FRONT)).alias(COMPLETE.meta.output_name()),
                self.full.passed(pl.col(s.WAS_FRONT)).alias(WAS_COMPLETE.meta.output_name()),
                pl.lit(now, pl.Int64).alias(NOW.meta.output_name()),
            )
            .with_columns(
                pl.when(new).then(column.start).otherwise(column.name).cast(column.dtype).alias(column.name)
                for column in self.columns
            )
        )
        for step in self._steps:
            judged = judged.with_columns(step)
        before_end = pl.when(COMPLETE).then(pl.lit(ON_TIME)).otherwise(pl.lit(EARLY))
        timing = pl.when(_PHASE).then(pl.lit(LATE)).otherwise(before_end).cast(TIMING)
        judged = judged.with_columns(self._trigger.fires().alias(FIRES), timing.alias(c.TIMING))
        # One query: on small bundles, what counts is how often Polars is called.
        return judged.with_columns(self._after).drop(*_PASSING).collect(engine="in-memory")
