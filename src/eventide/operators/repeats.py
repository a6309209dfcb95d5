"""Rows that come again: where a stream deduplicates, a row whose number was seen before changes nothing.

A number counts as seen once a row with it has come, whatever became of that row. Inside a bundle the first row wins.
Rows that are the same have the same key, so it does not matter how a bundle's rows are spread over buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import polars as pl

from eventide.operators.admission import repeated
from eventide.operators.bundle import Stamp
from eventide.operators.inputs import Inputs
from eventide.plan.plan import Plan
from eventide.watermarks import AnyTracker, Tracker


def without_repeats(
    plan: Plan, inputs: Inputs, stamps: Sequence[Stamp], tracker: AnyTracker
) -> tuple[list[pl.DataFrame], list[pl.DataFrame]]:
    """The rows of each stamp that had not come before, and dead letters for the others.

    ``tracker`` is the one that stood when the bundle began. A stamp has set aside what it has twice itself.
    """
    rows, letters = [stamp.stamped.rows for stamp in stamps], []
    for edge, own in enumerate(plan.edges):
        at = [i for i, stamp in enumerate(stamps) if stamp.edge == edge]
        if not own.watermark.options.deduplicate or not at:
            continue
        identity = own.watermark.identity(partial(inputs.column, edge))
        frames = [frame for i in at for frame in (rows[i], *stamps[i].dead)]
        fresh = _fresh(pl.concat([frame.select(identity) for frame in frames]), tracker.at(edge))
        start = 0
        for i in at:
            mask = fresh.slice(start, rows[i].height)
            start += rows[i].height + sum(frame.height for frame in stamps[i].dead)
            if not mask.all():
                letters.append(repeated(own.watermark, rows[i].filter(~mask)))
                rows[i] = rows[i].filter(mask)
    return rows, letters


def _fresh(numbers: pl.DataFrame, tracker: Tracker) -> pl.Series:
    first = numbers.select(pl.struct(pl.all()).is_first_distinct()).to_series()
    return first & ~tracker.seen(numbers)
