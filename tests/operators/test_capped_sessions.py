"""Sessions of a greatest length."""

from typing import Any

import polars as pl

import eventide as ev

SECOND, MINUTE = 1_000_000, 60_000_000


def early_panes(sessions: Any, every_seconds: int) -> list[int]:
    """The clock, in seconds, of each early pane while a row extends the session every few seconds, for ten minutes."""
    pipeline = (
        ev.stream(time="t", watermark=ev.no_watermark())
        .window(sessions)
        .trigger(ev.after_watermark(early=ev.every("1 minute")), mode="retracting")
        .agg(n=ev.count())
    )
    query = pipeline.start_local({"t": pl.Int64()})
    clocks = range(0, 600, every_seconds)
    steps = [query.push(pl.DataFrame({"t": [second * SECOND]}), now=second * SECOND) for second in clocks]
    return [second for second, step in zip(clocks, steps, strict=True) if step.panes.filter(pl.col("diff") > 0).height]


def test_a_greatest_length_does_not_starve_early_panes() -> None:
    plain, cut = ev.sessions("5 minutes"), ev.sessions("5 minutes", max_duration="1 hour")
    for seconds in (7, 20, 25, 59):
        panes = early_panes(cut, seconds)
        assert panes == early_panes(plain, seconds)
        assert len(panes) >= 3


def test_a_piece_that_is_cut_elsewhere_keeps_the_earliest_deadline() -> None:
    pipeline = (
        ev.stream(time="t", watermark=ev.no_watermark())
        .window(ev.sessions("1 minute", max_duration="2 minutes"))
        .trigger(ev.every("1 minute"), mode="retracting")
        .agg(n=ev.count())
    )
    query = pipeline.start_local({"t": pl.Int64()})
    first = pl.DataFrame({"t": [60 * SECOND, 100 * SECOND]})
    assert query.push(first, now=0).panes.is_empty()
    earlier = pl.DataFrame({"t": [30 * SECOND]})  # the session begins earlier, and its pieces move
    assert query.push(earlier, now=30 * SECOND).panes.is_empty()
    panes = query.push(now=MINUTE).panes
    assert (panes["n"] * panes["diff"]).sum() == 3
