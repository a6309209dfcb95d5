"""What each of several inputs has reached."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.watermarks import InputTracker, OperatorTracker, Strategy, without_origins

SECOND = 1_000_000


def advance(
    trackers: OperatorTracker, strategies: dict[str, Strategy], now: int, **times: list[int]
) -> tuple[int, ...]:
    summaries = [
        strategy.summarise(pl.DataFrame({"t": times.get(name, [])}, schema={"t": pl.Int64}), "t", now)
        for name, strategy in strategies.items()
    ]
    trackers.advance(summaries, now)
    return trackers.effective_times


def both(**options: Any) -> tuple[OperatorTracker, dict[str, Strategy]]:
    strategies = {"left": ev.ascending(), "right": ev.ascending(idle_timeout="1 second", **options)}
    return OperatorTracker(strategies, key=0), strategies


def test_each_input_has_reached_what_its_own_rows_say() -> None:
    trackers, strategies = both()
    assert advance(trackers, strategies, 0, left=[10], right=[4]) == (10, 4)


def test_a_silent_input_is_as_far_as_the_others_with_its_key() -> None:
    trackers, strategies = both()
    advance(trackers, strategies, 0, left=[10], right=[4])
    assert advance(trackers, strategies, SECOND, left=[20]) == (20, 20)


def test_an_input_that_returns_has_not_gone_back() -> None:
    trackers, strategies = both()
    advance(trackers, strategies, 0, left=[10], right=[4])
    advance(trackers, strategies, SECOND, left=[20])
    assert advance(trackers, strategies, SECOND, left=[30], right=[6]) == (30, 20)
    assert advance(trackers, strategies, SECOND, right=[25]) == (30, 25)


def test_the_watermark_of_a_silent_input_with_its_own_key_does_not_advance() -> None:
    trackers, strategies = both(watermark_key=1)
    advance(trackers, strategies, 0, left=[10], right=[4])
    assert advance(trackers, strategies, SECOND, left=[20]) == (20, 4)


DEVICES = {
    "origins": ev.bounded_delay("1 second", origin="device", idle_timeout="1 second", forget_after="1 hour"),
    "sequences": ev.bounded_delay("1 second", origin="device", sequence="n", expect_origins=["a", "b"]),
    "none": ev.ascending(),
}


def summary_of(strategy: Strategy, now: int) -> pl.DataFrame:
    rows = pl.DataFrame({"t": [now, now + 5 * SECOND, now], "device": ["a", "b", "a"], "n": [1, 4, 2]})
    return strategy.summarise(rows, "t", now=now)


@pytest.mark.parametrize("name", DEVICES)
def test_a_snapshot_without_origins_is_that_of_a_tracker_at_the_same_watermark(name: str) -> None:
    strategy = DEVICES[name]
    tracker = InputTracker(strategy)
    tracker.advance(summary_of(strategy, SECOND), 20 * SECOND)
    reduced = without_origins(tracker.snapshot())
    restored, expected = InputTracker.restore(strategy, reduced), tracker.at(tracker.reached())
    assert restored.time == expected.time == tracker.time
    assert restored.metrics() == expected.metrics() and len(reduced["origins"]) == 1
    assert str(restored.at(restored.reached()).snapshot()) == str(expected.at(expected.reached()).snapshot())


def test_a_snapshot_of_several_inputs_without_origins_has_what_each_has_reached() -> None:
    trackers, strategies = both(origin="device")
    trackers.advance(
        [strategies["left"].summarise(pl.DataFrame({"t": [10]}), "t", 0), summary_of(strategies["right"], 4)], 0
    )
    restored = OperatorTracker.restore(strategies, without_origins(trackers.snapshot()), key=0)
    assert restored.effective_times == trackers.effective_times and restored.time == trackers.time
    assert trackers.metrics().origins == 3 and restored.metrics().origins == 1


def test_the_origin_that_holds_several_inputs_is_reported_even_if_idle_origins_are_slower() -> None:
    strategies = {"left": ev.ascending(), "right": ev.ascending(origin="device", idle_timeout="1 second")}
    trackers = OperatorTracker(strategies, key=0)

    def batch(now: int, left: int, **right: int) -> Any:
        devices = pl.DataFrame({"t": list(right.values()), "device": list(right)})
        rows = (pl.DataFrame({"t": [left]}), devices)
        trackers.advance([s.summarise(r, "t", now) for s, r in zip(strategies.values(), rows, strict=True)], now)
        return trackers.metrics()

    batch(0, 90, **{f"d{number}": number for number in range(20)}, a=50)
    held_by_origin = batch(SECOND, 90, a=51)
    assert held_by_origin.least_origin == "right: a" and held_by_origin.slowest[-1] == ("right: a", 51)
    held_by_input = batch(SECOND, 91, a=99)
    assert held_by_input.least_origin == "left" and held_by_input.slowest[-1] == ("left", 91)
    assert len(held_by_input.slowest) == 12
