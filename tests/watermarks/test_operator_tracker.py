"""What each of several inputs has reached."""

from __future__ import annotations

from typing import Any

import polars as pl

import eventide as ev
from eventide.watermarks import OperatorTracker, Strategy

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
