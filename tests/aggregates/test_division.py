"""A batch gives the same bytes however its rows are divided: among tasks, buckets and blocks, and in any order.

A repeated batch is divided in another way than its first attempt: the machine may have other cores, and may not know
the watermark. What the first attempt wrote to a sink must be what the second one holds in state.
"""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import polars as pl
import pytest

import eventide
from eventide.aggregates import float_digits as digits
from eventide.kernels import grouping as dense
from tests.aggregates.cases import CASES, SCHEMA
from tests.spark.harness import PagesHost

SECOND = 1_000_000
WINDOWS = {
    "tumbling": eventide.tumbling("10 seconds"),
    "sliding": eventide.sliding("10 seconds", every="4 seconds"),
    "cumulate": eventide.cumulate("5 seconds", "20 seconds"),
    "calendar": eventide.calendar("day", tz="Europe/Berlin"),
    "global": eventide.global_window(),
    "sessions": eventide.sessions("1 second"),
    "cut sessions": eventide.sessions("1 second", max_duration="5 seconds"),
}
DIVISIONS = [
    pytest.param(window, often, id=f"{window}-{'often' if often else 'once'}", marks=[pytest.mark.long] if long else [])
    for window in WINDOWS
    for often in (False, True)
    for long in [often or window not in ("sliding", "sessions")]
]
AGGREGATES = {case.name: case.aggregate for case in CASES}
EARLY = eventide.after_watermark(early=eventide.on_update(), late=eventide.on_update())


def rows_of(seed: str, count: int = 400) -> pl.DataFrame:
    """Few instants, so that many rows tie; floats whose sum depends on the order in which they are added."""
    rng = Random(seed)
    rows = [
        {
            "key": rng.choice(["a", "b", "c", None]),
            "at": rng.randrange(30) * SECOND,
            "n": rng.choice([None, *range(9)]),
            "q": rng.choice([None, rng.random() * 10.0 ** rng.randrange(-8, 8), -rng.random(), 0.0, -0.0]),
            "wild": rng.choice([None, 0.1, 0.2, 0.3, -0.0, 0.0, 1e17]),
            "s": rng.choice([None, "x", "y", "z"]),
        }
        for _ in range(count)
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def pipeline_of(window: str, often: bool) -> eventide.Pipeline:
    stream = eventide.stream(time="at", key="key", watermark=eventide.bounded_delay("2 seconds")).window(
        WINDOWS[window]
    )
    if often:
        stream = stream.trigger(EARLY, allowed_lateness="1 minute", mode="retracting")
    return stream.agg(**AGGREGATES)


def written(pipeline: eventide.Pipeline, bundles: list[pl.DataFrame], **division: Any) -> str:
    """All panes, to the last bit of each float."""
    host = PagesHost(pipeline, SCHEMA, **division)
    panes = [host.bundle(rows, now=at, watermark=None, polled=True).panes for at, rows in enumerate(bundles)]
    panes.append(host.bundle(rows_of("").clear(), now=9, watermark=eventide.time.MAX, polled=True).panes)
    return "\n".join(sorted(repr(exact(row)) for frame in panes for row in frame.rows()))


def exact(value: Any) -> Any:
    if isinstance(value, float):
        return struct.pack(">d", value)
    if isinstance(value, dict):
        return {name: exact(part) for name, part in value.items()}
    return list(map(exact, value)) if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize(("window", "often"), DIVISIONS)
def test_a_batch_gives_the_same_bytes_however_it_is_divided(
    window: str, often: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_of(window, often)
    bundles = [rows_of(f"{window}/{i}") for i in range(2)]
    whole = written(pipeline, bundles, tasks=1, buckets=1)
    for division in ({"tasks": 5}, {"tasks": 2, "buckets": 2}, {"tasks": 3, "knows": False}):
        assert written(pipeline, bundles, **division) == whole, division
    monkeypatch.setattr(dense, "_BLOCK", 7)
    monkeypatch.setattr(digits, "_BLOCK", 5)
    shuffled = [rows.sample(fraction=1, shuffle=True, seed=3) for rows in bundles]
    assert written(pipeline, shuffled, tasks=4) == whole


@pytest.mark.parametrize("keys", [pl.Int64(), pl.String()], ids=str)
def test_float_sums_of_many_rows_are_the_same_however_they_are_divided(keys: pl.DataType) -> None:
    rng = Random(1)
    rows = pl.DataFrame(
        {
            "key": pl.Series([rng.randrange(50) for _ in range(60_000)]).cast(keys),
            "at": 0,
            "q": [round(rng.random() * 100, 2) for _ in range(60_000)],
        }
    )
    numbers = {"sum": eventide.sum("q"), "mean": eventide.mean("q"), "std": eventide.std("q")}
    pipeline = (
        eventide.stream(time="at", key="key", watermark=eventide.bounded_delay("1 second"))
        .window(WINDOWS["tumbling"])
        .agg(**numbers)
    )
    observed = set()
    for tasks, buckets, knows in [(1, 1, True), (2, 3, True), (7, 3, False)]:
        host = PagesHost(pipeline, rows.schema, tasks=tasks, buckets=buckets, knows=knows)
        host.bundle(rows, now=0, watermark=None, polled=True)
        last = host.bundle(rows.clear(), now=1, watermark=eventide.time.MAX, polled=True)
        observed.add(repr(sorted(exact(row) for row in last.panes.select("key", *numbers).rows())))
    assert len(observed) == 1
