"""Queries give on Spark what they give in process."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

import eventide as ev
from eventide.spark.types import spark_schema
from tests.spark.running import Stream
from tests.spark.test_streaming import bundle
from tests.streamsql import generated
from tests.streamsql.expressions import EXPRESSIONS, VALUES, query, same

SALES = [bundle(number, 60) for number in range(4)]
STREAM = "CREATE STREAM sales WATERMARK FOR ts AS ts - INTERVAL '10' SECOND PER till;"
GROUPED = f"""
    {STREAM}
    SELECT UPPER(shop) AS shop, window_start, COUNT(*) AS n, SUM(price * 2) FILTER (WHERE price > 3) AS doubled,
           COUNT(DISTINCT price) AS prices, SUM(price) / COUNT(*) AS mean_price, pane_timing
    FROM TUMBLE(sales, DESCRIPTOR(ts), INTERVAL '20' SECOND)
    WHERE price > 1
    GROUP BY UPPER(shop), window_start, window_end
    HAVING COUNT(*) > 1 AND window_end > window_start
"""
QUERIES = {
    "grouped": GROUPED,
    "joined": f"""
        {STREAM}
        SELECT a.shop, a.price, b.price - a.price AS more, b.ts
        FROM sales AS a LEFT JOIN sales AS b
        ON a.shop = b.shop AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' SECOND AND b.price > a.price
        WHERE a.price > 2
    """,
    "padded": f"""
        {STREAM}
        SELECT *, a.shop AS ours, b.price - a.price AS more
        FROM sales AS a FULL JOIN (SELECT ts, till, shop AS place, price FROM sales) AS b
        ON a.shop = b.place AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' SECOND AND b.price > a.price + 20
        WHERE b.place IS NULL OR a.shop = 'kiel' OR a.till = 1
    """,
    "padded windows": f"""
        {STREAM}
        SELECT a.shop, b.shop AS theirs, shop AS both, a.price, b.window_start
        FROM TUMBLE(sales, DESCRIPTOR(ts), INTERVAL '1' SECOND) AS a
        FULL JOIN TUMBLE((SELECT * FROM sales WHERE price < 50), DESCRIPTOR(ts), INTERVAL '1' SECOND) AS b
        USING (shop, till, window_start)
    """,
    "united": f"""
        {STREAM}
        SELECT shop, window_start, COUNT(*) AS n, SUM(price) AS total FROM TUMBLE((
            SELECT ts, shop, price, till FROM sales UNION ALL SELECT ts, 'all', price * 2, till FROM sales
        ), DESCRIPTOR(ts), INTERVAL '20' SECOND) GROUP BY shop, window_start
    """,
    "chained": f"""
        {STREAM}
        SELECT window_start, COUNT(*) AS shops, MAX(n) AS busiest FROM (
            SELECT shop, window_start, window_end, COUNT(*) AS n
            FROM TUMBLE(sales, DESCRIPTOR(ts), INTERVAL '20' SECOND) GROUP BY shop, window_start, window_end
        ) GROUP BY window_start, window_end
    """,
}


def in_order(panes: pl.DataFrame) -> list[dict[str, Any]]:
    return sorted(panes.to_dicts(), key=repr)


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_of_a_table_gives_what_it_gives_in_process(spark: SparkSession, name: str) -> None:
    rows = pl.concat(SALES)
    table = spark.createDataFrame(rows.to_arrow(), schema=spark_schema(rows.schema))
    observed = pl.DataFrame(pl.from_arrow(ev.sql(QUERIES[name])({"sales": table}).toArrow()))
    assert in_order(observed) == in_order(ev.sql(QUERIES[name]).local(rows).panes)
    assert observed.height > 0


def test_expressions_have_the_values_that_they_have_in_process(spark: SparkSession) -> None:
    table = spark.createDataFrame(VALUES.to_arrow(), schema=spark_schema(VALUES.schema)).coalesce(1)
    # All in one query: the columns of rows are called by the texts of the expressions, some of which have dots.
    panes = pl.DataFrame(pl.from_arrow(ev.sql(query(*EXPRESSIONS))({"numbers": table}).toArrow())).sort("row")
    observed = {text: panes[f"v{number}"].to_list() for number, text in enumerate(EXPRESSIONS)}
    assert {state: values for state, values in observed.items() if not same(values, EXPRESSIONS[state])} == {}


def test_generated_expressions_and_queries_give_what_they_give_in_process(spark: SparkSession) -> None:
    rows = generated.rows(60)
    table = spark.createDataFrame(rows.to_arrow(), schema=spark_schema(rows.schema)).coalesce(1)
    drawn = [generated.Expressions(seed).any() for seed in range(40)]
    chosen = ", ".join(f"LAST({text}) AS v{number}" for number, text in enumerate(drawn))
    asked = [f"SELECT id, {chosen} FROM TUMBLE(rows, DESCRIPTOR(ts), INTERVAL '1' DAY) GROUP BY id"]
    for item in [*asked, *(generated.query(seed)[0] for seed in (1, 2, 3))]:
        asked_of_both = f"CREATE STREAM rows WATERMARK FOR ts AS ts - INTERVAL '1' HOUR; {item}"
        observed = pl.DataFrame(pl.from_arrow(ev.sql(asked_of_both)({"rows": table}).toArrow()))
        here = ev.sql(asked_of_both).local(rows).panes
        assert [*map(alike, in_order(observed))] == [*map(alike, in_order(here))]
        assert here.height > 0


def alike(row: dict[str, Any]) -> dict[str, Any]:
    """Doubles to twelve digits; a zero has no sign."""
    return {name: float(f"{value:.11e}") + 0.0 if isinstance(value, float) else value for name, value in row.items()}


def test_a_column_with_a_dot_can_be_a_key_and_the_time(spark: SparkSession) -> None:
    rows = VALUES.select("Name.of", pl.col("ts").alias("time.of"), pl.col("i").alias("a`b"))
    table = spark.createDataFrame(rows.to_arrow(), schema=spark_schema(rows.schema))
    asked = """SELECT "Name.of", SUM("a`b") AS total FROM TUMBLE(numbers, DESCRIPTOR("time.of"), INTERVAL '1' DAY)
               WHERE "Name.of" <> 'z' GROUP BY "Name.of" HAVING "Name.of" < 'z'"""
    observed = ev.sql(asked)({"numbers": table}).collect()
    assert sorted((state["Name.of"], state["total"]) for state in observed) == [("x", -7), ("y", 7)]


# The query, the words under the caret, and what the message says.
REJECTED = [
    ("SELECT COUNT(*) AS n FROM {} WHERE i", "i", "neither true nor false"),
    ("SELECT nofunc(s) AS x, COUNT(*) AS n FROM {} GROUP BY s", "nofunc", "cannot be computed by Spark"),
    ("SELECT SUM(nofunc(i)) AS x FROM {}", "nofunc", "cannot be computed by Spark"),
    ("SELECT COUNT(*) AS n FROM {} HAVING n", "n", "neither true nor false"),
    ("SELECT COUNT(*) AS n FROM {} WHERE CAST(i AS TIMESTAMP) > ts", "CAST(i AS TIMESTAMP)", "a number is no instant"),
]


def test_what_spark_cannot_compute_is_shown_at_its_position(spark: SparkSession) -> None:
    table = spark.createDataFrame(VALUES.to_arrow(), schema=spark_schema(VALUES.schema))
    for asked, under, expected in REJECTED:
        with pytest.raises(ev.PlanError) as rejected:
            ev.sql(asked.format("TUMBLE(numbers, DESCRIPTOR(ts), INTERVAL '1' DAY)"))({"numbers": table})
        message, _, line, caret = str(rejected.value).split("\n")
        assert expected in message
        assert line[caret.index("^") : caret.rindex("^") + 1] == under


EMITTED = GROUPED + "EMIT EARLY ON UPDATE LATE ON UPDATE ALLOWED LATENESS INTERVAL '1' MINUTE RETRACTING"


def test_a_running_query_keeps_a_table_of_what_it_selects(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(*SALES)
    query = ev.sql(EMITTED)
    database = tmp_path / "sales.db"
    query.run(
        stream.rows,
        sink=ev.sinks.table(f"sqlite:///{database}", name="sales"),
        checkpoint=stream.checkpoint,
        drain=True,
    )
    with sqlite3.connect(database) as kept:
        columns = [row[1] for row in kept.execute("PRAGMA table_info(sales)")]
        rows = kept.execute("SELECT shop, n, doubled, prices, mean_price FROM sales").fetchall()
    assert {"shop", "n", "window_start", "window_end", "pane_timing"} <= set(columns)
    panes = ev.sql(EMITTED).local(SALES).panes
    values = ["shop", "window_start", "n", "doubled", "prices", "mean_price"]
    final = panes.group_by(values).agg(pl.col("diff").sum()).filter(pl.col("diff") > 0)
    assert sorted(rows, key=repr) == sorted(final.drop("diff", "window_start").rows(), key=repr)


def test_a_streaming_table_gives_a_streaming_result(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(*SALES)
    scan = ev.scan_parquet(str(tmp_path / "in"), files_per_batch=1, spark=spark)
    observed = []
    for name, table in (("rows", stream.rows), ("scan", scan)):
        result = ev.sql(QUERIES["chained"])({"sales": table})
        assert result.isStreaming
        writer = result.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / f"{name}.state"))
        writer.trigger(availableNow=True).start(str(tmp_path / name)).awaitTermination()
        rows = spark.read.parquet(str(tmp_path / name))
        observed.append(in_order(pl.DataFrame(pl.from_arrow(rows.toArrow()))))
    in_process = ev.sql(QUERIES["chained"]).local(SALES, drain=False).panes
    assert observed[0] == observed[1] == in_order(in_process)
    assert in_process.height > 0


def test_a_query_that_filters_and_computes_reads_a_scan(spark: SparkSession, tmp_path: Path) -> None:
    Stream(spark, tmp_path).put(*SALES)
    kept: list[pl.DataFrame] = []

    def keep(batch: DataFrame, batch_id: int) -> None:
        kept.append(pl.DataFrame(pl.from_arrow(batch.toArrow())))

    for state in ("driver", "executors"):
        kept.clear()
        scan = ev.scan_parquet(str(tmp_path / "in"), files_per_batch=2, spark=spark)
        ev.sql(GROUPED).run(
            {"sales": scan},
            sink=keep,
            checkpoint=tmp_path / f"scan.{state}",
            drain=True,
            state=state,
        )
        panes = pl.concat(kept)
        # The sink gets what is selected, also the start of the window, in addition to the columns that identify rows.
        selected = panes.select("shop", "window_start", "n", "doubled", "prices", "mean_price", "pane_timing", "diff")
        assert in_order(selected) == in_order(ev.sql(GROUPED).local(SALES).panes)
        assert panes.height > 0
