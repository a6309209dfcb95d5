"""The trigger of the watermark, with early and late panes around it."""

from __future__ import annotations

import eventide as ev
from tests.triggers.panes import pushed


def test_the_on_time_pane_is_emitted_when_the_watermark_reaches_the_end() -> None:
    push = pushed(ev.after_watermark(early=ev.never()))
    assert push(1, watermark=59.999999) == []
    assert push(2, watermark=60) == [("ON_TIME", 2)]
    assert push.fields("pane_is_first") == [True] and push.fields("pane_is_last") == [True]


def test_early_panes_repeat_until_the_window_is_complete() -> None:
    push = pushed(ev.after_watermark(early=ev.after_count(1)))
    assert push(1) == [("EARLY", 1)]
    assert push(2) == [("EARLY", 2)]
    assert push(3, watermark=60) == [("ON_TIME", 3)]


def test_late_panes_repeat_until_the_window_expires() -> None:
    push = pushed(ev.after_watermark(late=ev.after_count(1)), lateness="30s")
    assert push(1, watermark=60) == [("ON_TIME", 1)]
    assert push(2) == [("LATE", 2)]
    assert push(3, watermark=90) == [("LATE", 3)]
    assert push.fields("pane_is_last") == [True]
    assert push(4) == [] and push.last.late.height == 1


def test_an_on_time_pane_is_emitted_even_if_it_equals_the_early_one() -> None:
    push = pushed(ev.after_watermark(early=ev.on_update()))
    assert push(1) == [("EARLY", 1)]
    assert push(watermark=60) == [("ON_TIME", 1)]


def test_retracting_an_unchanged_on_time_pane_is_retracted_and_repeated_or_neither() -> None:
    for only_updated, diffs in ((False, [-1, 1]), (True, [])):
        push = pushed(ev.after_watermark(early=ev.on_update()), mode="retracting", skip_unchanged=only_updated)
        push(1)
        push(watermark=60)
        assert push.last.panes["diff"].to_list() == diffs


def test_unless_only_news_are_wanted() -> None:
    push = pushed(ev.after_watermark(early=ev.on_update()), skip_unchanged=True)
    assert push(1) == [("EARLY", 1)]
    assert push(watermark=60) == []


def test_in_discarding_mode_the_on_time_pane_may_be_empty() -> None:
    push = pushed(ev.after_watermark(early=ev.on_update()), mode="discarding")
    assert push(1) == [("EARLY", 1)]
    assert push(watermark=60) == [("ON_TIME", 0)]


def test_a_pane_takes_the_one_before_back() -> None:
    push = pushed(ev.after_watermark(early=ev.on_update()), mode="retracting")
    assert push(1) == [("EARLY", 1)]
    assert push(2, watermark=60) == [("EARLY", -1), ("ON_TIME", 2)]


def test_a_window_born_late_has_only_late_panes() -> None:
    push = pushed(ev.after_watermark(early=ev.on_update(), late=ev.after_count(2)), lateness="1h")
    push(watermark=60)
    assert push(1) == []
    assert push(2) == [("LATE", 2)]
    assert push.fields("pane_index") == [0] and push.fields("pane_nonspeculative_index") == [0]


def test_indexes_count_panes_and_those_that_are_not_early() -> None:
    push = pushed(ev.after_watermark(early=ev.on_update(), late=ev.on_update()), lateness="1h")
    seen = []
    for rows, watermark in ((1, None), (2, None), (3, 60), (4, None)):
        push(rows, watermark=watermark)
        seen += zip(push.fields("pane_index"), push.fields("pane_nonspeculative_index"), strict=True)
    assert seen == [(0, -1), (1, -1), (2, 0), (3, 1)]


def test_an_early_deadline_does_not_fire_late() -> None:
    push = pushed(ev.after_watermark(early=ev.every("10s"), late=ev.after_count(2)), lateness="1h")
    push(1, now=0)
    assert push(now=5, watermark=60) == [("ON_TIME", 1)]
    assert push(2, now=6) == []
    assert push(now=100) == []


def test_rows_that_late_does_not_emit_are_emitted_when_the_window_expires() -> None:
    push = pushed(ev.after_watermark(late=ev.after_count(5)), lateness="30s")
    assert push(1, watermark=60) == [("ON_TIME", 1)]
    assert push(2) == []
    assert push(watermark=90) == [("LATE", 2)]


def test_the_default_without_lateness_is_one_pane_a_window() -> None:
    pipeline = ev.stream(time="t").window(ev.tumbling("1m")).agg(n=ev.count())
    assert pipeline.plan.trigger == ev.after_watermark()


def test_the_default_with_lateness_refines_with_each_late_bundle() -> None:
    pipeline = ev.stream(time="t").window(ev.tumbling("1m")).emit(allowed_lateness="1h").agg(n=ev.count())
    assert pipeline.plan.trigger == ev.after_watermark(late=ev.on_update())
