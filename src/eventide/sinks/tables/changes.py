"""What a batch of panes changes in a table."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from eventide.sinks.tables.shape import DIFF, INDEX, Shape

COPIES = "eventide_copies"


class Changes(NamedTuple):
    """The rows that stand after a batch, and those that no longer do."""

    standing: pl.DataFrame
    gone: pl.DataFrame


def changes(rows: pl.DataFrame, shape: Shape) -> Changes:
    """One row of each identity: its last pane, or the fact that it was taken back.

    A batch takes back only what earlier batches said, so all of its retractions come before all of its panes; among
    panes, the index decides. The order in which the rows arrive does not matter.

    >>> from eventide.sinks.tables.shape import Shape
    >>> rows = pl.DataFrame({"k": ["a", "a", "b"], "n": [2, 1, 5], "pane_index": [1, 0, 0], "diff": [1, -1, -1]})
    >>> standing, gone = changes(rows, Shape((), identity=("k",)))
    >>> standing["n"].to_list(), gone["k"].to_list()
    ([2], ['b'])
    """
    if shape.many == "all":
        newest = rows.filter(pl.col(INDEX) == pl.col(INDEX).max().over(shape.identity))
        return Changes(newest, rows.select(shape.identity).unique(maintain_order=True))
    if shape.many == "each":
        return _counted(rows, shape)
    last = rows.sort(DIFF, INDEX).unique(subset=shape.identity, keep="last", maintain_order=True)
    last = last.sort(shape.identity)  # in the order of the index, PostgreSQL needs a third less time
    stands = last[DIFF] > 0
    return Changes(last.filter(stands), last.filter(~stands).select(shape.identity))


def _counted(rows: pl.DataFrame, shape: Shape) -> Changes:
    """Rows that came, and how many copies of which went; what came and went in the same batch does neither."""
    came = pl.col(DIFF).cast(pl.Int64).sum().over(shape.said)
    nth = pl.int_range(pl.len()).over(*shape.said, DIFF)
    left = rows.filter(((came > 0) & (pl.col(DIFF) > 0) | (came < 0) & (pl.col(DIFF) < 0)) & (nth < came.abs()))
    stands = left[DIFF] > 0
    gone = left.filter(~stands).group_by(shape.said, maintain_order=True).agg(pl.len().cast(pl.Int64).alias(COPIES))
    return Changes(left.filter(stands), gone)
