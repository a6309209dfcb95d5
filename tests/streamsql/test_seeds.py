"""The statements and case studies of the documents that Eventide is built from, run in this process."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.local import LocalResult

DAY = "2026-01-01T0"


def rows(schema: dict[str, Any], *values: tuple[Any, ...]) -> pl.DataFrame:
    return pl.DataFrame(list(values), schema=schema, orient="row")


def orders(*values: tuple[int, int, int, str]) -> pl.DataFrame:
    """Rows of (offset, value, id, time)."""
    schema = {"offset": pl.Int64, "value": pl.Int64, "id": pl.Int64, "time": pl.String}
    return rows(schema, *((*rest, f"{DAY}{at}Z") for *rest, at in values))


def shipments(*values: tuple[int, int, int, str]) -> pl.DataFrame:
    """Rows of (offset, cost, id, time)."""
    schema = {"offset": pl.Int64, "cost": pl.Int64, "id": pl.Int64, "time": pl.String}
    return rows(schema, *((*rest, f"{DAY}{at}Z") for *rest, at in values))


# What the two streams bring by 9:01, by 9:02 and by 9:03.
ORDERS = [orders((1, 0, 1, "8:59:10"), (2, 5, 3, "9:00:00")), orders(), orders((3, 9, 9, "8:59:30"))]
SHIPMENTS = [
    shipments((1000, 0, 3, "9:00:10"), (1001, 2, 1, "9:00:10")),
    shipments((1002, 3, 1, "9:01:10"), (1003, 1, 9, "9:01:20")),
    shipments(),
]
CLOCK = [f"{DAY}9:0{minute}:00Z" for minute in (1, 2, 3)]
STREAMS = """
CREATE STREAM Orders WATERMARK FOR time AS time - INTERVAL '5' MINUTE;
CREATE STREAM Shipments WATERMARK FOR time AS time - INTERVAL '5' MINUTE{keep};
"""
EMITTED = [[(3, 5, 0), (1, 0, 2)], [(1, 0, 3)], [(9, 9, 1)]]


def by_step(result: LocalResult) -> list[list[tuple[Any, ...]]]:
    return [step.panes.drop("diff").rows() for step in result.steps[:3]]


def test_a_join_over_the_last_rows_tells_what_the_case_study_tells() -> None:
    """Samza, case 2 by tuples: shipments meet the last three orders of their id; late orders meet kept shipments."""
    query = ev.sql(
        STREAMS.format(keep=" KEEP INTERVAL '1' HOUR")
        + "SELECT id, value, cost FROM Shipments JOIN Orders OVER (ROWS 3 PRECEDING) ON Orders.id = Shipments.id"
    )
    result = query.local({"Orders": ORDERS, "Shipments": SHIPMENTS}, clock=CLOCK)
    assert by_step(result) == EMITTED


def test_a_join_is_compiled_before_its_rows_are_there() -> None:
    """The columns that a plan does not need are looked for when rows are given."""
    query = ev.sql(
        STREAMS.format(keep=" KEEP INTERVAL '1' HOUR")
        + "SELECT id, value, cost FROM Shipments JOIN Orders OVER (ROWS 3 PRECEDING) ON Orders.id = Shipments.id"
        " WHERE value < 9"
    )
    assert query.tables == ("Shipments", "Orders")
    result = query.local({"Orders": ORDERS, "Shipments": SHIPMENTS}, clock=CLOCK)
    assert by_step(result) == [*EMITTED[:2], []]


@pytest.mark.parametrize("length", ["'2' min", "INTERVAL '2' MINUTE"])
def test_a_join_over_a_range_of_time_tells_what_the_case_study_tells(length: str) -> None:
    """Samza, case 2 by time: the orders of the last two minutes, as the document writes it and as standard SQL does."""
    query = ev.sql(
        STREAMS.format(keep="") + "SELECT id, value, cost FROM Shipments "
        f"JOIN Orders OVER (ORDER BY time RANGE {length} PRECEDING) ON Orders.id = Shipments.id"
    )
    result = query.local({"Orders": ORDERS, "Shipments": SHIPMENTS}, clock=CLOCK)
    assert by_step(result) == EMITTED


def test_the_greatest_of_three_rows_is_emitted_early_and_when_the_window_is_full() -> None:
    """Samza, case 1 by tuples: a window of three offsets tells 5 first, and 9 when its third row has come."""
    result = ev.sql("""
        SELECT window_start, MAX(value) AS most
        FROM ROWS_WINDOW(Orders, DESCRIPTOR(time), 3, by => "offset")
        EMIT EARLY ON UPDATE ACCUMULATING
        """).local({"Orders": ORDERS}, clock=CLOCK)
    assert by_step(result) == [[(1, 5)], [], [(1, 9)]]


def test_the_greatest_of_a_minute_is_emitted_again_when_a_late_row_arrives() -> None:
    """Samza, case 1 by time: 8:59 has 0 and 9:00 has 5; the row that comes behind its time makes 8:59 a 9."""
    bundles = [
        orders((1, 0, 1, "8:59:10"), (2, 5, 3, "9:00:01")),
        orders((4, 0, 4, "9:01:05")),
        orders((3, 9, 9, "8:59:30")),
    ]
    result = ev.sql("""
        CREATE STREAM Orders WATERMARK FOR time AS time;
        SELECT window_start, MAX(value) AS most, pane_timing
        FROM TUMBLE(Orders, DESCRIPTOR(time), INTERVAL '1' MINUTE)
        GROUP BY window_start, window_end
        EMIT LATE ON UPDATE ALLOWED LATENESS INTERVAL '1' HOUR ACCUMULATING
        """).local({"Orders": bundles}, clock=CLOCK)
    panes = result.panes.select(pl.col("window_start").dt.strftime("%H:%M"), "most", "pane_timing").rows()
    assert panes[:3] == [("08:59", 0, "ON_TIME"), ("09:00", 5, "ON_TIME"), ("08:59", 9, "LATE")]


TWO_TIMES = """
create stream my_stream watermark for time1 as time1 - interval '1' second watermark for time2 as time2;
select
  window_start window_start_inner,
  window_end window_end_inner,
  time2,
  count(*)
from tumble(my_stream, descriptor(time1), 5 seconds)
group by 1, 2, 3
"""


def test_a_second_watermarked_column_is_a_key_like_any_other() -> None:
    """Hazelcast Jet, keyed watermarks: windows go by one time, and the rows of each are grouped by another."""
    events = pl.DataFrame({"time1": [1_000_000, 2_000_000, 3_000_000, 6_000_000], "time2": [10, 20, 10, 10]})
    panes = ev.sql(TWO_TIMES).local({"my_stream": events}).panes
    seconds = pl.col("window_start_inner", "window_end_inner").dt.second()
    assert panes.select(seconds, "time2", "count").rows() == [(0, 5, 10, 2), (0, 5, 20, 1), (5, 10, 10, 1)]


def test_explain_says_that_the_second_watermark_ends_at_the_windows() -> None:
    text = ev.sql(TWO_TIMES).explain()
    assert "bounded delay 1s" in text
    assert "time2 is a key like any other here: its watermark ends at these windows" in text


def test_the_second_time_can_be_that_of_the_windows() -> None:
    text = TWO_TIMES.replace("descriptor(time1)", "descriptor(time2)").replace("  time2,", "  time1,")
    assert ev.sql(text).plan.watermark == ev.ascending()
