"""A watermark that follows events, but at the latest the clock."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from random import Random
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.spark.control import needs_ticks

SECOND = 1_000_000
SCHEMA = {"t": pl.Int64, "device": pl.String}


def frame(*times: int, device: str = "a") -> pl.DataFrame:
    rows = [(time * SECOND, device) for time in times]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def watched(**options: Any) -> ev.Pipeline:
    watermark = ev.bounded_delay("10 seconds", at_latest="60 seconds", **options)
    return ev.stream("t", key="device", watermark=watermark).window(ev.sessions("30 seconds")).agg(n=ev.count())


def test_it_follows_events_while_they_arrive() -> None:
    query = watched().start_local(SCHEMA)
    assert query.push(frame(1000, 1005), now=1006 * SECOND).watermark_us == 995 * SECOND


def test_it_follows_the_clock_when_no_events_arrive() -> None:
    query = watched().start_local(SCHEMA)
    query.push(frame(1000), now=1001 * SECOND)
    assert query.push(now=1050 * SECOND).watermark_us == 990 * SECOND
    step = query.push(now=1091 * SECOND)
    assert (step.watermark_us, step.panes["n"].to_list()) == (1031 * SECOND, [1])


@pytest.mark.parametrize("options", [{"origin": "device"}, {"origin": "device", "expect_origins": 3}])
def test_a_silent_origin_does_not_hold_it_for_longer(options: dict[str, Any]) -> None:
    query = watched(**options).start_local(SCHEMA)
    query.push(pl.concat([frame(1000), frame(1000, device="b")]), now=1001 * SECOND)
    step = query.push(frame(1100), now=1101 * SECOND)
    assert step.watermark_us == 1041 * SECOND, "b is silent"


def test_it_continues_after_a_restart_and_never_back() -> None:
    pipeline = watched()
    query = pipeline.start_local(SCHEMA)
    query.push(frame(1000), now=1100 * SECOND)
    again = pipeline.start_local(saved=query.save())
    assert again.push(frame(1041), now=1101 * SECOND).watermark_us == 1041 * SECOND


def test_the_watermark_is_that_of_a_model() -> None:
    rng = Random(5)
    for _ in range(20):
        query, now, highest, expected = watched().start_local(SCHEMA), 1000, None, None
        for _ in range(30):
            now += rng.randint(1, 40)
            times = [now - rng.randint(0, 30) for _ in range(rng.choice([0, 0, 0, 1, 3]))]
            step = query.push(frame(*times), now=now * SECOND)
            highest = max([*times, *([] if highest is None else [highest])], default=None)
            reached = now - 60 if highest is None else max(now - 60, highest - 10)
            expected = reached if expected is None else max(expected, reached)
            assert step.watermark_us == expected * SECOND


@pytest.mark.parametrize(
    "build",
    [
        lambda: ev.bounded_delay("5 minutes", at_latest="1 minute"),
        lambda: ev.bounded_delay("5 minutes", at_latest="300 seconds"),
        lambda: ev.ascending(at_latest="0 seconds"),
        lambda: ev.sql(
            "CREATE STREAM clicks WATERMARK FOR t AS t - INTERVAL '5' MINUTE AT LATEST INTERVAL '1' MINUTE;"
            "SELECT COUNT(*) AS n FROM TUMBLE(clicks, DESCRIPTOR(t), INTERVAL '1' MINUTE)"
        ),
    ],
)
def test_a_delay_that_the_clock_always_overtakes_is_rejected(build: Callable[[], object]) -> None:
    with pytest.raises(ev.PlanError, match=r"is not longer than the delay of .* ev\.processing_time\("):
        build()


def test_hosts_wake_up_for_it() -> None:
    pipeline = watched()
    assert needs_ticks(pipeline.plan)
    query = pipeline.start_local(SCHEMA)
    query.push(frame(1000), now=1001 * SECOND)
    deadline = query._operator.next_deadline(query._state)
    assert deadline == (1030 + 60) * SECOND


def test_help_shows_all_options() -> None:
    parameters = inspect.signature(ev.bounded_delay).parameters
    assert {"at_latest", "origin", "sequence", "first_sequence", "gaps", "idle_timeout", "max_future_skew"} <= set(
        parameters
    )
    assert all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters.values())


def test_an_option_that_does_not_exist_is_answered() -> None:
    with pytest.raises(ev.PlanError, match="Did you mean 'origin'"):
        ev.bounded_delay("30s", orign="p")  # type: ignore[call-arg]
    with pytest.raises(ev.PlanError, match="has no option 'at_latest'"):
        ev.processing_time("30s", at_latest="5m")  # type: ignore[call-arg]
