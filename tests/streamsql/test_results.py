"""What queries give in this process: the rows of the Python pipeline, filtered and computed as SQL says."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventide as ev
from eventide.panes import PANE

SECOND = 1_000_000


def orders(*given_rows: tuple[int, str, int]) -> pl.DataFrame:
    """Rows of (second, shop, price)."""
    schema = {"ts": pl.Int64, "shop": pl.String, "price": pl.Int64}
    return pl.DataFrame([(at * SECOND, *rest) for at, *rest in given_rows], schema=schema, orient="row")


DAY = orders((5, "kiel", 5), (40, "kiel", 7), (50, "oslo", 2), (70, "oslo", 9))
STREAM = "CREATE STREAM orders WATERMARK FOR ts AS ts - INTERVAL '30' SECOND;"
TUMBLE = "TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"


def rows_of(query: str, **tables: Any) -> list[tuple[Any, ...]]:
    panes = ev.sql(query).local(tables or {"orders": DAY}).panes
    return panes.drop("diff").rows()


def test_a_query_gives_what_the_pipeline_gives() -> None:
    pipeline = (
        ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("30 seconds"))
        .window(ev.tumbling("1 minute"))
        .trigger(
            ev.after_watermark(early=ev.on_update(), late=ev.on_update()), allowed_lateness="1 hour", mode="retracting"
        )
        .agg(n=ev.count(), total=ev.sum("price"))
    )
    bundles = [DAY, orders((130, "kiel", 1), (20, "kiel", 4)), orders((10, "oslo", 3), (1, "rome", 1))]
    clock = [1, 2, 3]
    query = (
        f"{STREAM} SELECT shop, window_start, window_end, COUNT(*) AS n, SUM(price) AS total, {', '.join(PANE)}, diff"
        f" FROM {TUMBLE} GROUP BY shop"
        " EMIT EARLY ON UPDATE LATE ON UPDATE ALLOWED LATENESS INTERVAL '1' HOUR RETRACTING"
    )
    from_sql, built = ev.sql(query).local({"orders": bundles}, clock=clock), pipeline.local(bundles, clock=clock)
    assert from_sql.panes.equals(built.panes)
    assert from_sql.metrics == built.metrics


def test_where_filters_rows_before_they_are_counted() -> None:
    assert rows_of(f"SELECT shop, COUNT(*) AS n FROM {TUMBLE} WHERE price > 2 AND shop <> 'rome' GROUP BY shop") == [
        ("kiel", 2),
        ("oslo", 1),
    ]


def test_having_filters_panes_by_names_and_by_aggregates() -> None:
    query = f"SELECT shop, COUNT(*) AS n FROM {TUMBLE} GROUP BY shop HAVING n > 1 AND SUM(price) < 100"
    assert rows_of(query) == [("kiel", 2)]


def test_columns_are_computed_from_keys_windows_and_aggregates() -> None:
    query = (
        f"SELECT UPPER(shop) || '!' AS loud, SUM(price) / COUNT(*) AS each_one, window_end > window_start AS sane"
        f" FROM {TUMBLE} GROUP BY shop"
    )
    assert rows_of(query) == [("KIEL!", 6.0, True), ("OSLO!", 2.0, True), ("OSLO!", 9.0, True)]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("REGEXP_LIKE(shop, '^k.*l$')", True),
        ("CASE WHEN COUNT(*) > 1 THEN 'many' ELSE 'few' END", "many"),
        ("CAST(SUM(price) AS VARCHAR)", "12"),
        ("COALESCE(NULLIF(COUNT(*), 2), -1)", -1),
        ("COUNT(*) BETWEEN 1 AND 3 AND shop IN ('kiel', 'rome')", True),
        ("DATE_TRUNC('hour', window_start) = window_start", True),
        ("1", 1),
    ],
)
def test_functions_of_sql_are_computed_in_this_process(expression: str, value: Any) -> None:
    rows = rows_of(f"SELECT shop, {expression} AS x FROM {TUMBLE} GROUP BY shop")
    assert rows[0] == ("kiel", value)


def test_a_constant_of_no_rows_is_no_row() -> None:
    result = ev.sql(f"{STREAM} SELECT 1 AS one, COUNT(*) AS n FROM {TUMBLE}").local({"orders": DAY.clear()})
    assert result.panes.height == 0


def test_aggregates_are_of_expressions_too() -> None:
    query = "SELECT SUM(price * 2 + 1) AS s, SUM(price) FILTER (WHERE shop = 'kiel') AS k"
    query += f" FROM {TUMBLE} GROUP BY window_start"
    assert rows_of(query) == [(31, 12), (19, None)]


def test_counting_with_a_filter_counts_what_passes_it() -> None:
    query = f"SELECT COUNT(*) FILTER (WHERE price > 6) AS dear, COUNT(*) AS n FROM {TUMBLE} GROUP BY window_start"
    assert rows_of(query) == [(1, 3), (1, 1)]


def test_distinct_values_are_counted_exactly() -> None:
    given_rows = orders((1, "kiel", 5), (2, "kiel", 5), (3, "kiel", 7))
    query = f"SELECT COUNT(DISTINCT price) AS prices, COUNT(DISTINCT shop) FROM {TUMBLE}"
    panes = ev.sql(query).local({"orders": given_rows}).panes
    assert panes.to_dicts() == [{"prices": 2, "count_distinct_shop": 1, "diff": 1}]


def test_the_distinct_values_of_nothing_are_none() -> None:
    nulls = pl.DataFrame({"ts": [1], "price": [None]}, schema={"ts": pl.Int64, "price": pl.Int64})
    assert rows_of(f"SELECT COUNT(DISTINCT price) AS n FROM {TUMBLE}", orders=nulls) == [(0,)]


def test_select_distinct_gives_each_group_once() -> None:
    assert rows_of(f"SELECT DISTINCT shop FROM {TUMBLE}") == [("kiel",), ("oslo",), ("oslo",)]


def test_a_subquery_filters_and_computes_rows() -> None:
    query = """
        WITH dear AS (SELECT ts, UPPER(shop) AS shop, price * 2 AS double FROM orders WHERE price > 4)
        SELECT shop, SUM(double) AS total FROM TUMBLE(dear, DESCRIPTOR(ts), INTERVAL '1' HOUR) GROUP BY shop
    """
    assert rows_of(query) == [("KIEL", 24), ("OSLO", 18)]


def test_an_outer_query_computes_and_filters_results() -> None:
    query = f"""
        SELECT shop, total + 1 AS more FROM (
            SELECT shop, COUNT(*) AS n, SUM(price) AS total FROM {TUMBLE} GROUP BY shop HAVING n < 3
        ) AS sums WHERE n = 1 AND sums.total > 5
    """
    assert rows_of(query) == [("oslo", 10)]


def test_fields_of_structs_are_columns() -> None:
    frame = DAY.select("ts", pl.struct(shop="shop", what=pl.struct("price")).alias("order"))
    query = (
        'SELECT o."order".shop, SUM("order".what.price) AS total FROM TUMBLE(orders, DESCRIPTOR(ts), 1 hour) o'
        ' WHERE "order".what.price > 2 GROUP BY "order".shop'
    )
    assert rows_of(query, orders=frame) == [("kiel", 12), ("oslo", 9)]


def test_an_outer_query_of_pairs_names_their_columns() -> None:
    inner = f"SELECT * FROM orders o JOIN payments p ON o.shop = p.shop AND {NEAR}"
    assert rows_of(f"SELECT shop, paid + price AS sum FROM ({inner}) WHERE ts_right > 9000000", **BOTH) == [("oslo", 3)]
    assert rows_of(f"SELECT * FROM ({inner}) WHERE paid > 1", **BOTH) == [("kiel", 5 * SECOND, 5, 6 * SECOND, 5)]


def test_a_join_filters_rows_that_the_watermark_counts_behind_it() -> None:
    stream = "CREATE STREAM orders WATERMARK FOR ts AS ts SEQUENCE price;"
    query = f"{stream} SELECT price FROM orders o JOIN payments p ON o.shop = p.shop AND {NEAR} WHERE price > 2"
    assert rows_of(query, **BOTH) == [(5,)]


def test_a_watermark_keeps_its_columns_through_a_subquery() -> None:
    stream = "CREATE STREAM orders WATERMARK FOR ts AS ts PER shop;"
    query = f"{stream} SELECT COUNT(*) AS n FROM TUMBLE((SELECT ts FROM orders), DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
    assert rows_of(query) == [(3,), (1,)]


def test_names_match_in_upper_and_lower_case() -> None:
    query = "select SHOP, count(*) as n from tumble(ORDERS, descriptor(TS), interval '1' hour) as o group by o.Shop"
    assert rows_of(query) == [("kiel", 2), ("oslo", 2)]


def test_names_of_a_declaration_match_in_upper_and_lower_case() -> None:
    stream = "CREATE STREAM Orders (TS INT, Shop STRING) WATERMARK FOR TS AS Ts PER SHOP;"
    assert rows_of(f"{stream} SELECT COUNT(*) AS n FROM {TUMBLE}") == [(3,), (1,)]


@pytest.mark.parametrize("table", ["SESSION(orders, DESCRIPTOR(TS), PRICE)", "ROWS_WINDOW(orders, DESCRIPTOR(ts), 2)"])
def test_columns_of_windows_match_in_upper_and_lower_case(table: str) -> None:
    table = table.replace(", 2)", ", 2, by => PRICE)")
    assert rows_of(f"SELECT COUNT(*) AS n FROM {table}") == rows_of(f"SELECT COUNT(*) AS n FROM {table.lower()}")


ZONED = DAY.with_columns(pl.col("ts").cast(pl.Datetime("us", "UTC")))


@pytest.mark.parametrize("frame", [ZONED, ZONED.with_columns(pl.col("ts").dt.replace_time_zone(None))])
def test_times_of_rows_are_compared_with_instants_that_are_written_out(frame: pl.DataFrame) -> None:
    asked = f"SELECT COUNT(*) AS n FROM {TUMBLE} WHERE ts > TIMESTAMP '1970-01-01 00:00:40' AND ts < CURRENT_TIMESTAMP"
    assert rows_of(asked, orders=frame) == [(1,), (1,)]


def test_bounds_of_windows_are_compared_with_instants_that_are_written_out() -> None:
    asked = f"SELECT COUNT(*) AS n FROM {TUMBLE} HAVING window_start >= TIMESTAMP '1970-01-01 01:01:00+01:00'"
    assert rows_of(asked) == [(1,)]


def test_times_are_compared_with_instants_in_on() -> None:
    asked = f"""{STREAM} SELECT a.price FROM orders a JOIN orders b ON a.shop = b.shop
                AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' SECOND AND a.ts > TIMESTAMP '1970-01-01 00:00:45'"""
    assert rows_of(asked, orders=ZONED) == [(2,), (9,)]


def test_texts_in_expressions_are_not_alike_in_upper_and_lower_case() -> None:
    with pytest.raises(ev.PlanError, match="neither in GROUP BY"):
        rows_of(f"SELECT CONCAT(shop, 'A') AS a, COUNT(*) AS n FROM {TUMBLE} GROUP BY concat(shop, 'a')")


@pytest.mark.parametrize("expression", ["price * 1.5", "price + 0.5 * price"])
def test_an_expression_with_a_dot_is_a_column_like_any_other(expression: str) -> None:
    assert rows_of(f"SELECT SUM({expression}) AS more FROM {TUMBLE}") == [(21.0,), (13.5,)]


def test_a_computed_key_and_the_column_of_its_name_live_together() -> None:
    query = f"SELECT UPPER(shop) AS shop, FIRST(shop) AS one FROM {TUMBLE} GROUP BY UPPER(shop) HAVING SHOP = 'KIEL'"
    assert rows_of(query) == [("KIEL", "kiel")]


def test_quoted_names_are_taken_as_they_are() -> None:
    frame = DAY.rename({"price": "the price", "shop": "group"})
    query = f'SELECT "group", SUM("the price") AS total FROM {TUMBLE} GROUP BY "group" HAVING SUM("the price") > 9'
    assert rows_of(query, orders=frame) == [("kiel", 12)]


def test_a_union_is_counted_together() -> None:
    query = """
        SELECT shop, COUNT(*) AS n
        FROM TUMBLE((SELECT * FROM web WHERE price > 2 UNION ALL SELECT * FROM tills), DESCRIPTOR(ts), 1 hour)
        GROUP BY shop
    """
    assert rows_of(query, web=DAY, tills=DAY) == [("kiel", 4), ("oslo", 3)]


def test_a_chain_aggregates_what_was_aggregated() -> None:
    query = f"""
        SELECT window_start, COUNT(*) AS shops, MAX(n) AS busiest FROM (
            SELECT shop, window_start, window_end, COUNT(*) AS n FROM {TUMBLE} GROUP BY shop, window_start, window_end
        ) GROUP BY window_start, window_end
    """
    panes = ev.sql(query).local({"orders": DAY}).panes
    assert panes.select("shops", "busiest").rows() == [(2, 2), (1, 1)]


PAYMENTS = pl.DataFrame(
    {"shop": ["kiel", "oslo", "oslo"], "ts": [6 * SECOND, 55 * SECOND, 500 * SECOND], "paid": [5, 1, 9]}
)
BOTH = {"orders": DAY, "payments": PAYMENTS}
NEAR = "p.ts BETWEEN o.ts AND o.ts + INTERVAL '1' MINUTE"


def test_an_interval_join_pairs_rows() -> None:
    query = f"SELECT o.shop, price, paid, p.ts FROM orders o JOIN payments p ON o.shop = p.shop AND {NEAR}"
    assert rows_of(query, orders=DAY, payments=PAYMENTS) == [("kiel", 5, 5, 6 * SECOND), ("oslo", 2, 1, 55 * SECOND)]


def test_where_of_an_outer_join_is_asked_behind_it() -> None:
    query = f"SELECT o.price FROM orders o LEFT JOIN payments p ON o.shop = p.shop AND {NEAR} WHERE p.paid IS NULL"
    assert sorted(rows_of(query, orders=DAY, payments=PAYMENTS)) == [(7,), (9,)]


def test_further_conditions_decide_whether_rows_have_met() -> None:
    query = f"SELECT price, paid FROM orders o LEFT JOIN payments p ON o.shop = p.shop AND {NEAR} AND p.paid >= o.price"
    assert sorted(rows_of(query, orders=DAY, payments=PAYMENTS), key=str) == [(2, None), (5, 5), (7, None), (9, None)]


def test_columns_that_are_compared_without_a_length_are_no_times() -> None:
    query = f"SELECT price, paid FROM orders o JOIN payments p ON p.paid <= o.price AND o.shop = p.shop AND {NEAR}"
    assert rows_of(query, orders=DAY, payments=PAYMENTS) == [(5, 5), (2, 1)]


def test_rows_of_the_same_time_are_joined() -> None:
    streams = "CREATE STREAM orders WATERMARK FOR ts AS ts; CREATE STREAM payments WATERMARK FOR ts AS ts;"
    query = f"{streams} SELECT price, paid FROM orders o JOIN payments p ON o.shop = p.shop AND o.ts = p.ts"
    assert rows_of(query, orders=DAY, payments=PAYMENTS.with_columns(ts=pl.lit(5 * SECOND))) == [(5, 5)]


def test_all_columns_of_a_side_can_be_asked_for() -> None:
    query = f"SELECT p.*, o.ts AS ordered FROM orders o JOIN payments p ON o.shop = p.shop AND {NEAR}"
    assert ev.sql(query).local({"orders": DAY, "payments": PAYMENTS}).panes.columns == [
        "shop",
        "ts_right",
        "paid",
        "ordered",
        "diff",
    ]


def test_a_stream_can_be_joined_with_itself() -> None:
    query = "SELECT a.price, b.price AS after FROM orders a JOIN orders b ON a.shop = b.shop AND b.ts > a.ts"
    query += " AND b.ts < a.ts + INTERVAL '1' MINUTE"
    assert sorted(rows_of(query)) == [(2, 9), (5, 7)]


def test_a_window_join_is_filtered_by_its_panes() -> None:
    right = TUMBLE.replace("orders", "payments")
    query = f"SELECT price, paid, pane_timing, window_time FROM {TUMBLE} o JOIN {right} p ON o.shop = p.shop"
    query += " AND o.window_start = p.window_start WHERE pane_timing = 'ON_TIME' AND pane_is_last AND price > 5"
    assert [row[:3] for row in rows_of(query, **BOTH)] == [(7, 5, "ON_TIME")]


def test_a_window_join_has_the_bounds_of_its_windows() -> None:
    right = TUMBLE.replace("orders", "payments")
    query = f"SELECT o.shop, price, paid, window_end FROM {TUMBLE} o JOIN {right} p"
    query += " ON o.shop = p.shop AND o.window_start = p.window_start WHERE window_end IS NOT NULL"
    panes = ev.sql(query).local({"orders": DAY, "payments": PAYMENTS}).panes
    assert panes.select("shop", "price", "paid").rows() == [("kiel", 5, 5), ("kiel", 7, 5), ("oslo", 2, 1)]


@pytest.mark.parametrize("kind", ["table", "batches"])
def test_tables_of_arrow_are_tables(kind: str) -> None:
    table: pa.Table = DAY.to_arrow()
    assert rows_of(f"SELECT COUNT(*) AS n FROM {TUMBLE}", orders=table if kind == "table" else table.to_batches()) == [
        (3,),
        (1,),
    ]


def test_a_compiled_query_runs_later() -> None:
    compiled = ev.sql(f"{STREAM} SELECT shop, COUNT(*) AS n FROM {TUMBLE} GROUP BY shop HAVING n > 1")
    assert compiled.tables == ("orders",)
    assert compiled.local(DAY).panes.rows() == [("kiel", 2, 1)]


def test_without_drain_only_complete_windows_are_emitted() -> None:
    query = f"{STREAM} SELECT COUNT(*) AS n FROM {TUMBLE}"
    rows = orders((5, "kiel", 1), (95, "kiel", 2))
    assert ev.sql(query).local(rows, drain=False).panes["n"].to_list() == [1]


def test_explain_is_the_text_of_the_pipeline() -> None:
    query = f"{STREAM} SELECT shop, COUNT(*) AS n FROM {TUMBLE} GROUP BY shop"
    pipeline = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("30 seconds")).window(
        ev.tumbling("1 minute")
    )
    assert ev.sql(query).explain() == pipeline.agg(n=ev.count()).explain()


def test_explain_tells_what_is_done_before_and_behind_the_windows() -> None:
    query = f"SELECT UPPER(shop) AS s, SUM(price * 2) AS t FROM {TUMBLE} WHERE price > 1 GROUP BY UPPER(shop)"
    query += " HAVING COUNT(*) > 1 AND window_start IS NOT NULL"
    *_, filtered, computed, kept = ev.sql(query).explain().splitlines()
    assert filtered == "rows of orders: where price > 1"
    assert computed == "rows of orders: with UPPER(shop), price * 2"
    assert kept == "panes: where count > 1 AND NOT window_start IS NULL"


prices = st.lists(
    st.tuples(st.integers(0, 300), st.sampled_from(["a", "b"]), st.integers(0, 9)), min_size=1, max_size=12
)


@given(st.lists(prices, min_size=1, max_size=4), st.integers(0, 30))
def test_diffs_still_sum_to_the_truth_behind_having(bundles: list[list[tuple[int, str, int]]], least: int) -> None:
    query = (
        f"CREATE STREAM orders WATERMARK FOR ts AS ts; SELECT shop, window_start, SUM(price) AS total FROM {TUMBLE}"
        f" GROUP BY shop, window_start HAVING total >= {least}"
        " EMIT EARLY ON UPDATE LATE ON UPDATE ALLOWED LATENESS INTERVAL '1' DAY RETRACTING"
    )
    frames = [orders(*rows) for rows in bundles]
    panes = ev.sql(query).local({"orders": frames}, clock=list(range(len(frames)))).panes
    summed = panes.group_by("shop", "window_start", "total").agg(pl.col("diff").sum()).filter(pl.col("diff") != 0)
    start = (pl.col("ts") // (60 * SECOND) * 60 * SECOND).cast(pl.Datetime("us", "UTC")).alias("window_start")
    truth = pl.concat(frames).group_by("shop", start).agg(total=pl.col("price").sum()).filter(pl.col("total") >= least)
    assert summed["diff"].to_list() == [1] * truth.height
    assert set(summed.drop("diff").rows()) == set(truth.rows())


NESTED = f"""{STREAM}
    SELECT window_start, MAX(n) AS busiest FROM (
        SELECT shop, window_start, window_end, COUNT(*) AS n FROM {TUMBLE} GROUP BY shop, window_start, window_end
    ) GROUP BY window_start, window_end"""


def test_late_rows_and_dead_letters_of_an_inner_query_are_those_of_the_query() -> None:
    bad = orders((300, "kiel", 1)).with_columns(ts=pl.lit(None, pl.Int64))
    bundles = [DAY, orders((200, "kiel", 1)), pl.concat([orders((1, "kiel", 1)), bad])]
    for drain in (True, False):
        unnested = ev.sql(f"{STREAM} SELECT shop, COUNT(*) AS n FROM {TUMBLE} GROUP BY shop")
        result, plain = (query.local(bundles, drain=drain, clock=[1, 2, 3]) for query in (ev.sql(NESTED), unnested))
        assert result.late.equals(plain.late) and result.late.height == 1
        assert result.dead.equals(plain.dead) and result.dead.height == 1
        counts = result.metrics
        assert counts.balanced and (counts.rows, counts.late) == (7, 1)
        assert sum(counts.panes.values()) == result.panes.height


def test_each_operator_of_a_nested_query_has_its_own_counts() -> None:
    result = ev.sql(NESTED).local({"orders": [DAY, orders((200, "kiel", 1)), orders((1, "kiel", 1))]})
    inner, outer = result.operators
    assert (inner.metrics.rows, inner.metrics.late) == (6, 1)
    assert (outer.metrics.rows, outer.metrics.late) == (inner.panes.height, 0)
    assert inner.metrics.balanced and outer.metrics.balanced
    assert "operators" not in repr(result)


def test_the_operators_of_a_chain_are_those_that_were_chained() -> None:
    first = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("1 second")).window(ev.tumbling("1 minute"))
    shops = ev.stream(time="window_time").window(ev.inherit()).agg(shops=ev.count())
    inner, outer = first.agg(n=ev.count()).then(shops).local(DAY).operators
    assert inner.panes.height == outer.metrics.rows
    alone = first.agg(n=ev.count()).local(DAY)
    assert alone.operators == (alone,)
