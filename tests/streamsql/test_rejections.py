"""SQL that streams do not have is rejected by its name."""

from __future__ import annotations

import pytest

import eventide as ev

TUMBLE = "TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"

REJECTED = {
    "ORDER BY": f"SELECT shop FROM {TUMBLE} GROUP BY shop ORDER BY shop",
    "LIMIT": f"SELECT shop FROM {TUMBLE} GROUP BY shop LIMIT 3",
    "OFFSET": f"SELECT shop FROM {TUMBLE} GROUP BY shop OFFSET 3",
    "QUALIFY": f"SELECT shop FROM {TUMBLE} GROUP BY shop QUALIFY shop > 1",
    "A window function": f"SELECT ROW_NUMBER() OVER (ORDER BY shop) FROM {TUMBLE} GROUP BY shop",
    "A subquery in an expression": f"SELECT COUNT(*) FROM {TUMBLE} WHERE shop IN (SELECT shop FROM others)",
    "ROLLUP": f"SELECT COUNT(*) FROM {TUMBLE} GROUP BY ROLLUP (shop)",
    "CUBE": f"SELECT COUNT(*) FROM {TUMBLE} GROUP BY CUBE (shop)",
    "GROUPING SETS": f"SELECT COUNT(*) FROM {TUMBLE} GROUP BY GROUPING SETS ((shop), ())",
    "GROUP BY ALL": f"SELECT COUNT(*) FROM {TUMBLE} GROUP BY ALL",
    "DISTINCT ON": f"SELECT DISTINCT ON (shop) shop FROM {TUMBLE}",
    "* EXCEPT": f"SELECT COUNT(*) FROM {TUMBLE.replace('orders', '(SELECT * EXCEPT (shop) FROM a)')}",
    "An alias with columns": f"SELECT COUNT(*) FROM {TUMBLE} AS t(a, b)",
    "A table as of some time": "SELECT COUNT(*) FROM orders FOR SYSTEM_TIME AS OF now GROUP BY shop",
    "FOR UPDATE": f"SELECT COUNT(*) FROM {TUMBLE} FOR UPDATE",
    "PIVOT": "SELECT COUNT(*) FROM orders PIVOT (SUM(a) FOR b IN ('x')) GROUP BY shop",
    "SELECT * with GROUP BY": f"SELECT * FROM {TUMBLE} GROUP BY shop",
    "SELECT without FROM": "SELECT 1",
    "UNION": f"SELECT COUNT(*) FROM {TUMBLE.replace('orders', '(SELECT * FROM a UNION SELECT * FROM b)')}",
    "UNION ALL of results": f"SELECT COUNT(*) FROM {TUMBLE} UNION ALL SELECT COUNT(*) FROM {TUMBLE}",
    "EXCEPT": "SELECT * FROM a EXCEPT SELECT * FROM b",
    "A join in brackets": "SELECT shop, COUNT(*) FROM (orders a JOIN orders b ON a.shop = b.shop) GROUP BY shop",
    "VALUES": "SELECT COUNT(*) FROM (VALUES (1)) AS t GROUP BY x",
    "WITH RECURSIVE": f"WITH RECURSIVE x AS (SELECT * FROM x) SELECT COUNT(*) FROM {TUMBLE}",
    "SELECT DISTINCT of rows": f"SELECT COUNT(*) FROM {TUMBLE.replace('orders', '(SELECT DISTINCT ts FROM a)')}",
    "DISTINCT with GROUP BY": f"SELECT DISTINCT shop, COUNT(*) FROM {TUMBLE} GROUP BY shop",
    "TABLESAMPLE": "SELECT COUNT(*) FROM orders TABLESAMPLE (10 PERCENT) GROUP BY shop",
    "INSERT": f"INSERT INTO t SELECT COUNT(*) FROM {TUMBLE}",
    "CREATE of anything but STREAM": "CREATE TABLE t (a INT)",
    "DROP": "DROP TABLE t",
    "DELETE": "DELETE FROM t WHERE a = 1",
    "UPDATE": "UPDATE t SET a = 1",
    "VACUUM as a statement": "VACUUM t",
    "A parameter": f"SELECT COUNT(*) FROM {TUMBLE} WHERE price > :least",
    "A filter or a computed column between two aggregates": (
        f"SELECT SUM(n * 2) FROM (SELECT window_start, COUNT(*) AS n FROM {TUMBLE} GROUP BY window_start)"
        " GROUP BY window_start"
    ),
}


# Where it is not the first column of SELECT that the caret is under.
UNDER = {
    "ORDER BY": "shop",
    "LIMIT": "3",
    "OFFSET": "3",
    "QUALIFY": "shop > 1",
    "A window function": "ROW_NUMBER() OVER (ORDER BY shop)",
    "A subquery in an expression": "shop FROM others",
    "ROLLUP": "shop",
    "CUBE": "shop",
    "GROUPING SETS": "(shop)",
    "DISTINCT ON": "shop",
    "* EXCEPT": "shop",
    "An alias with columns": "a",
    "A table as of some time": "now",
    "PIVOT": "SUM(a) FOR b",
    "SELECT * with GROUP BY": "*",
    "SELECT without FROM": "1",
    "UNION": "* FROM a UNION",
    "EXCEPT": "* FROM a EXCEPT",
    "VALUES": "1",
    "WITH RECURSIVE": "x AS (SELECT",
    "SELECT DISTINCT of rows": "ts FROM a",
    "DISTINCT with GROUP BY": "shop, COUNT(*)",
    "TABLESAMPLE": "10",
    "INSERT": "t SELECT",
    "CREATE of anything but STREAM": "t (a",
    "DROP": "t",
    "DELETE": "t WHERE",
    "UPDATE": "t SET",
    "VACUUM as a statement": "t",
    "A parameter": ":least",
    "A filter or a computed column between two aggregates": "SUM(n * 2)",
    "A join in brackets": "orders",
}


@pytest.mark.parametrize(("what", "query"), REJECTED.items(), ids=list(REJECTED))
def test_unsupported_sql_is_rejected_with_its_name_and_position(what: str, query: str) -> None:
    with pytest.raises(ev.PlanError) as rejected:
        ev.sql(query)
    message, place, line, caret = str(rejected.value).split("\n")
    assert f"{what} is not supported" in message.replace(" (… OVER …)", "")
    assert line[caret.index("^") :].startswith(UNDER.get(what, "COUNT(*)"))
    assert place == f"line 1, column {caret.index('^') - 3}:"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "has no SELECT"),
        ("CREATE STREAM a;", "has no SELECT"),
        (f"SELECT COUNT(*) FROM {TUMBLE}; SELECT 2", "second query"),
        ("CREATE STREAM a; CREATE STREAM A; SELECT 1", "declared before"),
        ("SELECT 'x", "cannot be read"),
    ],
)
def test_a_text_has_declarations_and_one_query(query: str, expected: str) -> None:
    with pytest.raises(ev.PlanError, match=expected):
        ev.sql(query)


SPARK_WINDOWS = {
    "window(ts, '1 minute')": "TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1 minute')",
    "WINDOW(orders.ts, '1 minute', '1 minute', '5 seconds')": (
        "TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1 minute', INTERVAL '5 seconds')"
    ),
    "window(ts, '10 minutes', '1 minute')": ("HOP(orders, DESCRIPTOR(ts), INTERVAL '1 minute', INTERVAL '10 minutes')"),
    "session_window(ts, '5 minutes')": "SESSION(orders, DESCRIPTOR(ts), INTERVAL '5 minutes')",
}


@pytest.mark.parametrize("selected", ["", "{window} AS w, ", "window.start, "])
@pytest.mark.parametrize(("window", "instead"), SPARK_WINDOWS.items(), ids=list(SPARK_WINDOWS))
def test_windows_of_spark_are_answered_with_the_query_to_write(window: str, instead: str, selected: str) -> None:
    items = selected.format(window=window)
    with pytest.raises(ev.PlanError, match=r"replace window\.start and window\.end") as rejected:
        ev.sql(f"SELECT {items}shop, COUNT(*) AS n FROM orders GROUP BY {window}, shop")
    assert f"Write FROM {instead} and GROUP BY window_start, window_end." in str(rejected.value)
    ev.sql(f"SELECT window_start, shop, COUNT(*) AS n FROM {instead} GROUP BY window_start, window_end, shop")


def test_a_filter_of_a_composite_is_written_in_it() -> None:
    parts = "total => SUM(x)"
    with pytest.raises(ev.PlanError, match=r"COMPOSITE\(total => SUM\(price\) FILTER \(WHERE x > 1\)\)"):
        ev.sql(f"SELECT COMPOSITE({parts}) FILTER (WHERE x > 1) AS c FROM {TUMBLE}")
    ev.sql(f"SELECT COMPOSITE({parts} FILTER (WHERE x > 1)) AS c FROM {TUMBLE}")
