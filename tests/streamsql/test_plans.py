"""A query is the same plan as the pipeline that Python builds."""

from __future__ import annotations

import inspect
from typing import Any

import polars as pl
import pytest

import eventide as ev

ORDERS = "CREATE STREAM orders WATERMARK FOR ts AS ts - INTERVAL '30' SECOND;"


def orders(key: Any = None) -> ev.Stream:
    return ev.stream(time="ts", key=key, watermark=ev.bounded_delay("30 seconds"))


def per_minute(select: str = "COUNT(*) AS n", rest: str = "") -> str:
    return f"{ORDERS} SELECT {select} FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE) {rest}"


WINDOWS = {
    "TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '5' SECOND)": ev.tumbling("5 seconds"),
    "TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '6' HOUR)": ev.tumbling("1 day", offset="6 hours"),
    "TUMBLE(orders, DESCRIPTOR(ts), size => INTERVAL '90' SECOND, offset => INTERVAL '1' SECOND)": ev.tumbling(
        "90s", offset="1s"
    ),
    "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1 hour 30 minutes'))": ev.tumbling("1h 30m"),
    "TUMBLE(orders, DESCRIPTOR(ts), 5 seconds)": ev.tumbling("5 seconds"),
    "TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE + INTERVAL '30' SECOND)": ev.tumbling("90 seconds"),
    "TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE, -INTERVAL '15' SECOND)": ev.tumbling("1m", offset="-15s"),
    "TUMBLE(DATA => TABLE orders, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' HOUR)": ev.tumbling("1 hour"),
    "TUMBLE(SIZE => INTERVAL '1' HOUR, TIMECOL => DESCRIPTOR(ts), DATA => TABLE orders)": ev.tumbling("1 hour"),
    "HOP(DATA => orders, TIMECOL => DESCRIPTOR(ts), EVERY => 1 minute, SIZE => 1 hour)": ev.sliding("1h", every="1m"),
    "HOP(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '10' MINUTE)": ev.sliding(
        "10 minutes", every="1 minute"
    ),
    "HOP(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '10' MINUTE, INTERVAL '5' SECOND)": ev.sliding(
        "10 minutes", every="1 minute", offset="5 seconds"
    ),
    "HOP(orders, DESCRIPTOR(ts), 10 minutes, 1 minute, gaps => 'allowed')": (
        ev.sliding("1 minute", every="10 minutes", gaps="allowed")
    ),
    "SESSION(orders, DESCRIPTOR(ts), INTERVAL '30' MINUTE)": ev.sessions("30 minutes"),
    "SESSION(orders, DESCRIPTOR(ts), patience, touching => 'split')": ev.sessions("patience", touching="split"),
    "SESSION(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE, max_duration => INTERVAL '1' HOUR)": ev.sessions(
        "1 minute", max_duration="1 hour"
    ),
    "CUMULATE(orders, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' DAY)": ev.cumulate("1 hour", "1 day"),
    "CALENDAR(orders, DESCRIPTOR(ts), 'month', tz => 'Europe/Berlin')": ev.calendar("month", tz="Europe/Berlin"),
    "ROWS_WINDOW(orders, DESCRIPTOR(ts), 100)": ev.rows(100),
    "ROWS_WINDOW(orders, DESCRIPTOR(ts), 100, timeout => INTERVAL '1' HOUR)": ev.rows(100, timeout="1 hour"),
    "ROW_SESSION(orders, DESCRIPTOR(ts), absent => 5, timeout => INTERVAL '1' HOUR)": (
        ev.row_sessions(absent=5, timeout="1 hour")
    ),
    "ROWS_WINDOW(orders, DESCRIPTOR(ts), 100, forget_after => INTERVAL '30' DAY)": ev.rows(100, forget_after="30d"),
    "ROWS_WINDOW(orders, DESCRIPTOR(ts), 100, every => 10, by => n, first => 0)": ev.rows(
        100, every=10, by="n", first=0
    ),
    "ROW_SESSION(orders, DESCRIPTOR(ts), absent => 5)": ev.row_sessions(absent=5),
    "orders": ev.global_window(),
}


@pytest.mark.parametrize(("table", "window"), WINDOWS.items(), ids=list(WINDOWS))
def test_a_window_function_is_a_kind_of_window(table: str, window: Any) -> None:
    query = ev.sql(f"{ORDERS} SELECT shop, COUNT(*) AS n FROM {table} GROUP BY shop")
    assert query.plan == orders("shop").window(window).agg(n=ev.count()).plan


WATERMARKS: dict[str, Any] = {
    "": None,
    "WATERMARK FOR ts": None,
    "WATERMARK FOR ts AS ts": ev.ascending(),
    "WATERMARK FOR ts AS TS": ev.ascending(),
    "WATERMARK FOR ts AS Ts - INTERVAL '30' SECOND": ev.bounded_delay("30 seconds"),
    "WATERMARK FOR ts AS ts - INTERVAL '30' SECOND": ev.bounded_delay("30 seconds"),
    "WATERMARK FOR ts AS CURRENT_TIMESTAMP - INTERVAL '1' MINUTE": ev.processing_time("1 minute"),
    "WATERMARK FOR ts AS PUNCTUATED BY safe PER device": ev.punctuated("safe", origin="device"),
    "WATERMARK FOR ts PUNCTUATED BY safe": ev.punctuated("safe"),
    "WATERMARK FOR ts AS NOTED BY 'sqlite:///shop.db#orders'": ev.noted("sqlite:///shop.db#orders"),
    "WATERMARK FOR ts AS NONE MAX FUTURE SKEW INTERVAL '1' HOUR": ev.no_watermark(max_future_skew="1 hour"),
    "WATERMARK FOR ts AS ts MAX FUTURE SKEW NONE": ev.ascending(max_future_skew=None),
    "WATERMARK FOR ts AS ts - INTERVAL '30' SECOND PER partition IDLE TIMEOUT INTERVAL '2' MINUTE ON RETURN CATCH UP": (
        ev.bounded_delay("30s", origin="partition", idle_timeout="2m", on_return="catch_up")
    ),
    "WATERMARK FOR ts AS ts PER device IDLE TIMEOUT INTERVAL '1' HOUR FORGET AFTER INTERVAL '30' DAY": (
        ev.ascending(origin="device", idle_timeout="1 hour", forget_after="30 days")
    ),
    "WATERMARK FOR ts AS ts SEQUENCE n CHUNK c LAST CHUNK z FIRST CHUNK 0 GAP TIMEOUT INTERVAL '1' HOUR": (
        ev.ascending(sequence="n", chunk="c", last_chunk="z", first_chunk=0, gap_timeout="1 hour")
    ),
    "WATERMARK FOR ts AS ts PER device EXPECT 3 ORIGINS TIMEOUT INTERVAL '5' MINUTE WATERMARK KEY 7": ev.ascending(
        origin="device", expect_origins=3, origins_timeout="5m", watermark_key=7
    ),
    "WATERMARK FOR ts AS ts PER partition SEQUENCE n FIRST SEQUENCE 0 GAPS ALLOWED": ev.ascending(
        origin="partition", sequence="n", first_sequence=0, gaps="allowed"
    ),
    "WATERMARK FOR ts AS ts - INTERVAL '30' SECOND AT LATEST INTERVAL '5' MINUTE": ev.bounded_delay(
        "30 seconds", at_latest="5 minutes"
    ),
    "WATERMARK FOR ts AS ts PER device ON RETURN HOLD EXPECT ('a', 'b')": ev.ascending(
        origin="device", expect_origins=["a", "b"]
    ),
}


@pytest.mark.parametrize(("clause", "watermark"), WATERMARKS.items(), ids=list(WATERMARKS))
def test_a_declared_stream_has_its_watermark(clause: str, watermark: Any) -> None:
    query = ev.sql(
        f"CREATE STREAM orders {clause};SELECT COUNT(*) AS n FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
    )
    assert query.plan == ev.stream(time="ts", watermark=watermark).window(ev.tumbling("1m")).agg(n=ev.count()).plan


def test_every_option_of_watermarks_can_be_written_in_sql() -> None:
    from eventide.streamsql.syntax import WATERMARK_OPTIONS

    assert {"delay", *(name for _, name, _ in WATERMARK_OPTIONS)} == set(inspect.signature(ev.bounded_delay).parameters)


def test_a_stream_can_be_bounded_and_deduplicated() -> None:
    query = ev.sql(
        "CREATE STREAM orders WATERMARK FOR ts AS ts SEQUENCE n DEDUPLICATE"
        " LIMIT STATE 1000 ROWS, 64000 BYTES;"
        "SELECT COUNT(*) AS n FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
    )
    begun = ev.stream(time="ts", watermark=ev.ascending(sequence="n")).deduplicate()
    limited = begun.window(ev.tumbling("1 minute")).limit_state(rows=1000, bytes=64000)
    assert query.plan == limited.agg(n=ev.count()).plan


def test_a_stream_can_be_deduplicated_by_the_columns_of_an_id() -> None:
    query = ev.sql(
        "CREATE STREAM orders WATERMARK FOR ts AS ts DEDUPLICATE BY shop, id WITHIN INTERVAL '1' HOUR;"
        "SELECT COUNT(*) AS n FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
    )
    begun = ev.stream(time="ts", watermark=ev.ascending()).deduplicate("shop", "id", within="1 hour")
    assert query.plan == begun.window(ev.tumbling("1 minute")).agg(n=ev.count()).plan


def test_time_may_be_that_of_the_batch() -> None:
    query = ev.sql("SELECT COUNT(*) AS n FROM TUMBLE(visits, DESCRIPTOR(INGESTION_TIME()), INTERVAL '1' MINUTE)")
    assert query.plan == ev.stream(time=ev.ingestion_time()).window(ev.tumbling("1 minute")).agg(n=ev.count()).plan


def test_a_stream_declares_the_time_of_its_windows() -> None:
    query = ev.sql(f"{ORDERS} SELECT COUNT(*) AS n FROM TUMBLE(orders, INTERVAL '1' MINUTE)")
    assert query.plan == orders().window(ev.tumbling("1 minute")).agg(n=ev.count()).plan


def emitted(stream: ev.Stream) -> ev.WindowedStream:
    return stream.window(ev.tumbling("1 minute"))


BEGUN = emitted(orders())
EMITS: dict[str, ev.WindowedStream] = {
    "": BEGUN,
    "EMIT ON WINDOW CLOSE": BEGUN,
    "EMIT ON WINDOW CLOSE ALLOWED LATENESS INTERVAL '1' HOUR": BEGUN.emit(allowed_lateness="1 hour"),
    "EMIT EARLY EVERY INTERVAL '10' SECOND LATE ON UPDATE ALLOWED LATENESS INTERVAL '1' HOUR RETRACTING": (
        BEGUN.trigger(
            ev.after_watermark(early=ev.every("10 seconds"), late=ev.on_update()),
            allowed_lateness="1 hour",
            mode="retracting",
        )
    ),
    "EMIT EARLY EVERY INTERVAL '10' SECOND ALIGNED ON WINDOW CLOSE DISCARDING": (
        BEGUN.trigger(ev.after_watermark(early=ev.every("10 seconds", aligned=True)), mode="discarding")
    ),
    "EMIT EARLY AFTER 100 ROWS LATE AFTER INTERVAL '1' MINUTE ALLOWED LATENESS 1 hour ACCUMULATING SKIP UNCHANGED": (
        BEGUN.trigger(
            ev.after_watermark(early=ev.after_count(100), late=ev.after_processing_time("1 minute")),
            allowed_lateness="1 hour",
            mode="accumulating",
            skip_unchanged=True,
        )
    ),
    "EMIT WHEN NEVER DISCARDING": BEGUN.trigger(ev.never(), mode="discarding"),
    "EMIT WHEN REPEATEDLY(ANY_OF(AFTER_COUNT(3), AFTER_PROCESSING_TIME(INTERVAL '5' SECOND))) DISCARDING": (
        BEGUN.trigger(ev.repeatedly(ev.any_of(ev.after_count(3), ev.after_processing_time("5s"))), mode="discarding")
    ),
    "EMIT WHEN OR_FINALLY(ON_UPDATE(), AFTER_WATERMARK()) ACCUMULATING": (
        BEGUN.trigger(ev.or_finally(ev.on_update(), ev.after_watermark()), mode="accumulating")
    ),
    "EMIT WHEN AFTER_WATERMARK(early => EVERY(INTERVAL '1' SECOND, aligned => TRUE), late => ON_UPDATE()) RETRACTING": (
        BEGUN.trigger(ev.after_watermark(early=ev.every("1s", aligned=True), late=ev.on_update()), mode="retracting")
    ),
    "EMIT WHEN AFTER 2 ROWS MAY LOSE DATA DISCARDING": (
        BEGUN.trigger(ev.after_count(2), mode="discarding", may_lose_data=True)
    ),
    "EMIT EARLY ON UPDATE": BEGUN.emit(early=ev.on_update()),
    "EMIT EARLY ON UPDATE SKIP UNCHANGED": BEGUN.emit(early=ev.on_update(), skip_unchanged=True),
    "EMIT OUTPUT TIME EARLIEST": orders().window(ev.tumbling("1 minute"), output_time="earliest"),
}


@pytest.mark.parametrize(("clause", "stream"), EMITS.items(), ids=list(EMITS))
def test_emit_is_a_trigger_a_lateness_and_a_mode(clause: str, stream: ev.WindowedStream) -> None:
    assert ev.sql(per_minute(rest=clause)).plan == stream.agg(n=ev.count()).plan


def test_lateness_of_windows_by_offset_is_in_rows() -> None:
    query = ev.sql(
        f"{ORDERS} SELECT COUNT(*) AS n FROM ROWS_WINDOW(orders, DESCRIPTOR(ts), 10, by => o)"
        " EMIT ON WINDOW CLOSE ALLOWED LATENESS 5 ROWS"
    )
    assert query.plan == orders().window(ev.rows(10, by="o")).emit(allowed_lateness=5).agg(n=ev.count()).plan


AGGREGATES: dict[str, Any] = {
    "COUNT(*)": ev.count(),
    "COUNT(price)": ev.count("price"),
    "SUM(price)": ev.sum("price"),
    "AVG(price)": ev.mean("price"),
    "MEAN(price)": ev.mean("price"),
    "MIN(price)": ev.min("price"),
    "MAX(DISTINCT price)": ev.max("price"),
    "VARIANCE(price)": ev.var("price"),
    "STDDEV(price)": ev.std("price"),
    "FIRST(price)": ev.first("price"),
    "LAST(price) IGNORE NULLS": ev.last("price", ignore_nulls=True),
    "LAST(price IGNORE NULLS)": ev.last("price", ignore_nulls=True),
    "LAST(price RESPECT NULLS)": ev.last("price"),
    "LAST(price) RESPECT NULLS": ev.last("price"),
    "LAST(price IGNORE NULLS) FILTER (WHERE price > 1)": ev.last("price", ignore_nulls=True, where=pl.col("price > 1")),
    "FIRST(price) FILTER (WHERE paid)": ev.first("price", where="paid"),
    "COUNT(*) FILTER (WHERE price > 1)": ev.count(where=pl.col("price > 1")),
    "FIRST_VALUE(price, ignore_nulls => TRUE)": ev.first("price", ignore_nulls=True),
    "MIN_BY(shop, price)": ev.min_by("shop", "price"),
    "MAX_BY(shop, price)": ev.max_by("shop", "price"),
    "TOP_N(price, 3)": ev.top_n("price", 3),
    "TOP_N_BY_KEY(price, shop, 3)": ev.top_n_by_key("price", "shop", 3),
    "ARRAY_AGG(price)": ev.collect_list("price"),
    "ARRAY_AGG(DISTINCT price)": ev.collect_set("price"),
    "COLLECT_SET(price)": ev.collect_set("price"),
    "SORT(price, descending => TRUE)": ev.collect_sorted("price", descending=True),
    "MEDIAN(price)": ev.median("price"),
    "QUANTILE(price, 0.95)": ev.quantile("price", 0.95),
    "PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY price)": ev.quantile("price", 0.95),
    "PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY price DESC)": ev.quantile("price", 0.05),
    "MODE(price)": ev.mode("price"),
    "APPROX_DISTINCT(price, precision => 10)": ev.approx_distinct("price", precision=10),
    "APPROX_QUANTILE(price, 0.5)": ev.approx_quantile("price", 0.5),
    "COMPOSITE(n => COUNT(*), total => SUM(price))": ev.composite(n=ev.count(), total=ev.sum("price")),
    "SUM(price * quantity)": ev.sum("price * quantity"),
    "SUM(price) FILTER (WHERE shop = 'kiel')": ev.sum("price", where=pl.col("shop = 'kiel'")),
    "COUNT(DISTINCT price)": ev.count_distinct("price"),
}


@pytest.mark.parametrize(("call", "aggregate"), AGGREGATES.items(), ids=list(AGGREGATES))
def test_a_call_is_an_aggregate(call: str, aggregate: Any) -> None:
    assert ev.sql(per_minute(f"{call} AS x")).plan == BEGUN.agg(x=aggregate).plan


def test_all_aggregates_of_the_library_can_be_written_in_sql() -> None:
    from eventide import aggregates
    from eventide.streamsql.syntax import AGGREGATES as SQL_AGGREGATES
    from eventide.streamsql.syntax import PYTHON_AGGREGATES

    functions = {name for name in aggregates.__all__ if name in ev.__all__ and name.islower()}
    assert {*SQL_AGGREGATES.values(), *PYTHON_AGGREGATES} == functions


def test_all_triggers_of_the_library_can_be_written_in_sql() -> None:
    from eventide import triggers
    from eventide.streamsql.emit import TRIGGERS

    assert set(TRIGGERS) == {name for name in triggers.__all__ if name in ev.__all__}


def test_results_without_a_name_have_a_readable_one() -> None:
    plan = ev.sql(per_minute("COUNT(*), SUM(price), SUM(price) / COUNT(*) AS each_one")).plan
    assert plan == BEGUN.agg(count=ev.count(), sum_price=ev.sum("price")).plan


def test_names_of_users_go_before_names_of_ours() -> None:
    plan = ev.sql(per_minute("SUM(price) + 1 AS more, MAX(price) AS sum_price")).plan
    assert plan == BEGUN.agg(sum_price=ev.max("price"), sum_price_=ev.sum("price")).plan


@pytest.mark.parametrize("group", ["shop, window_start, window_end", "1, 2", "o.shop, window_end", "shop"])
def test_keys_are_grouped_by_name_or_by_number(group: str) -> None:
    query = ev.sql(
        f"{ORDERS} SELECT shop, window_start, COUNT(*) AS n"
        f" FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE) AS o GROUP BY {group}"
    )
    assert query.plan == emitted(orders("shop")).agg(n=ev.count()).plan


def test_a_key_may_be_computed() -> None:
    query = ev.sql(per_minute("UPPER(shop) AS s, COUNT(*) AS n", "GROUP BY UPPER(shop)"))
    assert query.plan == emitted(orders("s")).agg(n=ev.count()).plan


def test_a_computed_key_does_not_hide_a_column_of_its_name() -> None:
    query = ev.sql(per_minute("UPPER(shop) AS shop, FIRST(shop) AS one", "GROUP BY UPPER(shop)"))
    assert query.plan == emitted(orders("UPPER(shop)")).agg(one=ev.first("shop")).plan


def test_a_key_is_grouped_by_under_the_name_that_select_gives_it() -> None:
    query = ev.sql(per_minute("shop AS s, window_start AS w, COUNT(*) AS n", "GROUP BY s, w"))
    assert query.plan == emitted(orders("shop")).agg(n=ev.count()).plan


def test_a_result_without_a_name_makes_way_for_a_key() -> None:
    query = ev.sql(per_minute("COUNT(*)", 'GROUP BY "count"'))
    assert query.plan == emitted(orders("count")).agg(count_=ev.count()).plan


def test_distinct_groups_by_all_columns() -> None:
    query = ev.sql(per_minute("DISTINCT shop, window_start"))
    assert query.plan == emitted(orders("shop")).agg(count=ev.count()).plan


def test_filters_and_columns_are_no_part_of_the_plan() -> None:
    plain = ev.sql(per_minute("shop, COUNT(*) AS n", "GROUP BY shop")).plan
    more = ev.sql(per_minute("shop AS s, COUNT(*) AS n", "WHERE price > 5 GROUP BY shop HAVING n > 1")).plan
    assert plain == more


def test_union_all_is_a_union() -> None:
    query = ev.sql(
        "CREATE STREAM web WATERMARK FOR ts AS ts; CREATE STREAM tills WATERMARK FOR ts AS ts - INTERVAL '1' HOUR;"
        "WITH sales AS (SELECT * FROM web UNION ALL SELECT * FROM tills)"
        "SELECT shop, COUNT(*) AS n FROM TUMBLE(sales, DESCRIPTOR(ts), INTERVAL '1' HOUR) GROUP BY shop"
    )
    web = ev.stream(time="ts", key="shop", watermark=ev.ascending())
    tills = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("1 hour"))
    assert query.plan == ev.union(web=web, tills=tills).window(ev.tumbling("1 hour")).agg(n=ev.count()).plan


def test_a_query_of_a_grouped_query_inherits_its_windows() -> None:
    query = ev.sql(
        f"{ORDERS} SELECT window_start, MAX(n) AS busiest FROM"
        " (SELECT shop, window_start, window_end, COUNT(*) AS n"
        "  FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY shop, window_start, window_end)"
        " GROUP BY window_start, window_end"
    )
    first, second = (operator.plan for operator in query.pipeline.operators)
    assert first == emitted(orders("shop")).agg(n=ev.count()).plan
    assert second == ev.stream(time="window_time").window(ev.inherit()).agg(busiest=ev.max("n")).plan


def test_results_can_have_windows_of_their_own() -> None:
    query = ev.sql(
        "SELECT MAX(n) AS busiest FROM TUMBLE((SELECT COUNT(*) AS n FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1'"
        " MINUTE) GROUP BY window_start), DESCRIPTOR(window_time), INTERVAL '1' HOUR)"
    )
    hours = ev.stream(time="window_time").window(ev.tumbling("1 hour")).agg(busiest=ev.max("n"))
    assert query.pipeline.operators[1].plan == hours.plan
