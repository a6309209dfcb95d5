"""Rows that come again: where a stream deduplicates, a row whose number was seen before changes nothing.

A number counts as seen once a row with it has come, whatever became of that row. Inside a bundle the first row wins.
Rows that are the same have the same key, so it does not matter how a bundle's rows are spread over buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import polars as pl

from eventide.operators.admission import repeated
from eventide.operators.bundle import Stamp
from eventide.operators.inputs import Inputs
from eventide.watermarks import AnyTracker, Tracker

Column: TypeAlias = Callable[[int, str], pl.Expr]
AsOne: TypeAlias = Callable[[int, pl.DataFrame], pl.DataFrame]


def without_repeats(
    plan: Any,
    stamps: Sequence[Stamp],
    tracker: AnyTracker,
    inputs: Inputs,
    *,
    column: Column | None = None,
    as_one: AsOne | None = None,
) -> list[Stamp]:
    """The stamps without rows that had come before: those are dead letters.

    ``tracker`` is the one that stood when the bundle began. A stamp has set aside what it has twice itself. ``inputs``
    say how dead letters look; where rows look otherwise, ``column`` finds a column in them, and ``as_one`` makes of
    them what letters are made of.
    """
    found = list(stamps)
    for edge, own in enumerate(plan.edges):
        at = [i for i, stamp in enumerate(stamps) if stamp.edge == edge]
        if not own.watermark.options.deduplicate or not at:
            continue
        among_rows = own.watermark.identity(partial(column or inputs.column, edge))
        among_dead = own.watermark.identity(partial(inputs.column, edge))
        frames = [
            frame
            for i in at
            for frame in (
                stamps[i].stamped.rows.select(among_rows),
                *(letters.select(among_dead) for letters in stamps[i].dead),
            )
        ]
        fresh = _fresh(pl.concat(frames), tracker.at(edge))
        start = 0
        for i in at:
            rows = stamps[i].stamped.rows
            mask = fresh.slice(start, rows.height)
            start += rows.height + sum(letters.height for letters in stamps[i].dead)
            if not mask.all():
                again = rows.filter(~mask)
                letters = repeated(own.watermark, again if as_one is None else as_one(edge, again))
                stamped = replace(stamps[i].stamped, rows=rows.filter(mask))
                found[i] = replace(stamps[i], dead=[*stamps[i].dead, letters], stamped=stamped)
    return found


def _fresh(numbers: pl.DataFrame, tracker: Tracker) -> pl.Series:
    first = numbers.select(pl.struct(pl.all()).is_first_distinct()).to_series()
    return first & ~tracker.seen(numbers)
