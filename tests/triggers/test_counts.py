"""Triggers that count rows."""

from __future__ import annotations

import eventide as ev
from tests.triggers.panes import pushed


def test_three_rows_at_once_give_one_pane_of_three() -> None:
    push = pushed(ev.after_count(2), may_lose_data=True)
    assert push(1, 2, 3) == [("EARLY", 3)]


def test_a_count_waits_for_its_rows() -> None:
    push = pushed(ev.after_count(3), may_lose_data=True)
    assert push(1) == [] and push(2) == []
    assert push(3) == [("EARLY", 3)]


def test_a_count_alone_finishes_and_later_rows_are_counted_as_unemitted() -> None:
    push = pushed(ev.after_count(1), may_lose_data=True)
    assert push(1) == [("EARLY", 1)]
    assert push.fields("pane_is_last") == [True]
    assert push(2, 3) == []
    assert push.last.counts.unemitted == 2 and push.last.counts.kept == 2
    assert push.drain() == []


def test_a_repeated_count_begins_again_at_zero() -> None:
    push = pushed(ev.repeatedly(ev.after_count(2)))
    assert push(1, 2, 3) == [("EARLY", 3)]
    assert push(4) == []
    assert push(5) == [("EARLY", 5)]


def test_each_speaks_once_for_a_bundle_with_rows() -> None:
    push = pushed(ev.on_update(), mode="discarding")
    assert push(1, 2) == [("EARLY", 2)]
    assert push(3) == [("EARLY", 1)]
    assert push() == []


def test_each_window_counts_for_itself() -> None:
    push = pushed(ev.repeatedly(ev.after_count(2)))
    assert push(1, 61) == []
    assert push(2) == [("EARLY", 2)]
    assert push(62) == [("EARLY", 2)]


def test_late_rows_count_too() -> None:
    push = pushed(ev.repeatedly(ev.after_count(2)), lateness="1h")
    push(1, watermark=100)
    assert push(2) == [("LATE", 2)]


def test_rows_pending_when_a_window_expires_are_emitted() -> None:
    push = pushed(ev.repeatedly(ev.after_count(5)))
    assert push(1, 2) == []
    assert push(watermark=60) == [("ON_TIME", 2)]
    assert push.fields("pane_is_last") == [True]
