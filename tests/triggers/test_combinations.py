"""Triggers made of triggers."""

from __future__ import annotations

import pytest

import eventide as ev
from eventide.triggers import Trigger
from tests.triggers.panes import pushed


def test_in_order_the_next_begins_when_the_one_before_has_finished() -> None:
    push = pushed(ev.in_order(ev.after_count(1), ev.repeatedly(ev.after_count(3))))
    assert push(1) == [("EARLY", 1)]
    assert push(2, 3) == []
    assert push(4) == [("EARLY", 4)]
    assert push(5, 6) == []
    assert push(7) == [("EARLY", 7)]


def test_in_order_rows_count_for_the_one_at_work_only() -> None:
    push = pushed(ev.in_order(ev.after_count(1), ev.after_count(2)), may_lose_data=True)
    assert push(1, 2, 3) == [("EARLY", 3)]
    assert push(4) == []
    assert push(5) == [("EARLY", 5)]
    assert push.fields("pane_is_last") == [True]


def test_repeated_in_order_begins_with_the_first_again() -> None:
    push = pushed(ev.repeatedly(ev.in_order(ev.after_count(1), ev.after_count(2))))
    assert [len(push(i)) for i in range(1, 7)] == [1, 0, 1, 1, 0, 1]


def test_any_of_fires_with_the_first_and_starts_both_again_when_repeated() -> None:
    push = pushed(ev.repeatedly(ev.any_of(ev.after_count(3), ev.after_processing_time("10s"))))
    assert push(1, now=0) == []
    assert push(now=10) == [("EARLY", 1)]
    assert push(2, 3, now=11) == []  # the count has begun again: one row before, two now
    assert push(4, now=12) == [("EARLY", 4)]
    assert push(now=21) == []  # and so has the clock


def test_all_of_waits_for_the_last() -> None:
    push = pushed(ev.all_of(ev.after_count(2), ev.after_processing_time("10s")), may_lose_data=True)
    assert push(1, 2, now=0) == []
    assert push(now=10) == [("EARLY", 2)]


def test_all_of_with_the_watermark_waits_for_the_end() -> None:
    push = pushed(ev.all_of(ev.after_count(2), ev.after_watermark()))
    assert push(1, 2) == []
    assert push(watermark=60) == [("ON_TIME", 2)]


def test_or_finally_repeats_until_the_end() -> None:
    push = pushed(ev.or_finally(ev.on_update(), ev.after_watermark()), lateness="1h", may_lose_data=True)
    assert push(1) == [("EARLY", 1)] and push(2) == [("EARLY", 2)]
    assert push(watermark=60) == [("ON_TIME", 2)]
    assert push.fields("pane_is_last") == [True]
    assert push(3) == [] and push.last.counts.unemitted == 1


def test_never_speaks_only_when_the_window_expires() -> None:
    push = pushed(ev.never(), lateness="30s")
    assert push(1, watermark=60) == [] and push(2) == []
    assert push(watermark=90) == [("LATE", 2)]
    assert push.fields("pane_is_last") == [True]


def test_never_without_lateness_speaks_on_time() -> None:
    push = pushed(ev.never())
    push(1)
    assert push.drain() == [("ON_TIME", 1)]


def test_repeating_the_watermark_tells_of_late_rows_too() -> None:
    push = pushed(ev.repeatedly(ev.after_watermark()), lateness="1h")
    assert push(1, watermark=60) == [("ON_TIME", 1)]
    assert push(2) == [("LATE", 2)]
    assert push() == []


@pytest.mark.parametrize("split", [1, 2, 5])
@pytest.mark.parametrize(
    "trigger",
    [
        ev.on_update(),
        ev.never(),
        ev.repeatedly(ev.after_count(3)),
        ev.repeatedly(ev.all_of(ev.after_count(2), ev.after_processing_time("3s"))),
        ev.in_order(ev.after_count(2), ev.every("7s")),
        ev.after_watermark(early=ev.every("2s"), late=ev.repeatedly(ev.after_count(2))),
    ],
    ids=lambda trigger: trigger.describe() if hasattr(trigger, "describe") else str(trigger),
)
def test_for_any_trigger_the_diffs_add_up_to_all_rows(trigger: Trigger, split: int) -> None:
    push = pushed(trigger, mode="retracting", lateness="1h")
    times = [1, 62, 3, 64, 5, 66, 7, 68, 9, 70]
    text = [row for i in range(0, 10, split) for row in push(*times[i : i + split], now=i, watermark=8 * i)]
    assert sum(n for _, n in text + push.drain()) == 10


SESSIONS = ev.sessions("10s")


def test_when_sessions_merge_their_counts_add_up() -> None:
    push = pushed(ev.repeatedly(ev.after_count(3)), window=SESSIONS)
    assert push(0, 20) == []
    assert push(10) == [("EARLY", 3)]


def test_when_sessions_merge_the_earliest_deadline_applies() -> None:
    push = pushed(ev.every("10s"), window=SESSIONS)
    push(0, now=0)
    push(20, now=5)
    push(10, now=8)
    assert push(now=10) == [("EARLY", 3)]


def test_when_sessions_merge_the_furthest_turn_applies() -> None:
    push = pushed(ev.in_order(ev.after_count(1), ev.repeatedly(ev.after_count(3))), window=SESSIONS)
    assert push(0) == [("EARLY", 1)]
    assert push(100, now=1) == [("EARLY", 1)]
    assert push(5) == []  # the second turn, one of three
    assert push(6, 7) == [("EARLY", 4)]


def test_a_session_that_grows_beyond_the_watermark_is_early_again() -> None:
    push = pushed(
        ev.after_watermark(early=ev.on_update(), late=ev.on_update()), window=SESSIONS, lateness="1h", mode="retracting"
    )
    assert push(0, watermark=10) == [("ON_TIME", 1)]
    assert push(10) == [("ON_TIME", -1), ("EARLY", 2)]
    assert push(watermark=20) == [("EARLY", -2), ("ON_TIME", 2)]


def test_what_was_counted_before_the_on_time_pane_does_not_count_again() -> None:
    push = pushed(ev.after_watermark(early=ev.after_count(3), late=ev.on_update()), window=SESSIONS, lateness="1h")
    assert push(0, 1, watermark=11) == [("ON_TIME", 2)]
    assert push(11) == []  # early again, one of three
    assert push(12, 13) == [("EARLY", 5)]


def test_a_session_that_changes_counts_its_panes_anew() -> None:
    push = pushed(ev.on_update(), window=SESSIONS)
    push(0)
    assert push.fields("pane_index") == [0]
    push(0)
    assert push.fields("pane_index") == [1]
    push(5)
    assert push.fields("pane_index") == [0] and push.fields("pane_is_first") == [True]
