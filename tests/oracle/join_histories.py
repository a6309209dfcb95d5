"""Random interval joins and histories of them: few keys and a short axis, so that bounds are hit again and again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

import polars as pl

import eventide as ev
from eventide.time import MAX
from tests.oracle.join_model import LEFT, RIGHT, Row, Spec

SCHEMAS = (
    {"id": pl.Int64(), "key": pl.String(), "time": pl.Int64(), "value": pl.Int64()},
    # The other side calls its key something else, and has a column with the name of the left side's key.
    {"id": pl.Int64(), "name": pl.String(), "time": pl.Int64(), "value": pl.Int64(), "key": pl.Int64()},
)
PREDICATES: dict[str | None, Any] = {
    None: None,
    "less": pl.col("value") < pl.col("value_right"),
    "even": (pl.col("value") + pl.col("value_right")) % 2 == 0,
}


@dataclass(frozen=True)
class Push:
    """A bundle, and what happens before it. ``notes`` are external watermarks: key and time."""

    rows: tuple[Row, ...]
    now: int
    notes: tuple[tuple[int, int], ...] = ()
    parts: int = 1


@dataclass(frozen=True)
class History:
    """A join, the watermarks of its sides (lag, idle after, key), and what happens."""

    spec: Spec
    watermarks: tuple[tuple[int | None, int | None, int], ...]
    pushes: tuple[Push, ...] = ()


def us(n: int) -> timedelta:
    return timedelta(microseconds=n)


def pipeline_of(history: History) -> ev.Pipeline:
    spec = history.spec
    left, right = (_stream(key, mark) for key, mark in zip(("key", "name"), history.watermarks, strict=True))
    sides = zip(("left", "right"), spec.retained, strict=True)
    keep = {side: us(retained) for side, retained in sides if retained is not None} or None
    options: dict[str, Any] = {"how": spec.how, "where": PREDICATES[spec.where], "keep": keep}
    if spec.last is not None:
        return ev.join(left, right, last=spec.last, **options)
    within: Any = tuple(None if bound is None else us(bound) for bound in (spec.lo, spec.hi))
    return ev.join(left, right, within=within, **options)


def _stream(key: str, watermark: tuple[int | None, int | None, int]) -> ev.Stream:
    lag, idle, number = watermark
    idle_timeout = None if idle is None else us(idle)
    if lag is None:
        strategy = ev.no_watermark(watermark_key=number)
    else:
        strategy = ev.bounded_delay(us(lag), idle_timeout=idle_timeout, watermark_key=number)
    return ev.stream(time="time", key=key, watermark=strategy)


def frames_of(rows: tuple[Row, ...]) -> list[pl.DataFrame]:
    """The rows of each side."""
    frames = []
    for side, schema in enumerate(SCHEMAS):
        tuples = [(row.id, row.key, row.time, row.value, row.id)[: len(schema)] for row in rows if row.side == side]
        frames.append(pl.DataFrame(tuples, schema=schema, orient="row"))
    return frames


def random_histories(rng: Random, many: int) -> list[History]:
    """Of one join."""
    spec = _spec(rng)
    same = rng.random() < 0.6
    watermarks = tuple(
        (rng.choice([0, 0, 2, 5, 9, None]), rng.choice([None, None, 3]), 0 if same else side) for side in (LEFT, RIGHT)
    )
    keys = {number for _, _, number in watermarks}
    return [History(spec, watermarks, tuple(_pushes(rng, keys))) for _ in range(many)]


def _spec(rng: Random) -> Spec:
    lo = rng.randint(-6, 4)
    hi = lo + rng.choice([0, 1, 3, 6])
    how, where = rng.choice(["inner", "left", "right", "full"]), rng.choice([None, None, "less", "even"])
    if rng.random() < 0.15:
        return Spec(None, None, how, (rng.randint(0, 8), None), where, last=rng.randint(1, 3))
    if rng.random() < 0.8:
        return Spec(lo, hi, how, where=where)
    open_ = rng.choice([(True, False), (False, True), (True, True)])
    # Without an upper bound rows of the left side would never expire, without a lower one those of the right.
    retained = rng.randint(0, 8) if open_[1] else None, rng.randint(0, 8) if open_[0] else None
    return Spec(None if open_[0] else lo, None if open_[1] else hi, how, retained, where)


def _pushes(rng: Random, keys: set[int]) -> list[Push]:
    pushes, now, number = [], 0, 0
    at, pace = [0, 0], [rng.choice([1, 3, 6]), rng.choice([1, 3, 6])]
    spread = rng.choice([2, 6, 12])
    for _ in range(rng.randint(1, 6)):
        rows = []
        for side in (LEFT, RIGHT):
            for _ in range(rng.choice([0, 1, 2, 4])):
                time = None if rng.random() < 0.03 else at[side] + rng.randint(-spread, spread)
                key = None if rng.random() < 0.08 else rng.choice("aab")
                rows.append(Row(side, number := number + 1, key, time, rng.randint(0, 3)))
            at[side] += rng.randint(0, pace[side])
        now += rng.randint(0, 4)
        notes = tuple((key, _noted(rng, at)) for key in keys if rng.random() < 0.15)
        rng.shuffle(rows)
        rows.sort(key=lambda row: row.side)
        pushes.append(Push(tuple(rows), now, notes, rng.choice([1, 1, 1, 1, 2, 3])))
    if rng.random() < 0.7:
        pushes.append(Push((), now + 1, tuple((key, MAX) for key in keys)))
    return pushes


def _noted(rng: Random, at: list[int]) -> int:
    """A watermark from outside; MAX is the end of a stream, while the other one may go on."""
    return MAX if rng.random() < 0.1 else rng.choice(at) + rng.randint(-4, 2)
