"""Triggers that cannot be meant, and those that would lose rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import eventide as ev
from eventide.triggers import Trigger

MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: ev.after_count(0), "after_count(0): the number of rows must be an integer of at least 1"),
    (lambda: ev.after_count(True), "after_count(True)"),
    (lambda: ev.after_count(2.0), "after_count(2.0)"),  # type: ignore[arg-type]
    (lambda: ev.after_processing_time(10), "has no unit"),  # type: ignore[arg-type]
    (lambda: ev.after_processing_time("0s"), "delay of after_processing_time()='0s' must be longer than zero"),
    (lambda: ev.every("0s"), "period of every()='0s' must be longer than zero"),
    (lambda: ev.any_of(ev.on_update()), "any_of() needs at least 2 triggers, got 1"),
    (lambda: ev.all_of(), "all_of() needs at least 2 triggers, got 0"),
    (lambda: ev.in_order(ev.on_update()), "in_order() needs at least 2 triggers, got 1"),
    (lambda: ev.repeatedly(ev.on_update), "Call it: on_update(…)"),  # type: ignore[arg-type]
    (lambda: ev.any_of(ev.on_update(), 5), "any_of() needs a trigger such as"),  # type: ignore[arg-type]
    (lambda: ev.or_finally(ev.on_update(), "10s"), "or_finally() needs a trigger such as"),  # type: ignore[arg-type]
    (lambda: ev.after_watermark(early=ev.sum("x")), "after_watermark(early=…) needs a trigger"),  # type: ignore[arg-type]
    (lambda: ev.after_watermark(late="soon"), "late of after_watermark()='soon' is not a duration"),
    (lambda: ev.after_watermark(early=10), "early of after_watermark()=10 has no unit"),  # type: ignore[arg-type]
    (lambda: ev.after_watermark(late=ev.on_update), "after_watermark(late=…) needs a trigger"),  # type: ignore[arg-type]
    (lambda: ev.stream(time="t").window(ev.tumbling("1m")).trigger("each"), ".trigger() needs a trigger such as"),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_what_is_no_trigger_is_rejected(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ev.PlanError, match=re.escape(message)):
        make()


def build(trigger: Trigger, *, lateness: str = "0s", may_lose_data: bool = False) -> ev.Pipeline:
    windows = ev.stream(time="t").window(ev.tumbling("1m"))
    emitting = windows.trigger(trigger, mode="accumulating", allowed_lateness=lateness, may_lose_data=may_lose_data)
    return emitting.agg(n=ev.count())


STOPS_ANY_TIME = [
    ev.after_count(2),
    ev.after_processing_time("10s"),
    ev.any_of(ev.on_update(), ev.after_count(5)),
    ev.in_order(ev.after_count(1), ev.after_count(5)),
    ev.all_of(ev.after_count(2), ev.after_processing_time("1s")),
    ev.or_finally(ev.on_update(), ev.after_count(100)),
]
STOPS_AT_END = [
    ev.after_watermark(),
    ev.after_watermark(early=ev.on_update()),
    ev.or_finally(ev.on_update(), ev.after_watermark()),
    ev.in_order(ev.after_count(1), ev.after_watermark()),
    ev.all_of(ev.after_count(1), ev.after_watermark()),
]
NEVER_STOPS = [
    ev.on_update(),
    ev.every("10s"),
    ev.never(),
    ev.after_watermark(late=ev.on_update()),
    ev.in_order(ev.after_count(1), ev.on_update()),
    ev.repeatedly(ev.after_watermark()),
]


def named(trigger: object) -> str | None:
    return trigger.describe() if hasattr(trigger, "describe") else None


@pytest.mark.parametrize("trigger", STOPS_ANY_TIME, ids=named)
@pytest.mark.parametrize("lateness", ["0s", "1h"])
def test_a_trigger_that_can_stop_early_is_rejected(trigger: Trigger, lateness: str) -> None:
    with pytest.raises(ev.PlanError) as refusal:
        build(trigger, lateness=lateness)
    assert f"'{trigger.describe()}' may lose data: it can finish before the window is complete" in str(refusal.value)
    assert "Wrap it in ev.repeatedly(…)" in str(refusal.value) and "may_lose_data=True" in str(refusal.value)


@pytest.mark.parametrize("trigger", STOPS_AT_END, ids=named)
def test_a_trigger_that_stops_at_the_end_is_rejected_with_lateness(trigger: Trigger) -> None:
    with pytest.raises(ev.PlanError) as refusal:
        build(trigger, lateness="1h")
    assert "it finishes at the end of the window, but rows may be 1h late" in str(refusal.value)
    assert "Add late=ev.on_update() to after_watermark(), or remove allowed_lateness=" in str(refusal.value)


@pytest.mark.parametrize("trigger", STOPS_AT_END, ids=named)
def test_a_trigger_that_stops_at_the_end_is_good_without_lateness(trigger: Trigger) -> None:
    assert "nothing: rows too late" in build(trigger).explain()


@pytest.mark.parametrize("trigger", NEVER_STOPS, ids=named)
@pytest.mark.parametrize("lateness", ["0s", "1h"])
def test_a_trigger_that_never_stops_is_good(trigger: Trigger, lateness: str) -> None:
    assert "nothing: rows too late" in build(trigger, lateness=lateness).explain()


@pytest.mark.parametrize("trigger", [*STOPS_ANY_TIME, *STOPS_AT_END], ids=named)
def test_a_loss_that_is_accepted_is_explained(trigger: Trigger) -> None:
    assert "accepted by may_lose_data" in build(trigger, lateness="1h", may_lose_data=True).explain()


def test_a_duration_in_after_watermark_is_short_for_every_as_in_emit() -> None:
    by_text = ev.after_watermark(early="10 seconds", late=timedelta(minutes=1))
    assert by_text == ev.after_watermark(early=ev.every("10 seconds"), late=ev.every("1 minute"))
