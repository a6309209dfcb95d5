"""An error shows its position: the line, a caret, the near miss, and how to fix it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventide as ev

ORDERS = pl.DataFrame({"ts": [1], "shop": ["kiel"], "price": [5], "n": [1], "tags": [[1]]})
PAYMENTS = pl.DataFrame({"ts": [1], "shop": ["kiel"], "paid": [5]})


def message(query: str, **tables: Any) -> str:
    with pytest.raises(ev.PlanError) as rejected:
        ev.sql(query).local(tables or {"orders": ORDERS})
    return str(rejected.value)


def test_a_mistake_is_shown_with_its_line_and_a_caret() -> None:
    query = (
        "SELECT shop,\n       SUM(prcie) AS total\nFROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY 1"
    )
    assert message(query) == (
        "There is no column 'prcie' in 'orders'. Did you mean 'price'?\n"
        "line 2, column 12:\n"
        "           SUM(prcie) AS total\n"
        "               ^^^^^"
    )


def test_what_cannot_be_read_is_shown_in_the_same_way() -> None:
    assert message("SELECT shop\nFROM orders\nGROUP BYE shop") == (
        "The query cannot be read: 'BYE' has no place here. Did you mean GROUP BY?\n"
        "line 3, column 7:\n    GROUP BYE shop\n          ^^^"
    )


def windowed(select: str = "COUNT(*) AS n", rest: str = "", table: str = "orders") -> str:
    return f"SELECT {select} FROM TUMBLE({table}, DESCRIPTOR(ts), INTERVAL '1' MINUTE) {rest}"


FILTERED = windowed("shop, window_start, COUNT(*) AS n", "GROUP BY 1, 2 HAVING COUNT(*) > 5")

# The query, the words under the caret, and what the message says.
MISTAKES: list[tuple[str, str, str]] = [
    (windowed(table="ordres"), "ordres", "Did you mean 'orders'?"),
    ("SELECT COUNT(*) FROM TUMBEL(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)", "TUMBEL", "Did you mean 'TUMBLE'?"),
    (windowed("x.shop", "AS o GROUP BY x.shop"), "x.shop", "There is no table 'x' in this FROM."),
    (windowed("shop, COUNT(*)"), "shop", "neither in GROUP BY nor inside an aggregate"),
    (windowed(rest="WHERE n = price = 1"), "n = price = 1", "Write (a = b) = c"),
    (windowed(rest="WHERE n < price IN (1)"), "n < price IN (1", "Write (a = b) = c"),
    (windowed(rest="WHERE shop LIKE 'a!b' ESCAPE '!'"), "shop LIKE 'a!b' ESCAPE '!'", "'!' escapes %, _ and itself"),
    (
        f"SELECT COUNT(*) AS n FROM ({FILTERED}) GROUP BY window_start",
        FILTERED.removeprefix("SELECT "),
        "without HAVING or WHERE",
    ),
    (
        f"CREATE STREAM orders WATERMARK FOR ts AS ts IDLE TIMEOUT -INTERVAL '5' SECOND; {windowed()}",
        "WATERMARK",
        "must not be negative",
    ),
    (
        f"CREATE STREAM orders WATERMARK FOR ts AS ts TIMEOUT -'5' SECOND; {windowed()}",
        "-",
        "a length behind TIMEOUT is expected",
    ),
    (windowed("SUM(n ^ 2) AS x"), "n ^ 2", "Write POWER(x, y)"),
    (windowed(rest="GROUP BY 3"), "3", "SELECT has 1 columns"),
    (windowed(rest="EMITT ON WINDOW CLOSE"), "ON", "cannot be read"),
    (windowed(rest="GROUP BY shop EMITT ON WINDOW CLOSE"), "EMITT", "Did you mean EMIT?"),
    (windowed(rest="EMIT ON WINDOW CLOSED"), "ON", "Did you mean ON WINDOW CLOSE?"),
    (windowed(rest="EMIT ERLY ON UPDATE"), "ERLY", "Did you mean EARLY?"),
    (windowed(rest="EMIT EARLY SOON RETRACTING"), "SOON", "ON UPDATE"),
    (windowed(rest="EMIT EARLY EVERY INTERVAL '5' SCEOND RETRACTING"), "EVERY", "Did you mean 'second'?"),
    (windowed(rest="EMIT WHEN ANY_OFF(ON_UPDATE()) RETRACTING"), "ANY_OFF", "Did you mean 'ANY_OF'?"),
    (windowed(rest="EMIT WHEN ON UPDATE EARLY ON UPDATE RETRACTING"), "ON", "EMIT WHEN … is the whole trigger"),
    (windowed(rest="EMIT ONLY UPDATED"), "ONLY", "Write SKIP UNCHANGED"),
    (windowed(rest="EMIT AT EARLIEST"), "AT", "Write OUTPUT TIME END, EARLIEST or LATEST"),
    (windowed(rest="EMIT OUTPUT TIME FIRST"), "FIRST", "OUTPUT TIME END, EARLIEST or LATEST is expected"),
    (windowed(rest="EMIT SKIP UNCHANGD"), "SKIP", "Did you mean SKIP UNCHANGED?"),
    (windowed(rest="EMIT RETRACTING DISCARDING"), "", "is repeated"),
    (windowed("SUM(price, 3)"), "SUM", "Write SUM(column)"),
    (windowed("QUANTILE(price)"), "QUANTILE", "QUANTILE(column, 0.95)"),
    (windowed("QUANTILE(price, 7)"), "QUANTILE", "7"),
    (windowed("TOP_N(price, n)"), "n", "must be a number"),
    (windowed("FOLD(price)"), "FOLD", "ev.fold"),
    (windowed("SUM(DISTINCT price)"), "SUM", "COUNT, MIN, MAX and ARRAY_AGG take DISTINCT"),
    (windowed("SUM(MAX(price))"), "MAX", "An aggregate inside another"),
    (windowed("COUNT(*) AS x, SUM(price) AS x"), "SUM", "Two columns are named 'x'"),
    (windowed("shop AS diff", "GROUP BY shop"), "shop", "Choose another name with AS"),
    (windowed("shop AS pane_index", "GROUP BY shop"), "shop", "Choose another name with AS"),
    (f"SELECT n AS diff FROM ({windowed()})", "n", "Choose another name with AS"),
    (f"SELECT m FROM ({windowed()})", "m", "There is no column 'm' in 'the subquery'"),
    (windowed("COUNT(*) AS window_end"), "COUNT", "Choose another name"),
    (windowed(rest="WHERE SUM(price) > 3"), "SUM", "Use HAVING"),
    (windowed(rest="WHERE window_start > 3"), "window_start", "Use HAVING"),
    (
        "SELECT COUNT(*) FROM TUMBLE(orders, DESCRIPTOR(ts))",
        "TUMBLE",
        "TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
    ),
    ("SELECT COUNT(*) FROM TUMBLE(orders, DESCRIPTOR(ts), 5 minutes, size => 6 minutes)", "size", "cannot be called"),
    ("SELECT COUNT(*) FROM TUMBLE(orders, DESCRIPTOR(ts), 5)", "5", "INTERVAL '30' SECOND"),
    ("SELECT COUNT(*) FROM TUMBLE(orders, DESCRIPTOR(ts), siz => INTERVAL '1' HOUR)", "siz", "Did you mean 'size'?"),
    ("SELECT COUNT(*) FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MONTH)", "TUMBLE", "calendar"),
    ("SELECT COUNT(*) FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUET)", "TUMBLE", "Did you mean 'minute'?"),
    ("SELECT COUNT(*) FROM ROWS_WINDOW(orders, DESCRIPTOR(ts), 0)", "ROWS_WINDOW", "0"),
    ("SELECT COUNT(*) FROM orders", "orders", "CREATE STREAM orders WATERMARK FOR"),
    ("SELECT window_start, COUNT(*) FROM orders GROUP BY shop", "window_start", "no windows here"),
    ("SELECT shop FROM orders WHERE price > 3", "shop FROM orders WHERE price > 3", "spark.sql()"),
    ("SELECT shop FROM orders EMIT ON WINDOW CLOSE", "EMIT", "neither groups nor joins"),
    (windowed("SUMM(price)"), "SUMM", "Did you mean 'SUM'?"),
    (windowed("CUONT(*)"), "CUONT", "Did you mean COUNT?"),
    (windowed("MDEIAN(price) FILTER (WHERE price > 1)"), "MDEIAN", "Did you mean MEDIAN?"),
    (windowed("STDDEV_POP(price)"), "STDDEV_POP", "STDDEV(x) is that of a sample"),
    (windowed("STRING_AGG(shop, ',')"), "STRING_AGG", "ARRAY_AGG(x)"),
    (windowed("BOOL_AND(price > 1)"), "BOOL_AND", "COUNT(*) FILTER (WHERE NOT x) = 0"),
    (windowed("COUNT_IF(price > 1)"), "COUNT_IF", "COUNT(*) FILTER (WHERE x)"),
    (windowed("PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY price)"), "PERCENTILE_DISC", "between two rows"),
    (windowed("HLL(price)"), "HLL", "HLL is not supported. There are COUNT"),
    (windowed("LAG(price)"), "LAG", "FIRST(x) or LAST(x)"),
    (windowed("REDUCE(price)"), "REDUCE", "ev.reduce"),
    (windowed("SUM(*)"), "SUM", "Write SUM(column)"),
    (windowed("ARRAY_AGG(price ORDER BY price DESC)"), "ARRAY_AGG", "SORT(column, descending => TRUE)"),
    (windowed("SUM(price) IGNORE NULLS"), "SUM", "FIRST and LAST do"),
    (windowed("SUM(shop)"), "SUM", "or use ARRAY_AGG(shop)"),
    (windowed("window_strt, COUNT(*)"), "window_strt", "Did you mean 'window_start'?"),
    (windowed("pane_timming, COUNT(*)"), "pane_timming", "Did you mean 'pane_timing'?"),
    (windowed("*"), "*", "SELECT * of windows is not supported"),
    (windowed("CURRENT_TIMESTAMP AS x, COUNT(*)"), "CURRENT_TIMESTAMP", "Use emitted_at"),
    (f"SELECT n, NOW() AS x FROM ({windowed()})", "NOW", "Use emitted_at"),
    (windowed(rest="HAVING CURRENT_TIMESTAMP > window_end"), "CURRENT_TIMESTAMP", "Use emitted_at"),
    (windowed(rest="GROUP BY ()"), "()", "Leave GROUP BY out"),
    (windowed(rest="GRUOP BY shop"), "BY", "Did you mean GROUP BY?"),
    (windowed(rest="WHERE price"), "price", "neither true nor false"),
    (windowed(rest="WHERE NULL"), "NULL", "neither true nor false"),
    (windowed(rest="HAVING n"), "n", "neither true nor false"),
    (windowed(rest="WHERE nofunc(price) > 1"), "nofunc", "cannot be computed in this process: unsupported function"),
    (windowed(rest="WHERE shop SIMILAR TO 'a'"), "shop SIMILAR TO 'a'", "REGEXP_LIKE"),
    (windowed(rest="WHERE TO_CHAR(ts, 'YYYY') = '2026'"), "TO_CHAR", "EXTRACT"),
    (windowed(rest="WHERE LOG(price) > 1"), "LOG", "LOG10(x)"),
    (windowed(rest="WHERE INITCAP(shop) = 'Kiel'"), "INITCAP", "Use UPPER or LOWER"),
    (windowed(rest="WHERE SUBSTRING(shop, -2) = 'el'"), "SUBSTRING", "RIGHT(text, 2)"),
    (windowed(rest="WHERE SUBSTR(shop, 0, 2) = 'k'"), "SUBSTR", "Places begin with 1"),
    (windowed(rest="WHERE DATE_ADD(ts, 1) > ts"), "DATE_ADD", "INTERVAL '1' DAY"),
    (windowed(rest="WHERE EXTRACT(CENTURY FROM ts) > 1"), "EXTRACT", "ISODOW"),
    (windowed(rest="WHERE ROUND(price, n) > 1"), "ROUND", "ROUND(x, 2)"),
    (windowed(rest="WHERE TRUNC(price, 2) > 1"), "TRUNC", "ROUND(x, 2)"),
    (windowed(rest="WHERE RAND() > 0.5"), "RAND", "must give the same"),
    (windowed(rest="WHERE tags[n] = 1"), "tags[n]", "list[0]"),
    (windowed(rest="WHERE CAST(price AS TIMESTAMP) > ts"), "CAST(price AS TIMESTAMP)", "a number is no instant"),
    (windowed(rest="WHERE CAST(7 AS TIMESTAMP) > ts"), "CAST(7 AS TIMESTAMP)", "a number is no instant"),
    (windowed(rest="WHERE ts > TIMESTAMP 'today'"), "TIMESTAMP 'today'", "is no instant"),
    ("SELECT COUNT(*) FROM orders GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)", "TUMBLE", "Write FROM TUMBLE("),
    ("SELECT TUMBLE_START(ts, INTERVAL '1' HOUR), COUNT(*) FROM orders", "TUMBLE_START", "Write window_start"),
    (
        "SELECT COUNT(*) FROM TUMBLE(orders, DESCRIPTOR(ts), DESCRIPTOR(price), INTERVAL '1' MINUTE)",
        "DESCRIPTOR",
        "one time",
    ),
    ("SELECT COUNT(*) FROM TUMBLE(orders, DESCRIPTOR(ts, price), INTERVAL '1' MINUTE)", ",", "one time"),
    (
        "SELECT COUNT(*) FROM SESSION(TABLE orders PARTITION BY shop, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
        "PARTITION BY",
        "the key is what the query groups by",
    ),
    ("SELECT COUNT(*) FROM SESSION(orders, DESCRIPTOR(ts), pirce)", "pirce", "Did you mean 'price'?"),
    ("SELECT COUNT(*) FROM ROWS_WINDOW(orders, DESCRIPTOR(ts), 5, by => m)", "m", "There is no column 'm'"),
    ("SELECT COUNT(*) FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '-1' HOUR + INTERVAL '1' DAY)", "'-1'", "length"),
    (windowed(rest="EMIT WHEN AFTER 5 ROWS ACCUMULATING"), "EMIT", "MAY LOSE DATA in EMIT"),
    (windowed(rest="EMIT ALLOWED LATENESS 5 ROWS"), "EMIT", "ALLOWED LATENESS INTERVAL '1' HOUR"),
    ("SELEC 1", "1", "Did you mean SELECT?"),
    ("SELECT 'ab", "b", "is not closed"),
    ("SELECT COUNT(*) FROM TUMBLE()", ")", "Expected table name but found )"),
]


@pytest.mark.parametrize(("query", "under", "hint"), MISTAKES, ids=[query[:90] for query, _, _ in MISTAKES])
def test_an_error_shows_its_position_and_suggests_a_fix(query: str, under: str, hint: str) -> None:
    problem = message(query)
    assert hint in problem
    *_, line, caret = problem.split("\n")
    start = caret.index("^")
    pointed = line[start : start + caret.count("^")]
    assert pointed.startswith(under) if under else pointed


STREAMS: list[tuple[str, str, str]] = [
    ("WATERMARK FOR ts AS ts IDEL TIMEOUT INTERVAL '1' MINUTE", "IDEL", "Did you mean IDLE TIMEOUT?"),
    ("WATERMARK FOR ts AS ts PER shup", "shup", "Did you mean 'shop'?"),
    ("WATERMARK FOR ts PUNCTUATED BY 5", "5", "a column is expected here"),
    ("WATERMARK FOR ts PUNCTUATED BY saef", "saef", "There is no column 'saef' in 'orders'"),
    ("(5 INT, shop STRING) WATERMARK FOR ts AS ts", "5", "a column with its type"),
    ("(ts TIMESTAMP, WATERMARK FOR ts AS ts)", "WATERMARK", "follows the columns"),
    ("(ts, shup) WATERMARK FOR ts AS ts", "shup", "Did you mean 'shop'?"),
    ("(ts INT, shup STRING) WATERMARK FOR ts AS ts", "shup", "Did you mean 'shop'?"),
    ("WATERMARK FOR ts AS ts PER shop PER n", "n", "is repeated"),
    ("LIMIT STATE 9 ROWS LIMIT STATE 5 ROWS", "5", "is repeated"),
    ("KEEP INTERVAL '1' HOUR KEEP INTERVAL '1' DAY", "INTERVAL '1' DAY", "is repeated"),
    ("KEEP long", "long", "KEEP INTERVAL '1' HOUR"),
    ("WATERMARK FOR ts AS ts PRE shop", "PRE", "There are: WATERMARK FOR"),
    ("WATERMARK FOR ts AS price * 2", "price * 2", "AS ts - INTERVAL '30' SECOND"),
    ("WATERMARK FOR ts AS price - INTERVAL '1' SECOND", "price - INTERVAL '1", "AS ts - INTERVAL '30' SECOND"),
    ("WATERMARK FOR ts AS ts TIMEOUT INTERVAL '1' HOUR", "WATERMARK", "origins_timeout"),
    ("WATERMARK FOR ts AS NOTED BY 'nowhere'", "WATERMARK", "nowhere"),
    ("WATERMARK FOR ts AS ts WATERMARK FOR ts AS ts", "WATERMARK", "is repeated"),
    ("WATERMARK FOR ts AS ts IDLE TIMEOUT soon", "soon", "a length behind IDLE TIMEOUT"),
    ("WATERMARK FOR ts AS ts LIMIT STATE much", "much", "LIMIT STATE 1000 ROWS"),
    ("WATERMARK FOR price AS price", "TUMBLE", "add WATERMARK FOR ts to CREATE STREAM orders"),
]


@pytest.mark.parametrize(("clause", "under", "hint"), STREAMS, ids=[clause for clause, _, _ in STREAMS])
def test_a_mistake_in_a_declaration_is_pointed_at(clause: str, under: str, hint: str) -> None:
    problem = message(f"CREATE STREAM orders {clause};\n{windowed()}")
    assert hint in problem
    *_, line, caret = problem.split("\n")
    assert line[caret.index("^") :].startswith(under)


def test_a_filter_must_not_drop_rows_that_the_watermark_counts() -> None:
    problem = message(f"CREATE STREAM orders WATERMARK FOR ts AS ts SEQUENCE n; {windowed(rest='WHERE price > 3')}")
    assert "the watermark counts" in problem and "FILTER (WHERE …)" in problem


def test_a_column_that_the_watermark_reads_is_not_computed_anew() -> None:
    inner = "(SELECT ts, UPPER(shop) AS shop FROM orders)"
    problem = message(f"CREATE STREAM orders WATERMARK FOR ts AS ts PER shop; {windowed(table=inner)}")
    assert "reads 'shop'" in problem


NEAR = "p.ts BETWEEN o.ts AND o.ts + INTERVAL '1' HOUR"
JOINS: list[tuple[str, str]] = [
    ("SELECT * FROM orders o JOIN payments p ON o.shop = p.shop", "p.ts BETWEEN o.ts AND o.ts + INTERVAL '1' HOUR"),
    ("SELECT * FROM orders o JOIN payments p ON p.ts BETWEEN o.ts AND o.ts + INTERVAL '1' HOUR", "ON o.id = p.id"),
    ("SELECT * FROM orders o JOIN payments p OVER (ROWS 3 PRECEDING) ON o.shop = p.shop", "KEEP INTERVAL '1' HOUR"),
    (
        "SELECT * FROM orders OVER (ROWS 3 PRECEDING) JOIN payments p ON orders.shop = p.shop",
        "OVER follows the joined",
    ),
    ("SELECT * FROM orders o JOIN payments p OVER (PARTITION BY x) ON o.shop = p.shop", "ROWS or RANGE"),
    (
        "SELECT * FROM orders o JOIN payments p OVER (ORDER BY paid RANGE INTERVAL '1' HOUR PRECEDING) USING (shop)",
        "event time",
    ),
    ("SELECT ts FROM orders o JOIN payments p OVER (RANGE INTERVAL '1' HOUR PRECEDING) USING (shop)", "o.ts"),
    ("SELECT piad FROM orders o JOIN payments p OVER (RANGE INTERVAL '1' HOUR PRECEDING) USING (shop)", "'paid'"),
    (
        "SELECT q.paid FROM orders o JOIN payments p OVER (RANGE INTERVAL '1' HOUR PRECEDING) USING (shop)",
        "no table 'q'",
    ),
    ("SELECT * FROM orders o JOIN payments p ON o.shop = p.shop JOIN orders q ON q.shop = p.shop", "third table"),
    ("SELECT * FROM orders o CROSS JOIN payments p", "CROSS JOIN is not supported"),
    ("SELECT * FROM orders o, payments p WHERE o.shop = p.shop", "A join without ON is not supported"),
    ("SELECT * FROM orders o LEFT ANTI JOIN payments p ON o.shop = p.shop", "ANTI JOIN is not supported"),
    (
        "SELECT * FROM orders JOIN payments OVER (RANGE INTERVAL '1' HOUR PRECEDING) USING (shop) EMIT ON WINDOW CLOSE",
        "each pair is emitted once",
    ),
    (
        "SELECT * FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' HOUR) o JOIN payments p ON o.shop = p.shop",
        "'p' has none",
    ),
    (
        "SELECT * FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' HOUR) o"
        " JOIN TUMBLE(payments, DESCRIPTOR(ts), INTERVAL '2' HOUR) p USING (shop)",
        "different windows",
    ),
    (
        "SELECT * FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' HOUR) o"
        " JOIN TUMBLE(payments, DESCRIPTOR(ts), INTERVAL '1' HOUR) p ON o.shop = p.shop",
        "a.window_start = b.window_start",
    ),
    (
        "SELECT * FROM TUMBLE(orders, DESCRIPTOR(ts), 1 hour) o JOIN TUMBLE(payments, DESCRIPTOR(ts), 1 hour) p"
        " ON o.shop = p.shop AND o.window_start = p.window_start EMIT EARLY ON UPDATE RETRACTING SKIP UNCHANGED",
        "SKIP UNCHANGED",
    ),
    ("SELECT COUNT(*) FROM orders o JOIN payments p ON o.shop = p.shop GROUP BY o.shop", "GROUP BY with JOIN"),
    (
        "SELECT * FROM orders o JOIN payments p OVER (ORDER BY o.ts RANGE INTERVAL '1' HOUR PRECEDING) USING (shop)",
        "no table 'o'",
    ),
    (
        "SELECT * FROM orders o JOIN payments p OVER (ORDER BY ts RANGE 20 PRECEDING) USING (shop)",
        "a length, INTERVAL '2' MINUTE, is expected here",
    ),
    (f"SELECT * FROM orders o JOIN payments p ON o.shop = p.shop AND {NEAR} AND price", "It must give a boolean"),
    (f"SELECT * FROM orders o JOIN payments p ON o.shop = p.shop AND {NEAR} AND o.tags > o.shop", "cannot be computed"),
    (
        "SELECT * FROM orders o JOIN payments p ON o.shop = p.shop AND p.ts BETWEEN o.ts + INTERVAL '1' HOUR AND o.ts",
        "The interval of the bounds in ON is empty",
    ),
]
DECLARED = "CREATE STREAM orders WATERMARK FOR ts AS ts; CREATE STREAM payments WATERMARK FOR ts AS ts;\n"


@pytest.mark.parametrize(("query", "hint"), JOINS, ids=[query[:100] for query, _ in JOINS])
def test_an_error_in_a_join_suggests_a_fix(query: str, hint: str) -> None:
    problem = message(DECLARED + query, orders=ORDERS, payments=PAYMENTS)
    assert hint in problem and "line 2, column" in problem


def test_a_query_is_a_text() -> None:
    with pytest.raises(ev.PlanError, match="The query is NoneType"):
        ev.sql(None)  # type: ignore[arg-type]


def test_a_text_that_engines_cannot_write_leaves_no_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    message(windowed("SUM(price)", "WHERE TO_CHAR(ts, 'YYYY') = '2026'"))
    assert not caplog.records


def test_a_join_needs_to_know_whose_a_column_is() -> None:
    with pytest.raises(ev.PlanError, match=r"Write orders\.price, or declare the columns"):
        ev.sql(f"{DECLARED} SELECT * FROM orders JOIN payments ON price = paid").explain()


def test_a_chain_passes_on_what_the_first_query_computed() -> None:
    inner = windowed("window_start, COUNT(*) + 1 AS n", "GROUP BY window_start")
    problem = message(f"SELECT window_start, MAX(n) FROM ({inner}) GROUP BY window_start")
    assert "without HAVING or WHERE" in problem


AGAIN = "EMIT EARLY ON UPDATE"
INHERITED = "SELECT SUM(n) FROM ({inner}) GROUP BY window_start"
OWN = "SELECT SUM(n) FROM TUMBLE(({inner}), DESCRIPTOR(window_time), INTERVAL '1' HOUR)"


@pytest.mark.parametrize(
    ("outer", "emit"),
    [
        (INHERITED, f"{AGAIN} ACCUMULATING"),
        (INHERITED, "EMIT ALLOWED LATENESS 1 hour ACCUMULATING"),
        (OWN, f"{AGAIN} ACCUMULATING"),
    ],
)
def test_panes_that_are_emitted_again_are_not_counted_again(outer: str, emit: str) -> None:
    inner = windowed("window_start, COUNT(*) AS n", f"GROUP BY window_start {emit}")
    assert "would count them twice" in message(outer.format(inner=inner))


@pytest.mark.parametrize("emit", ["", f"{AGAIN} RETRACTING", f"{AGAIN} DISCARDING", "EMIT ON WINDOW CLOSE"])
def test_panes_that_are_emitted_once_or_retracted_can_be_counted(emit: str) -> None:
    inner = windowed("window_start, COUNT(*) AS n", f"GROUP BY window_start {emit}")
    outer = INHERITED.format(inner=inner)
    outer += " EMIT RETRACTING" if "RETRACTING" in emit else ""
    assert ev.sql(outer).local(ORDERS).panes["sum_n"][0] == 1


def test_windows_of_their_own_count_retracted_panes_once() -> None:
    inner = windowed("window_start, COUNT(*) AS n", f"GROUP BY window_start {AGAIN} RETRACTING")
    panes = ev.sql(OWN.format(inner=inner)).local([ORDERS, ORDERS]).panes
    assert panes["sum_n"].to_list() == [2 * ORDERS.height]


def test_sessions_do_not_follow_retracted_panes() -> None:
    inner = windowed("window_start, COUNT(*) AS n", f"GROUP BY window_start {AGAIN} RETRACTING")
    outer = f"SELECT SUM(n) FROM SESSION(({inner}), DESCRIPTOR(window_time), INTERVAL '1' HOUR)"
    assert "cannot process retracted rows" in message(outer)


@pytest.mark.parametrize("field", ["pane_is_last", "emitted_at"])
def test_panes_are_not_filtered_by_what_a_retraction_does_not_repeat(field: str) -> None:
    assert f"{field} is not repeated" in message(windowed(rest=f"HAVING {field} = 1 EMIT RETRACTING"))


TABLES: list[tuple[dict[str, Any], str]] = [
    ({}, "There is no table 'orders'"),
    ({"orders": ORDERS, "payments": PAYMENTS}, "The table 'payments' is given, but the query does not read it"),
    ({"orders": "orders.parquet"}, "The table 'orders' is a str"),
    ({"order": ORDERS}, "Did you mean 'order'?"),
]


@pytest.mark.parametrize(("tables", "hint"), TABLES)
def test_the_tables_of_a_query_are_given_by_name(tables: dict[str, Any], hint: str) -> None:
    with pytest.raises(ev.PlanError) as rejected:
        ev.sql(windowed()).local(tables)
    assert hint in str(rejected.value)


def test_what_polars_does_not_know_is_rejected_with_its_place() -> None:
    problem = message(windowed("LEVENSHTEIN(shop, 'oslo') AS d", "GROUP BY shop"))
    assert "cannot be computed in this process" in problem and "line 1, column" in problem


def test_without_the_parser_everything_but_sql_works() -> None:
    code = """
import sys
sys.modules["sqlglot"] = None
from eventide import *
import eventide as ev
try:
    ev.sql("SELECT 1")
except ev.PlanError as rejected:
    sys.exit("pyspark-eventide[sql]" not in str(rejected))
sys.exit(2)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


VALID = """
    CREATE STREAM orders ( ts TIMESTAMP , shop STRING )
    WATERMARK FOR ts AS ts - INTERVAL '30' SECOND PER shop IDLE TIMEOUT INTERVAL '2' MINUTE ;
    SELECT shop , window_start , COUNT ( * ) AS n , SUM ( price * 2 ) FILTER ( WHERE price > 1 ) AS s
    FROM TUMBLE ( TABLE orders , DESCRIPTOR ( ts ) , INTERVAL '1' MINUTE ) AS o WHERE price < 100
    GROUP BY shop , window_start HAVING n > 1
    EMIT EARLY EVERY INTERVAL '10' SECOND LATE ON UPDATE ALLOWED LATENESS INTERVAL '1' HOUR RETRACTING
"""
JOINED = """
    SELECT o.id , s.cost FROM orders o LEFT JOIN ships AS s
    ON o.id = s.id AND s.ts BETWEEN o.ts AND o.ts + INTERVAL '1' HOUR WHERE o.id IS NOT NULL
"""
PRECEDED = """
    CREATE STREAM orders WATERMARK FOR ts AS ts ; SELECT o.id , s.cost FROM orders o
    LEFT JOIN ships AS s OVER ( ORDER BY ts RANGE INTERVAL '2' MINUTE PRECEDING ) ON o.id = s.id WHERE o.id IS NOT NULL
"""
WORDS = [
    "5",
    "'x'",
    "*",
    "(",
    ")",
    ",",
    "=>",
    "NULL",
    "SELECT",
    "OVER",
    "EMIT",
    "DISTINCT",
    "JOIN",
    "ROWS",
    "NEVER",
    "-",
]
EDITS = st.lists(
    st.tuples(st.sampled_from(["drop", "swap", "twice", "word"]), st.integers(0, 200), st.integers(0, 200)),
    min_size=1,
    max_size=3,
)


@given(st.sampled_from([VALID, JOINED, PRECEDED]), EDITS)
def test_a_text_that_is_almost_right_is_run_or_rejected(text: str, edits: list[tuple[str, int, int]]) -> None:
    words = text.split()
    for edit, wrong, other in edits:
        i, j = wrong % len(words), other % len(words)
        if edit == "drop":
            words.pop(i)
        elif edit == "word":
            words.insert(j, WORDS[wrong % len(WORDS)])
        elif edit == "twice":
            words.insert(j, words[i])
        else:
            words[i], words[j] = words[j], words[i]
    try:
        ev.sql(" ".join(words))
    except ev.PlanError as rejected:
        assert "line 1, column " in str(rejected)
