"""Triggers on processing time, which is the batch's clock alone."""

from __future__ import annotations

import pytest

import eventide as ev
from eventide.triggers import Trigger
from tests.triggers.panes import pushed


def test_a_delay_runs_from_the_first_row_and_fires_on_a_bundle_without_rows() -> None:
    push = pushed(ev.after_processing_time("10s"), may_lose_data=True)
    assert push(1, now=100) == []
    assert push(2, now=105) == []
    assert push(now=109.999999) == []
    assert push(now=110) == [("EARLY", 2)]


def test_a_delay_fires_once() -> None:
    push = pushed(ev.after_processing_time("10s"), may_lose_data=True)
    push(1, now=0)
    assert push(now=10) == [("EARLY", 1)]
    assert push(2, now=20) == [] and push(now=40) == []


def test_a_clock_that_jumps_over_the_deadline_fires() -> None:
    push = pushed(ev.every("10s"))
    push(1, now=0)
    assert push(now=1000) == [("EARLY", 1)]


def test_every_fires_at_most_once_a_period_and_only_while_rows_arrive() -> None:
    push = pushed(ev.every("10s"), mode="discarding")
    assert push(1, now=0) == []
    assert push(2, now=10) == [("EARLY", 2)]
    assert push(now=20) == [] and push(now=30) == []
    assert push(3, now=31) == []
    assert push(now=40) == []
    assert push(now=41) == [("EARLY", 1)]


def test_aligned_fires_at_the_full_period_of_the_clock() -> None:
    push = pushed(ev.every("10s", aligned=True))
    assert push(1, now=8) == []
    assert push(now=9.999999) == []
    assert push(now=10) == [("EARLY", 1)]


def test_aligned_a_row_on_the_full_period_waits_for_the_next() -> None:
    push = pushed(ev.every("10s", aligned=True))
    assert push(1, now=10) == []
    assert push(now=20) == [("EARLY", 1)]


def test_an_offset_moves_the_full_periods() -> None:
    push = pushed(ev.every("2 minutes", aligned=True, offset="1 minute"))
    assert push(1, now=6 * 60) == []
    assert push(2, now=7 * 60) == [("EARLY", 2)]
    assert push(3, now=8 * 60 + 59) == []
    assert push(now=9 * 60) == [("EARLY", 3)]


def test_an_offset_beyond_a_period_is_the_rest() -> None:
    assert ev.every("2m", aligned=True, offset="5m") == ev.every("2m", aligned=True, offset="1m")
    assert ev.every("2m", aligned=True, offset="0s") == ev.every("2m", aligned=True)
    assert ev.every("2m", aligned=True, offset="-30s") == ev.every("2m", aligned=True, offset="90s")


def test_an_offset_without_alignment_is_rejected() -> None:
    with pytest.raises(ev.PlanError, match="Add aligned=True"):
        ev.every("2 minutes", offset="1 minute")


def test_aligned_all_windows_fire_together() -> None:
    push = pushed(ev.every("10s", aligned=True))
    push(1, now=1)
    push(61, now=7)
    assert push(now=10) == [("EARLY", 1), ("EARLY", 1)]


def test_aligned_periods_floor_before_the_epoch_too() -> None:
    push = pushed(ev.every("10s", aligned=True))
    push(1, now=-12)
    assert push(now=-10.5) == []
    assert push(now=-10) == [("EARLY", 1)]


def test_a_deadline_that_passes_with_the_end_of_the_window_gives_one_pane() -> None:
    push = pushed(ev.after_watermark(early=ev.every("10s")))
    push(1, now=0)
    assert push(now=10, watermark=60) == [("ON_TIME", 1)]


# Two deadlines in one trigger: the one that has passed must not hide the one to come.
@pytest.mark.parametrize(
    "trigger",
    [
        ev.all_of(ev.after_processing_time("10s"), ev.after_processing_time("30s")),
        ev.all_of(ev.after_processing_time("30s"), ev.after_processing_time("10s")),
        ev.in_order(ev.all_of(ev.after_processing_time("10s"), ev.after_processing_time("30s")), ev.never()),
    ],
)
def test_the_later_of_two_deadlines_wakes_a_pane_on_a_tick(trigger: Trigger) -> None:
    push = pushed(trigger, may_lose_data=True)
    push(1, now=0)
    assert push(now=10) == [] and push(now=29) == []
    assert push(now=30) == [("EARLY", 1)]


def test_the_second_delay_in_order_wakes_a_pane_on_a_tick() -> None:
    push = pushed(ev.in_order(ev.after_processing_time("10s"), ev.after_processing_time("10s")), may_lose_data=True)
    push(1, now=0)
    assert push(now=10) == [("EARLY", 1)]
    push(2, now=15)
    assert push(now=24) == []
    assert push(now=25) == [("EARLY", 2)]


def test_a_finished_trigger_is_not_woken() -> None:
    push = pushed(ev.any_of(ev.after_count(1), ev.after_processing_time("10s")), may_lose_data=True)
    assert push(1, now=0) == [("EARLY", 1)]
    assert push(now=10) == []
