"""A rescale at a random bundle, into a random number of buckets, changes no output of any kind of plan."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.spark.shuffle_pages import Progress
from eventide.time import MAX
from tests.effort import SEED, examples
from tests.pages.test_histories import seen
from tests.processors.test_processor_histories import KINDS, PUPPET
from tests.processors.test_processor_histories import SCHEMA as PUPPET_SCHEMA
from tests.spark.harness import PagesHost

HISTORIES = examples(3)
BUNDLES = 6
BUCKETS = (1, 2, 3, 5)
KEYS = [f"key {number}" for number in range(9)]
SCHEMA = {"t": pl.Int64(), "key": pl.String(), "value": pl.Int64(), "origin": pl.String(), "number": pl.Int64()}


def stream(watermark: Any = "4 us", **options: Any) -> Any:
    return ev.stream(time="t", key="key", watermark=watermark, **options)


def windows(window: Any, watermark: Any = "4 us", **emit: Any) -> Any:
    emitted = stream(watermark).window(window).emit(**emit) if emit else stream(watermark).window(window)
    return emitted.agg(n=ev.count(), total=ev.sum("value"), first=ev.first("value"))


OFTEN: dict[str, Any] = {"early": ev.on_update(), "late": ev.on_update(), "allowed_lateness": "6 us"}
NUMBERED = ev.bounded_delay("4 us", origin="origin", sequence="number", idle_timeout="25 us")
IDLE = ev.bounded_delay("4 us", origin="origin", idle_timeout="10 us", on_return="catch_up")
PLANS = {
    "fixed windows, cells": windows(ev.tumbling("7 us")),
    "fixed windows, panes": windows(ev.tumbling("7 us"), **OFTEN),
    "sliding windows, cells": windows(ev.sliding("9 us", every="3 us")),
    "sliding windows, panes": windows(ev.sliding("9 us", every="3 us"), **OFTEN),
    "sessions": windows(ev.sessions("5 us"), **OFTEN),
    "capped sessions": windows(ev.sessions("5 us", max_duration="12 us"), **OFTEN),
    "row windows": windows(ev.rows(3, every=2)),
    "numbered origins": windows(ev.tumbling("7 us"), NUMBERED),
    "idle origins": windows(ev.tumbling("7 us"), IDLE, **OFTEN),
    "without repeats": stream().deduplicate("value", within="15 us").window(ev.tumbling("7 us")).agg(n=ev.count()),
    "interval join": ev.join(stream(), stream("9 us"), within=("-6 us", "4 us"), how="full"),
    "last rows": ev.join(stream(), stream(), last=2, keep="20 us"),
    "window join": ev.window_join(stream(), stream("9 us"), window=ev.tumbling("7 us"), how="full"),
    "union": ev.union(stream(), stream("9 us")).window(ev.tumbling("7 us")).agg(n=ev.count(), total=ev.sum("value")),
    "chain": windows(ev.tumbling("3 us"), **OFTEN).then(
        ev.stream(time="window_time", key="key").window(ev.tumbling("12 us")).agg(n=ev.sum("n"), panes=ev.count())
    ),
    "chain over origins": windows(ev.sessions("3 us"), IDLE).then(
        ev.stream(time="window_time").window(ev.tumbling("20 us")).agg(n=ev.sum("n"))
    ),
}


def random_rows(rng: Random, bundle: int, numbers: dict[str, int]) -> pl.DataFrame:
    """Rows out of order, of origins whose numbers have gaps that close later; at times an origin is silent."""
    rows = []
    for _ in range(rng.randrange(14)):
        origin = rng.choice("xyz" if bundle % 3 else "xy")
        numbers[origin] = numbers.get(origin, 0) + 1
        rows.append((bundle * 6 + rng.randrange(12), rng.choice(KEYS), rng.randrange(20), origin, numbers[origin]))
    rng.shuffle(rows)
    return pl.DataFrame(rows, SCHEMA, orient="row")


def check(pipeline: Any, schema: Any, bundles: Sequence[Any], rng: Random, step: int) -> None:
    """Compare a query that is rescaled before one of its bundles, or twice, with one that is not."""
    ways: tuple[Progress, ...] = ("direct", "coalesced")
    stayed, rescaled = (
        PagesHost(pipeline, schema, buckets=count, progress=way, progress_after=lambda: rng.choice(ways))
        for count, way in zip(rng.sample(BUCKETS, 2), ("direct", rng.choice(ways)), strict=True)
    )
    moments = {rng.randrange(1, len(bundles)), rng.randrange(1, len(bundles))}
    for number, rows in enumerate(bundles):
        if number in moments:
            rescaled.move(rng.choice(BUCKETS))
        progress: dict[str, Any] = {"now": number * step, "polled": True}
        progress["watermark"] = MAX if number == len(bundles) - 1 else None
        assert seen(stayed.bundle(rows, **progress)) == seen(rescaled.bundle(rows, **progress)), f"bundle {number}"


@pytest.mark.parametrize("name", PLANS)
def test_a_rescaled_query_emits_what_a_query_that_stayed_emits(name: str) -> None:
    pipeline = PLANS[name]
    inputs = len(pipeline.plan.edges)
    for history in range(HISTORIES):
        rng = Random(f"{SEED}/rescale/{name}/{history}")
        numbers: list[dict[str, int]] = [{} for _ in range(inputs)]
        bundles = [[random_rows(rng, bundle, number) for number in numbers] for bundle in range(BUNDLES)]
        check(pipeline, (SCHEMA,) * inputs, bundles, rng, 6)


def test_a_rescaled_processor_keeps_its_state_and_its_timers() -> None:
    for history in range(HISTORIES):
        rng = Random(f"{SEED}/rescale/processor/{history}")
        bundles = []
        for now in range(0, 60, 6):
            timers = [rng.choice(["once", "again"]) for _ in range(rng.randrange(9))]
            rows = [(now + rng.randrange(9), rng.choice("abcdef"), rng.choice(KINDS), name, 5) for name in timers]
            bundles.append([pl.DataFrame(rows, PUPPET_SCHEMA, orient="row")])
        check(PUPPET, PUPPET_SCHEMA, bundles, rng, 6)
