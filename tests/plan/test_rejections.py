"""An invalid plan is rejected when it is built: what is wrong, where, and how to fix it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.plan import WindowedStream


def windowed(key: str = "shop") -> WindowedStream:
    return ev.stream(time="ts", key=key, watermark=ev.bounded_delay("30s")).window(ev.tumbling("1m"))


N = {"n": ev.count()}

REJECTIONS: list[tuple[Callable[[], Any], str]] = [
    (lambda: ev.stream(time=5), "time=5: name the column of the event time"),  # type: ignore[arg-type]
    (lambda: ev.stream(time=""), "or use time=ev.ingestion_time() if there is none"),
    (lambda: ev.stream(time=ev.ingestion_time), "name the column of the event time"),  # type: ignore[arg-type]
    (lambda: ev.stream(time="ts", key=5), "key=5: a key is a column name, or a list of column names"),  # type: ignore[arg-type]
    (lambda: ev.stream(time="ts", key=0), "key=0: a key is a column name"),  # type: ignore[arg-type]
    (lambda: ev.stream(time="ts", key=["a", 5]), "key=['a', 5]"),  # type: ignore[list-item]
    (lambda: ev.stream(time="ts", key=["a", ""]), "key=['a', '']"),
    (lambda: ev.stream(time="ts", key=b"ab"), "a key is a column name"),  # type: ignore[arg-type]
    (lambda: ev.stream(time="ts", key={"a", "b"}), "a key is a column name"),  # type: ignore[arg-type]
    (lambda: ev.stream(time="ts", key=["a", "b", "a"]), "key: the column 'a' is named twice"),
    (lambda: windowed("window_start").agg(**N), "key: 'window_start' is a column that every pane has"),
    (lambda: windowed("diff").agg(**N), "key: 'diff' is a column that every pane has"),
    (lambda: ev.stream(time="ts", watermark=30), "Write it with one: watermark='30 seconds'"),  # type: ignore[arg-type]
    (lambda: ev.stream(time="ts", watermark=ev.bounded_delay("30s", orign="p")), "Did you mean 'origin'?"),  # type: ignore[call-arg]
    (lambda: ev.stream(time="ts", watermark=ev.bounded_delay("30s", chunk="c")), "chunk needs sequence"),
    (lambda: windowed().trigger(ev.on_update()).trigger(ev.on_update()), "emission of this stream is already set"),
    (lambda: windowed().trigger(ev.on_update()).emit(allowed_lateness="2h"), "Use one .emit(…) or one .trigger(…)"),
    (lambda: windowed().trigger(None), ".trigger() needs a trigger"),  # type: ignore[arg-type]
    (lambda: windowed().trigger(ev.on_update(), mode="retract"), "Did you mean 'retracting'"),  # type: ignore[arg-type]
    (lambda: windowed().limit_state(), "needs a limit"),
    (lambda: windowed().limit_state(rows=0), ".limit_state(rows=0): give an integer of at least 1"),
    (lambda: windowed().limit_state(rows=1).limit_state(bytes=1), ".limit_state() was already called"),
    (lambda: ev.stream(time="ts").window("1 minute"), "Name its kind, such as ev.tumbling('1 minute')"),  # type: ignore[arg-type]
    (lambda: ev.stream(time="ts").window(ev.tumbling), "Call it: ev.tumbling(…)"),  # type: ignore[arg-type]
    (lambda: ev.stream(time="ts").window(object()), "A custom window kind implements ev.WindowKind"),  # type: ignore[arg-type]
    (lambda: ev.stream(time="ts").window(ev.tumbling("1m"), output_time="erliest"), "Did you mean 'earliest'?"),  # type: ignore[arg-type]
    (lambda: ev.stream(time="ts").window(ev.tumbling("80000000 days")), "size of the window"),
    (lambda: ev.stream("ts").window(ev.sliding("1d", every="80000000 days", gaps="allowed")), "every of the window"),
    (lambda: ev.stream(time="ts").window(ev.sessions("80000000 days")), "gap of the window"),
    (lambda: ev.stream(time="ts").window(ev.sessions("1d", max_duration="80000000 days")), "max_duration of"),
    (lambda: ev.stream(time="ts").window(ev.cumulate("80000000 days", "80000000 days")), "size of the window"),
    (lambda: windowed().emit(allowed_lateness="80000000 days"), "plus an instant exceed 64 bits"),
    (lambda: windowed().emit(allowed_lateness=30), "is given in rows, but the windows (tumbling 1m) are not"),
    (lambda: windowed().emit(allowed_lateness="-1s"), "must not be negative"),
    (lambda: windowed().emit(early="10s", skip_unchanged="no"), ".emit(skip_unchanged='no'): give True or False"),  # type: ignore[arg-type]
    (lambda: windowed().trigger(ev.on_update(), may_lose_data="no"), ".trigger(may_lose_data='no'): give True"),  # type: ignore[arg-type]
    (lambda: windowed().agg(**N).local([], drain="no"), "local(drain='no'): give True or False"),  # type: ignore[arg-type]
    (lambda: ev.composite(n=ev.count(), where="paid"), "composite(where='paid'): conditions belong to the aggregates"),  # type: ignore[arg-type]
    (lambda: ev.composite(n=ev.count(), where=pl.col("paid")), "ev.sum('price', where=…)"),  # type: ignore[arg-type]
    (lambda: windowed().agg(), "There is no aggregate"),
    (lambda: windowed().agg(n="price"), "n=ev.sum('price')"),  # type: ignore[arg-type]
    (lambda: windowed().agg(n=sum), "That is Python's own sum"),  # type: ignore[arg-type]
    (lambda: windowed().agg(n=ev.count), "is not an aggregate"),  # type: ignore[arg-type]
    (lambda: windowed().agg(shop=ev.count()), ".agg(shop=…): 'shop' is a key column"),
    (lambda: windowed().agg(window_end=ev.count()), "'window_end' is a column that every pane has"),
    (lambda: windowed().agg(pane_index=ev.count()), "'pane_index' is a column that every pane has"),
    (lambda: windowed().agg(diff=ev.count()), "'diff' is a column that every pane has"),
    (lambda: windowed().agg(__n=ev.count()), "reserved, because it begins with two underscores"),
    (lambda: windowed().agg(**{"": ev.count()}), "a result needs a name"),
    (lambda: ev.stream(time="ts").window(ev.rows(3)).emit(allowed_lateness="1h").agg(**N), "allowed_lateness= has no"),
    (
        lambda: ev.stream(time="ts").window(ev.sessions("1m", max_duration="1h")).emit(mode="discarding").agg(**N),
        "cannot be combined with mode='discarding'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), REJECTIONS, ids=[message for _, message in REJECTIONS])
def test_an_invalid_plan_is_rejected_with_a_suggested_fix(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ev.PlanError, match=re.escape(message)):
        make()


def test_a_refusal_is_a_value_error_too() -> None:
    with pytest.raises(ValueError):
        windowed().agg()


@pytest.mark.parametrize(
    "name", ["timing", "index", "time", "at", "window", "pane", "start", "end", "event_time", "#index", "n"]
)
@pytest.mark.parametrize("mode", ["accumulating", "retracting"])
def test_words_of_panes_are_free_as_names_of_results_and_keys(name: str, mode: Any) -> None:
    rows = pl.DataFrame({"ts": [1, 2], name: ["a", "b"]})
    for key, result in ((name, "result"), (None, name)):
        stream = ev.stream(time="ts", key=key).window(ev.tumbling("1m"))
        often = stream.emit(early=ev.on_update(), mode=mode, skip_unchanged=True)
        for pipeline in (stream.agg(**{result: ev.count()}), often.agg(**{result: ev.count()})):
            assert result in pipeline.local(rows, clock=[0]).panes.columns
