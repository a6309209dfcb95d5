"""Chained pipelines: what is taken back upstream is taken back downstream, whatever the aggregate."""

from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.local import LocalResult

S = 1_000_000
OFTEN = ev.after_watermark(early=ev.on_update(), late=ev.on_update())


def panes(rows: list[tuple[float | None, int]]) -> pl.DataFrame:
    """Rows as an upstream pipeline gives them, all of one window."""
    bound = pl.Datetime("us", "UTC")
    window = pl.Series([{"start": 0, "end": 10 * S}] * len(rows)).cast(pl.Struct({"start": bound, "end": bound}))
    return pl.DataFrame(
        {
            "t": [0] * len(rows),
            "window": window,
            "v": pl.Series([v for v, _ in rows], dtype=pl.Float64),
            "diff": pl.Series([d for _, d in rows], dtype=pl.Int8),
        }
    )


def over(**aggregates: Any) -> ev.Pipeline:
    stream = ev.stream(time="t").window(ev.inherit()).trigger(OFTEN).retracting(skip_unchanged=True)
    return stream.agg(**aggregates)


def test_spread_is_right_where_values_are_large_and_close_together() -> None:
    rows = panes([(1772366400.0 + i, 1) for i in range(4)])
    result = over(sd=ev.std("v"), var=ev.var("v")).local(rows, clock=[0]).panes
    assert result.filter(pl.col("diff") > 0).select("sd", "var").row(-1) == pytest.approx((1.2909944, 1.6666667))


def test_spread_is_right_after_rows_were_taken_back() -> None:
    bundles = [panes([(1e9, 1), (1e9 + 1, 1), (5.0, 1)]), panes([(5.0, -1), (1e9 + 2, 1)])]
    last = over(var=ev.var("v")).local(bundles, clock=[0, 1]).panes.filter(pl.col("diff") > 0).row(-1, named=True)
    assert last["var"] == pytest.approx(1.0)


def test_a_vanished_window_is_retracted_though_its_values_look_like_no_rows() -> None:
    result = over(m=ev.max("v")).local([panes([(None, 1)]), panes([(None, -1)])], clock=[0, 1]).panes
    assert result.select("m", "diff").rows() == [(None, 1), (None, -1)]


def test_what_is_new_cannot_be_less_than_nothing() -> None:
    plan = ev.stream(time="t").window(ev.inherit()).trigger(OFTEN).discarding().agg(n=ev.count())
    with pytest.raises(ev.PlanError, match=r"inherit\(\) with .discarding\(\)"):
        plan.local(panes([(1.0, 1)]))


def upstream(*, drain: bool) -> LocalResult:
    rows = pl.DataFrame({"ts": [0, 1, 11 * S], "k": ["a", "b", "a"]})
    per_key = (
        ev.stream(time="ts", key="k", watermark=ev.bounded_delay("0.5s")).window(ev.tumbling("10s")).agg(n=ev.count())
    )
    return per_key.local(rows, clock=[5], drain=drain)


def test_a_chain_is_drained_though_its_upstream_was_not() -> None:
    total = ev.stream(time="pane.time").window(ev.inherit()).agg(keys=ev.count())
    assert total.local(upstream(drain=False)).panes["keys"].to_list() == [2]
    assert total.local(upstream(drain=True)).panes["keys"].to_list() == [2, 1]


def test_a_chain_has_the_clock_of_its_upstream() -> None:
    total = ev.stream(time="pane.time").window(ev.inherit()).agg(keys=ev.count())
    with pytest.raises(ev.PlanError, match="bring its clock along"):
        total.local(upstream(drain=True), clock=[1])


def test_panes_of_windows_that_end_far_ahead_of_the_clock_enter_the_next_pipeline() -> None:
    monthly = ev.stream(time="ts", watermark=ev.bounded_delay("0s")).window(ev.calendar("month"))
    early = monthly.trigger(ev.after_watermark(early=ev.on_update())).retracting().agg(n=ev.count())
    total = ev.stream(time="pane.time", watermark=ev.bounded_delay("0s")).window(ev.inherit()).agg(total=ev.sum("n"))
    result = total.local(early.local(pl.DataFrame({"ts": [0, 1]}), clock=[5]))
    assert result.dead.height == 0 and result.panes["total"].to_list() == [2]
