"""Queries in chains, in tests, bundle by bundle and replayed: what pipelines built in Python can do."""

from __future__ import annotations

import polars as pl
import pytest

import eventide as ev
from eventide.testing import TestStream, pane

MINUTES = """
    CREATE STREAM orders WATERMARK FOR ts AS ts - INTERVAL '0' SECOND;
    SELECT shop, window_start, SUM(price) AS total
    FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
    GROUP BY shop, window_start, window_end
    EMIT EARLY ON UPDATE ALLOWED LATENESS INTERVAL '1' HOUR
"""
HOURS = """
    SELECT MAX(total) AS most FROM TUMBLE(minutes, DESCRIPTOR(window_time), INTERVAL '1' HOUR)
"""
S = 1_000_000
ROWS = pl.DataFrame(
    {"ts": [1 * S, 30 * S, 70 * S, 20 * S], "arrived_at": [2 * S, 31 * S, 71 * S, 80 * S], "shop": "kiel", "price": 5}
)
PYTHON = (
    ev.stream("ts", key="shop", watermark="0 seconds")
    .window(ev.tumbling("1 minute"))
    .emit(early=ev.on_update(), allowed_lateness="1 hour")
    .agg(total=ev.sum("price"))
)


def test_a_query_follows_a_pipeline_and_a_pipeline_a_query() -> None:
    hours = ev.stream("window_time").window(ev.tumbling("1 hour")).agg(most=ev.max("total"))
    for chain in (ev.sql(MINUTES).then(hours), PYTHON.then(ev.sql(HOURS)), ev.sql(MINUTES).then(ev.sql(HOURS))):
        assert chain.local(ROWS, bundle_by="arrived_at").panes["most"].to_list() == [15]


def test_a_query_is_tested_as_a_stream() -> None:
    stream = TestStream(ev.sql(MINUTES), day="2026-03-01")
    stream.add({"ts": "12:00:05", "shop": "kiel", "price": 5})
    stream.expect(pane(shop="kiel", total=5, pane_timing="EARLY"))


def test_a_query_takes_bundles_one_by_one() -> None:
    query = ev.sql(MINUTES).start_local()
    query.push(ROWS)
    query.drain()
    net = query.result.panes.group_by("window_start").agg((pl.col("total") * pl.col("diff")).sum())
    assert sorted(net["total"]) == [5, 15]


@pytest.mark.parametrize("every", [None, "40 seconds"])
def test_a_query_replays_a_frame_as_a_pipeline_does(every: str | None) -> None:
    by_query = ev.sql(MINUTES).local(ROWS, bundle_by="arrived_at", every=every)
    by_python = PYTHON.local(ROWS, bundle_by="arrived_at", every=every)
    assert by_query.panes["total"].to_list() == by_python.panes["total"].to_list()
    assert by_query.clock == by_python.clock and len(by_query.steps) == len(by_python.steps)


def test_a_query_counts_bundles_of_rows() -> None:
    assert len(ev.sql(MINUTES).local(ROWS, bundle_by=3, drain=False).steps) == 2


@pytest.mark.parametrize("clause", ["WHERE price > 1", "HAVING SUM(price) > 1"])
def test_what_a_query_does_outside_of_its_plan_has_no_place_in_a_chain(clause: str) -> None:
    where, having = (clause, "") if clause.startswith("WHERE") else ("", clause)
    query = ev.sql(
        f"SELECT SUM(price) AS total FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE) {where} "
        f"GROUP BY window_start, window_end {having}"
    )
    assert query.local(ROWS).panes["total"].to_list() == [15, 5]
    for use in (lambda: query.then(PYTHON), lambda: PYTHON.then(query), query.start_local, lambda: TestStream(query)):
        with pytest.raises(ev.PlanError, match="outside of its plan"):
            use()
