"""One event in 1970 and one today: what is between them costs nothing."""

from __future__ import annotations

import polars as pl
import pytest

import eventide as ev
from eventide.windows import Sessions

TODAY = 1_750_000_000_000_000
KINDS = [
    (ev.tumbling("1s"), 1, 2),
    (ev.sliding("1m", every="1s"), 60, 120),
    (ev.sliding("1m", every="7s"), 9, 18),
    (ev.cumulate("1s", "1m"), 60, 120),
    (ev.calendar("day", tz="Europe/Berlin"), 1, 2),
    (ev.sessions("1s"), 1, 2),
    (ev.sessions("1s", max_duration="1s"), 1, 2),
]


@pytest.mark.parametrize(
    ("kind", "most_each", "most"), KINDS, ids=lambda k: k.describe() if hasattr(k, "describe") else ""
)
def test_events_half_a_century_apart_make_only_their_own_panes(
    kind: ev.WindowKind | Sessions, most_each: int, most: int
) -> None:
    pipeline = ev.stream(time="t", watermark=ev.bounded_delay("0s")).window(kind).agg(n=ev.count())
    query = pipeline.start_local()
    opened = query.push(pl.DataFrame({"t": [0, TODAY]}), now=0)
    assert query.scan() == [] or sum(frame.height for frame in query.scan()) <= 2
    ended = query.drain()
    assert opened.panes.height + ended.panes.height <= most
    assert opened.panes.height <= most_each
    assert opened.panes["n"].to_list() == [1] * opened.panes.height


@pytest.mark.parametrize("kind", [ev.sliding("1m", every="1s"), ev.cumulate("1s", "1m")], ids=lambda k: k.describe())
def test_with_triggers_only_the_windows_of_the_rows_are_open(kind: ev.WindowKind) -> None:
    stream = ev.stream(time="t").window(kind).trigger(ev.after_watermark(early=ev.on_update()), mode="retracting")
    opened = stream.agg(n=ev.count()).start_local().push(pl.DataFrame({"t": [0, TODAY]}), now=0)
    assert opened.open_panes == opened.panes.height <= 120
