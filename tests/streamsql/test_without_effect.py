"""Parts of a query that have no effect, or a misleading one, are rejected with their position."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.sinks import OutputInfo
from eventide.streamsql.compiler import compile_query, parse_statements
from eventide.streamsql.spark_io import SelectedSink

ORDERS = pl.DataFrame({"ts": [1], "shop": ["kiel"], "price": [5], "n": [1]})
PAYMENTS = pl.DataFrame({"ts": [1], "shop": ["kiel"], "paid": [5]})
DECLARED = "CREATE STREAM orders WATERMARK FOR ts AS ts KEEP 1 hour; CREATE STREAM payments WATERMARK FOR ts AS ts;\n"


def refused(query: str, **tables: Any) -> tuple[str, str]:
    """The message, and the words under its caret."""
    with pytest.raises(ev.PlanError) as error:
        ev.sql(query).local(tables or {"orders": ORDERS})
    *message, line, caret = str(error.value).split("\n")
    start = caret.index("^")
    return "\n".join(message), line[start : start + caret.count("^")]


PAIRS = "SELECT o.shop FROM orders o {how} JOIN payments p {over} ON o.shop = p.shop"


def joined(rest: str = "", over: str = "", how: str = "") -> tuple[str, str]:
    return refused(DECLARED + PAIRS.format(how=how, over=over) + f" {rest}", orders=ORDERS, payments=PAYMENTS)


@pytest.mark.parametrize("over", ["OVER (ROWS 2 PRECEDING)", "OVER (ORDER BY ts RANGE 1 hour PRECEDING)"])
@pytest.mark.parametrize("bound", ["p.ts BETWEEN o.ts - INTERVAL '10' SECOND AND o.ts", "p.ts = o.ts", "p.ts <= o.ts"])
def test_a_time_bound_in_addition_to_over_is_rejected(over: str, bound: str) -> None:
    message, under = joined(f"AND {bound}", over)
    assert "A bound of time with OVER" in message
    assert under == bound


@pytest.mark.parametrize(
    "query",
    [
        "SELECT shop, COUNT(*) AS n FROM orders OVER (ROWS 2 PRECEDING) GROUP BY shop",
        "SELECT COUNT(*) FROM TUMBLE((SELECT * FROM orders OVER (ROWS 2 PRECEDING)), DESCRIPTOR(ts), 1 hour)",
        "SELECT n FROM (SELECT COUNT(*) AS n FROM TUMBLE(orders, DESCRIPTOR(ts), 1 hour)) OVER (ROWS 2 PRECEDING)",
    ],
)
def test_over_on_a_table_that_is_not_joined_is_rejected(query: str) -> None:
    message, under = refused(query)
    assert "OVER follows the joined table" in message
    assert under.startswith("OVER")


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ("TUMBLE(orders, DESCRIPTOR(ts), 1 hour) OVER (ROWS 2 PRECEDING)", "OVER behind TUMBLE(…) is not supported"),
        ("HOP(TUMBLE(orders, DESCRIPTOR(ts), 1 hour), DESCRIPTOR(ts), 1 hour)", "TUMBLE inside HOP is not supported"),
        ("(TUMBLE(orders, DESCRIPTOR(ts), 1 hour))", "TUMBLE in brackets is not supported"),
    ],
)
def test_windows_stand_in_from_by_themselves(table: str, fault: str) -> None:
    message, under = refused(f"SELECT COUNT(*) FROM {table}")
    assert fault in message
    assert under.startswith("TUMBLE")


def windows(left: str = "ts", on: str = "a.window_start = b.window_start", kind: str = "TUMBLE", how: str = "") -> str:
    lengths = "1 hour, 1 day" if kind == "CUMULATE" else "1 hour"
    return (
        f"{DECLARED} SELECT a.shop FROM {kind}(orders, DESCRIPTOR({left}), {lengths}) a {how}"
        f" JOIN {kind}(payments, DESCRIPTOR(ts), {lengths}) b ON a.shop = b.shop AND {on}"
    ).replace(" KEEP 1 hour", "")


BOTH: dict[str, Any] = {"orders": ORDERS, "payments": PAYMENTS}


def test_a_window_join_goes_by_the_time_that_has_a_watermark() -> None:
    message, under = refused(windows(left="price"), **BOTH)
    assert "the watermark of 'orders' is for 'ts'" in message
    assert under.startswith("TUMBLE")


@pytest.mark.parametrize(
    ("on", "fault", "at"),
    [
        ("a.window_start = a.window_start", "a.window_start = b.window_start", "a.shop"),
        ("window_start = window_start", "Qualify it: a.window_start", "window_start"),
        ("a.window_time = b.window_time", "a.window_start = b.window_start", "a.shop"),
    ],
)
def test_windows_are_the_same_if_both_sides_say_so(on: str, fault: str, at: str) -> None:
    message, under = refused(windows(on=on), **BOTH)
    assert fault in message
    assert under.startswith(at)


@pytest.mark.parametrize("bound", ["window_start", "window_end"])
def test_windows_that_share_one_bound_are_not_yet_the_same(bound: str) -> None:
    message, _ = refused(windows(on=f"a.{bound} = b.{bound}", kind="CUMULATE"), **BOTH)
    assert "a.window_start = b.window_start AND a.window_end = b.window_end" in message


def test_rows_without_windows_have_no_window_start() -> None:
    declared = "CREATE STREAM {} ({} STRING, ts TIMESTAMP) WATERMARK FOR ts AS ts;"
    streams = declared.format("orders", "shop") + declared.format("payments", "shop")
    near = "AND o.window_start = p.window_start AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '1' HOUR"
    message, under = refused(f"{streams} {PAIRS.format(how='', over='')} {near}")
    assert "There are no windows here" in message
    assert under == "o.window_start"


RESULTS = "(SELECT shop, COUNT(*) AS n FROM TUMBLE(orders, DESCRIPTOR(ts), 1 hour) GROUP BY shop, window_start)"
OF_OTHERS = [
    ("SUM(n) > 1", "SUM in WHERE"),
    ("n > MAX(n) - 1", "MAX in WHERE"),
    ("ROW_NUMBER() OVER (ORDER BY n) = 1", "A window function"),
    ("ROW_NUMBER() = 1", "ROW_NUMBER is not supported"),
    ("LAG(n) = 1", "LAG is not supported"),
    ("STDDEV_POP(n) > 1", "STDDEV_POP is not supported"),
    ("QUANTILE_DISC(n, 0.5) > 1", "QUANTILE_DISC is not supported"),
    ("n IN (SELECT n FROM orders)", "A subquery in an expression"),
]


@pytest.mark.parametrize(("condition", "fault"), OF_OTHERS)
def test_a_condition_on_results_is_of_one_row(condition: str, fault: str) -> None:
    message, under = refused(f"SELECT n FROM {RESULTS} WHERE {condition}")
    assert fault in message
    assert under and under in condition


@pytest.mark.parametrize(("condition", "fault"), OF_OTHERS)
@pytest.mark.parametrize("clause", ["AND", "WHERE"])
def test_a_condition_on_pairs_is_of_one_pair(clause: str, condition: str, fault: str) -> None:
    near = "AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '1' HOUR"
    message, under = joined(f"{near} {clause} {condition}")
    assert fault in message
    assert under and under in condition


@pytest.mark.parametrize(
    "column", ["ROW_NUMBER()", "STRING_AGG(shop, ',')", "CORR(n, n)", "UNNEST(ARRAY[1, 2])", "EXPLODE(n)", "RANK()"]
)
def test_a_column_of_results_is_of_one_row(column: str) -> None:
    message, under = refused(f"SELECT shop, {column} AS v FROM {RESULTS}")
    assert "is not supported" in message
    assert under and under in column


@pytest.mark.parametrize(
    ("columns", "fault", "at"),
    [
        ("n AS x, shop AS x", "Two columns are named 'x'", "shop"),
        ("*, n + 1 AS n", "Two columns are named 'n'", "n + 1"),
        ("n, shop AS N", "Columns named 'n' and 'N' are the same for some engines", "shop"),
        ('n AS "Diff"', "'Diff' is the name of a column that every result has", "n"),
    ],
)
def test_no_column_of_an_outer_select_is_lost(columns: str, fault: str, at: str) -> None:
    message, under = refused(f"SELECT {columns} FROM {RESULTS}")
    assert fault in message
    assert under == at


@pytest.mark.parametrize(
    ("columns", "fault", "at"),
    [
        ("COUNT(*) AS N, SUM(price) AS n", "Columns named 'N' and 'n' are the same for some engines", "SUM"),
        ("COUNT(*) AS Shop", "Columns named 'shop' and 'Shop' are the same for some engines", "COUNT"),
        ('COUNT(*) AS "Diff"', "'Diff' is the name of a column that every result has", "COUNT"),
        ("COUNT(*) AS diff", "'diff' is the name of a column that every result has", "COUNT"),
    ],
)
def test_names_of_a_group_differ_not_only_in_case(columns: str, fault: str, at: str) -> None:
    message, under = refused(f"SELECT {columns} FROM TUMBLE(orders, DESCRIPTOR(ts), 1 hour) GROUP BY shop")
    assert fault in message
    assert under == at


def test_names_of_rows_differ_not_only_in_case() -> None:
    message, under = refused(
        "SELECT COUNT(*) FROM TUMBLE((SELECT ts, n, price AS N FROM orders), DESCRIPTOR(ts), 1 hour)"
    )
    assert "Columns named 'n' and 'N' are the same for some engines" in message
    assert under == "price"


def test_names_of_pairs_differ_not_only_in_case() -> None:
    query = PAIRS.format(how="", over="").replace("o.shop FROM", "price AS n, paid AS N FROM")
    near = "AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '1' HOUR"
    message, under = refused(f"{DECLARED.replace(' KEEP 1 hour', '')}{query} {near}", **BOTH)
    assert "Columns named 'n' and 'N' are the same for some engines" in message
    assert under == "paid"


def test_an_aggregate_without_a_name_gets_one_of_its_own() -> None:
    query = 'SELECT SUM(price) + 0 AS s, SUM(n) AS "SUM_PRICE" FROM TUMBLE(orders, DESCRIPTOR(ts), 1 hour)'
    assert set(ev.sql(query).plan.aggregates) == {"SUM_PRICE", "sum_price_"}


RETRACTED = "EMIT EARLY ON UPDATE RETRACTING"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT COUNT(*) AS n FROM TUMBLE(orders, DESCRIPTOR(ts), 1 hour) HAVING diff = 1 {RETRACTED}",
        f"SELECT n FROM (SELECT COUNT(*) AS n FROM TUMBLE(orders, DESCRIPTOR(ts), 1 hour) {RETRACTED}) WHERE diff > 0",
    ],
)
def test_a_filter_by_diff_would_let_one_of_two_through(query: str) -> None:
    message, _ = refused(query)
    assert "diff is not repeated when a pane is retracted" in message
    ev.sql(query.replace("RETRACTING", "ACCUMULATING")).local({"orders": ORDERS})


def test_a_filter_of_pairs_by_diff_would_let_one_of_two_through() -> None:
    message, _ = refused(f"{windows()} WHERE diff > 0 {RETRACTED}", **BOTH)
    assert "diff is not repeated when a pane is retracted" in message


class Panes:
    """As much of a DataFrame as is asked before anything is selected."""

    columns = ("shop", "window_start", "window_end", "price", "paid", "diff")


@pytest.mark.parametrize("name", ["window_start", "window_end", "Window_End", "pane_index"])
def test_an_aggregate_is_not_called_like_a_column_of_every_pane(name: str) -> None:
    query = f'SELECT shop, COUNT(*) AS "{name}" FROM TUMBLE(orders, DESCRIPTOR(ts), 1 hour) GROUP BY shop'
    message, _ = refused(query, **BOTH)
    assert f"{name!r} is the name of a column that every result has" in message


def test_a_sink_does_not_lose_a_column_that_is_called_like_a_bound() -> None:
    sides = [f"TUMBLE({name}, DESCRIPTOR(ts), 1 hour) {name}" for name in ("orders", "payments")]
    on = "orders.shop = payments.shop AND orders.window_start = payments.window_start"
    query = f"SELECT orders.window_start FROM {sides[0]} FULL JOIN {sides[1]} ON {on}"
    projection = compile_query(parse_statements(query)).projection
    about = OutputInfo("panes", ("shop",), "accumulating")
    with pytest.raises(ev.PlanError, match="selects something else as 'window_start'"):
        SelectedSink(ev.sinks.files("nowhere"), projection)._selected(Panes(), about)  # type: ignore[arg-type]


COUNTED = "SELECT COUNT(*) AS n FROM TUMBLE(orders, DESCRIPTOR(ts), 1 hour)"
NO_EFFECT = [
    (f"CREATE STREAM order_s WATERMARK FOR ts AS ts; {COUNTED}", "Did you mean 'orders'?", "order_s"),
    (f"CREATE STREAM orders (ts AS CAST(t AS TIMESTAMP)) WATERMARK FOR ts AS ts; {COUNTED}", "in a subquery", "ts"),
    (f"CREATE STREAM orders (price INT DEFAULT 3) WATERMARK FOR ts AS ts; {COUNTED}", "in a subquery", "price"),
    (f"CREATE STREAM orders (ts INT, n INT NOT NULL) WATERMARK FOR ts AS ts; {COUNTED}", "in a subquery", "n"),
    (f"CREATE STREAM orders LIMIT STATE 9 ROWS, 5 ROWS; {COUNTED}", "is repeated", "ROWS"),
    (f"CREATE STREAM orders LIMIT STATE 9 ROWS, 1 hour; {COUNTED}", "ALLOWED LATENESS in EMIT", "hour"),
    (f"CREATE STREAM orders KEEP 1 hour; {COUNTED}", "this query has none", "TUMBLE"),
    (
        f"WITH a AS (SELECT * FROM orders), A AS (SELECT ts FROM orders) {COUNTED.replace('orders', 'a')}",
        "two queries named 'A'",
        "A",
    ),
    (f"WITH a AS (SELECT nope FROM orders) {COUNTED}", "reads 'a', a query of WITH", "a"),
    (
        f"WITH b AS (SELECT * FROM a), a AS (SELECT * FROM orders) {COUNTED.replace('orders', 'b')}",
        "No later query reads 'a'",
        "a",
    ),
    (f"EXPLAIN {COUNTED}", "EXPLAIN is not supported", ""),
]


@pytest.mark.parametrize(("query", "fault", "at"), NO_EFFECT, ids=[query[:80] for query, _, _ in NO_EFFECT])
def test_clauses_without_effect_are_rejected(query: str, fault: str, at: str) -> None:
    message, under = refused(query)
    assert fault in message
    assert under.startswith(at)


def test_queries_of_with_read_those_before_them() -> None:
    query = f"WITH a AS (SELECT * FROM orders), b AS (SELECT * FROM a WHERE n > 0) {COUNTED.replace('orders', 'b')}"
    assert ev.sql(query).local({"orders": ORDERS}).panes["n"].to_list() == [1]


def test_a_query_of_with_may_be_called_like_the_table_it_reads() -> None:
    query = f"WITH orders AS (SELECT * FROM orders WHERE n > 5) {COUNTED}"
    assert ev.sql(query).local({"orders": ORDERS}).panes.height == 0


COUNTED_ORDERS = "SELECT COUNT(*) AS n FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY window_start"


@pytest.mark.parametrize(
    ("clause", "fault"), [("KEEP 1 hour", "this query has none"), ("LIMIT STATE 9 ROWS", "rows of several streams")]
)
def test_what_a_join_of_windows_cannot_use_is_rejected(clause: str, fault: str) -> None:
    message, under = refused(
        windows().replace("WATERMARK FOR ts AS ts;", f"WATERMARK FOR ts AS ts {clause};", 1), **BOTH
    )
    assert fault in message and under.startswith("TUMBLE")


def test_the_state_of_a_union_is_not_limited_by_one_of_its_streams() -> None:
    declared = (
        "CREATE STREAM orders WATERMARK FOR ts AS ts LIMIT STATE 9 ROWS; CREATE STREAM payments WATERMARK FOR ts AS ts;"
    )
    both = "(SELECT ts, shop FROM orders UNION ALL SELECT ts, shop FROM payments)"
    message, _ = refused(f"{declared} SELECT COUNT(*) AS n FROM TUMBLE({both}, DESCRIPTOR(ts), 1 hour)", **BOTH)
    assert "LIMIT STATE of 'orders' has no effect here" in message


def test_declarations_that_several_queries_share_need_not_all_be_read() -> None:
    assert ev.sql(DECLARED.replace(" KEEP 1 hour", "") + COUNTED_ORDERS).local({"orders": ORDERS}) is not None


def test_a_table_that_the_query_does_not_read_is_rejected() -> None:
    with pytest.raises(ev.PlanError, match="The table 'payments' is given, but the query does not read it"):
        ev.sql(DECLARED.replace(" KEEP 1 hour", "") + COUNTED_ORDERS).local({"orders": ORDERS, "payments": PAYMENTS})
