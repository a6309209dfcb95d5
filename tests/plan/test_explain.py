"""A plan in words."""

from __future__ import annotations

import eventide as ev


def test_the_simplest_plan() -> None:
    pipeline = ev.stream(time="ts").window(ev.tumbling("1 minute")).agg(n=ev.count())
    assert pipeline.explain() == (
        "       time  column 'ts'\n"
        "        key  none: one group\n"
        "  watermark  no watermark\n"
        "    windows  tumbling 1m\n"
        "    trigger  when the watermark passes the end\n"
        "   lateness  none\n"
        "      panes  one per window, when it is complete\n"
        " aggregates  n = count() (merges, inverts)\n"
        "      state  cells: partial aggregates per key and slice; each window fires once\n"
        "may be lost  nothing: rows too late go to the late output, unusable ones to the dead letters\n"
        "             with .transform() on Spark: late rows and dead letters, which pipeline.run and ev.outputs keep\n"
    )


def test_a_plan_with_everything() -> None:
    pipeline = (
        ev.stream(
            time="ts", key=["shop", "till"], watermark=ev.bounded_delay("30s", origin="partition", idle_timeout="2m")
        )
        .window(ev.sliding("10 minutes", every="1 minute"), output_time="earliest")
        .trigger(
            ev.after_watermark(early=ev.every("10s"), late=ev.on_update()),
            allowed_lateness="1 hour",
            mode="retracting",
            skip_unchanged=True,
        )
        .agg(n=ev.count(), total=ev.sum("price"), p95=ev.quantile("price", 0.95), best=ev.reduce(max, "price"))
    )
    lines = {line[:11].strip(): line[13:] for line in reversed(pipeline.explain().splitlines())}
    assert lines["time"] == "column 'ts'"
    assert lines["key"] == "'shop', 'till'"
    assert lines["watermark"] == "bounded delay 30s, per 'partition', idle after 2m"
    assert lines["lateness"] == "1h"
    assert lines["panes"].endswith("retracted first; only when the value changed")
    assert lines["pane time"] == "the earliest time of its rows"
    assert lines["aggregates"] == "n = count() (merges, inverts)"
    assert lines["state"] == "panes: one row per key and open window, with its trigger"
    text = pipeline.explain()
    assert "windows  sliding 10m every 1m\n" in text
    assert "trigger  when the watermark passes the end; early: repeatedly (10s of processing time" in text
    assert "total = sum(price)" in text and "keeps the rows" in text and "runs Python for each row" in text


def test_a_plan_that_may_lose_rows_says_so() -> None:
    windows = ev.stream(time="ts").window(ev.global_window())
    stream = windows.trigger(ev.after_count(10), mode="discarding", may_lose_data=True)
    assert "may be lost  rows that arrive after the trigger has finished" in stream.agg(n=ev.count()).explain()


def test_a_plan_with_gaps_between_windows_says_so() -> None:
    stream = ev.stream(time="ts", watermark="30 seconds")
    apart = stream.window(ev.sliding("1 minute", every="10 minutes", gaps="allowed")).agg(n=ev.count())
    assert "those between two windows, unusable ones to the dead letters" in apart.explain()
    overlapping = stream.window(ev.sliding("10 minutes", every="1 minute")).agg(n=ev.count())
    assert "between" not in overlapping.explain()


def test_a_window_with_a_single_pane_has_no_mode() -> None:
    windows = ev.stream(time="ts", watermark="30 seconds").window(ev.tumbling("1 minute"))
    line = "panes  one per window, when it is complete\n"
    assert line in windows.agg(n=ev.count()).explain()
    assert line not in windows.emit(allowed_lateness="1 hour").agg(n=ev.count()).explain()
    assert line not in windows.emit(early="10 seconds", mode="accumulating").agg(n=ev.count()).explain()


def test_the_time_of_the_batch_is_named() -> None:
    pipeline = ev.stream(time=ev.ingestion_time()).window(ev.rows(3)).agg(n=ev.count())
    assert "time  the batch's own time\n" in pipeline.explain()


def test_explain_shows_the_cell_layout_where_each_window_fires_once() -> None:
    def layout(pipeline: ev.Pipeline) -> str:
        return pipeline.plan.layout

    stream = ev.stream(time="ts", watermark=ev.bounded_delay("1s"))
    assert layout(stream.window(ev.cumulate("1h", "1d")).agg(n=ev.count())) == "cells"
    assert layout(stream.window(ev.global_window()).agg(n=ev.count())) == "cells"
    assert layout(stream.window(ev.tumbling("1h")).emit(allowed_lateness="1h").agg(n=ev.count())) == "panes"
    assert layout(stream.window(ev.sessions("1h")).agg(n=ev.count())) == "panes"
    assert layout(stream.window(ev.rows(3)).agg(n=ev.count())) == "panes"
    assert layout(stream.window(ev.inherit()).agg(n=ev.count())) == "panes"
    assert (
        layout(stream.window(ev.tumbling("1h")).trigger(ev.on_update(), mode="discarding").agg(n=ev.count())) == "panes"
    )


def test_a_plan_that_is_declared_to_have_no_watermark_shows_what_is_stored_until_the_end() -> None:
    stream = ev.stream(time="ts", watermark=ev.no_watermark()).deduplicate("id", within="1 hour")
    text = stream.window(ev.tumbling("1 minute")).emit(early="10 seconds").agg(n=ev.count()).explain()
    assert "warning  without a watermark, windows are never complete before the stream ends" in text
    assert "warning  without a watermark, ids of .deduplicate() never expire before the stream ends" in text
    assert "warning" not in ev.stream("ts").window(ev.rows(3)).agg(n=ev.count()).explain()
