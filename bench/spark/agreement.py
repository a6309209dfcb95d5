"""Whether two results are the same.

Both sides emit a window when its end is at or before the watermark, which stands 30 seconds behind the latest event
time. But Spark truncates the watermark to milliseconds and moves it after a batch: a window that batch ``n`` completes
is emitted by batch ``n + 1``, if need be by one without data at the very end. Eventide keeps microseconds and moves the
watermark within the batch: batch ``n`` itself emits it. A window that only one side has emitted when the files end is
therefore no difference; but nearly all windows must have been emitted by both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bench.bounds import with_bounds
from bench.spark.settings import KEY

_WINDOW = ("start", "end", KEY)
ENOUGH = 0.9


@dataclass(frozen=True)
class Agreement:
    """How many windows both sides have, how many there are, and whether all that could be compared is equal."""

    compared: int
    windows: int
    same: bool

    @property
    def equal(self) -> bool:
        return self.same and self.compared >= ENOUGH * self.windows


def compare(ours: pl.DataFrame, theirs: pl.DataFrame, *, windows: int, again: bool) -> Agreement:
    """Tables with one row for each window and key. ``again``: whether other runs emitted as much as these."""
    unique = all(not table.select(_WINDOW).is_duplicated().any() for table in (ours, theirs))
    both = ours.join(theirs, on=_WINDOW, how="inner", suffix="_theirs")
    values = [name for name in ours.columns if name not in _WINDOW]
    differs = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_theirs")) for name in values)
    return Agreement(both.height, windows, again and unique and both.filter(differs).is_empty())


def final_table(files: Path, values: Sequence[str] = ("n", "total")) -> pl.DataFrame:
    """What a query has written to Parquet files: a row for each window; where there are diffs, what they sum to."""
    rows = with_bounds(pl.read_parquet(str(files / "**/*.parquet"), hive_partitioning=False))
    bounds = [pl.col("start"), pl.col("end")]
    if rows.schema["start"].is_temporal():  # Spark writes nanoseconds without a zone
        bounds = [bound.dt.timestamp("us") for bound in bounds]
    diff = [pl.col("diff").cast(pl.Int64)] if "diff" in rows.columns else []
    rows = rows.select(*bounds, KEY, *values, *diff)
    if diff:
        rows = rows.group_by(pl.exclude("diff")).agg(pl.col("diff").sum()).filter(pl.col("diff") != 0)
        assert (rows["diff"] == 1).all(), "a pane was retracted that was not emitted, or emitted twice"
    return rows.drop("diff", strict=False)
