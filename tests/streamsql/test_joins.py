"""What joins give in this process: the pairs, and the rows without a partner."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.streamsql.compiler import compile_query, parse_statements

SECOND = 1_000_000
ORDERS = pl.DataFrame(
    {"ts": [5 * SECOND, 40 * SECOND, 50 * SECOND, 190 * SECOND], "shop": ["kiel", "kiel", "oslo", None]}
).with_columns(price=pl.Series([5, 7, 2, 4]))
PAYMENTS = pl.DataFrame(
    {"ts": [6 * SECOND, 40 * SECOND, 500 * SECOND, 191 * SECOND], "shop": ["kiel", "kiel", "oslo", None]}
).with_columns(paid=pl.Series([5, 7, 9, 1]))
STREAMS = "CREATE STREAM orders WATERMARK FOR ts AS ts; CREATE STREAM payments WATERMARK FOR ts AS ts;"
NEAR = "p.ts BETWEEN o.ts AND o.ts + INTERVAL '8' SECOND"
TUMBLED = "TUMBLE(orders, DESCRIPTOR(ts), 1 minute) o {how} JOIN TUMBLE(payments, DESCRIPTOR(ts), 1 minute) p"


def result(query: str) -> pl.DataFrame:
    panes: pl.DataFrame = ev.sql(f"{STREAMS} {query}").local({"orders": ORDERS, "payments": PAYMENTS}).panes
    return panes.drop("diff")


def rows_of(query: str) -> list[tuple[Any, ...]]:
    return sorted(result(query).rows(), key=repr)


@pytest.mark.parametrize(
    "using",
    [
        "USING (shop, window_start)",
        "USING (window_start, window_end, shop)",
        "ON o.shop = p.shop AND o.window_end = p.window_end",
    ],
)
def test_windows_are_joined_by_their_bounds(using: str) -> None:
    compiled = ev.sql(f"{STREAMS} SELECT price FROM {TUMBLED.format(how='')} {using}").plan
    left, right = (ev.stream(time="ts", key="shop", watermark=ev.ascending()) for _ in range(2))
    assert compiled == ev.window_join(left, right, window=ev.tumbling("1 minute")).plan


def test_a_column_of_rows_may_be_called_window_start() -> None:
    frames = [frame.rename({"shop": "window_start"}) for frame in (ORDERS, PAYMENTS)]
    query = f"{STREAMS} SELECT price, paid FROM orders o JOIN payments p ON o.window_start = p.window_start AND {NEAR}"
    assert sorted(ev.sql(query).local({"orders": frames[0], "payments": frames[1]}).panes.drop("diff").rows()) == [
        (5, 5),
        (7, 7),
    ]


def test_a_key_of_a_row_that_is_not_there_is_null() -> None:
    query = (
        "SELECT o.shop, p.shop AS theirs, price, paid FROM orders o {how} JOIN payments p ON o.shop = p.shop AND "
        + NEAR
    )
    met = [("kiel", "kiel", 5, 5), ("kiel", "kiel", 7, 7)]
    left, right = [("oslo", None, 2, None), (None, None, 4, None)], [(None, "oslo", None, 9), (None, None, None, 1)]
    assert rows_of(query.format(how="LEFT")) == sorted(met + left, key=repr)
    assert rows_of(query.format(how="RIGHT")) == sorted(met + right, key=repr)
    assert rows_of(query.format(how="FULL")) == sorted(met + left + right, key=repr)


def test_a_key_of_another_name_is_no_value_of_the_other_row() -> None:
    query = f"SELECT price, paid FROM orders o FULL JOIN payments p ON price = paid AND {NEAR}"
    assert rows_of(query) == [(2, None), (4, None), (5, 5), (7, 7), (None, 1), (None, 9)]


@pytest.mark.parametrize("columns", ["price, paid, o.shop, p.shop AS shop_right", "*"])
def test_all_columns_of_an_outer_join_have_both_keys(columns: str) -> None:
    query = f"SELECT {columns} FROM orders o FULL JOIN payments p ON price = paid AND {NEAR}"
    rows = result(query).select("price", "paid", "shop", "shop_right").rows()
    assert sorted(rows, key=repr) == [
        *[(2, None, "oslo", None), (4, None, None, None), (5, 5, "kiel", "kiel"), (7, 7, "kiel", "kiel")],
        *[(None, 1, None, None), (None, 9, None, "oslo")],
    ]


def test_a_key_that_both_sides_call_alike_is_that_of_the_row_that_is_there() -> None:
    met = [("kiel", 5, 5), ("kiel", 7, 7)]
    alone = [("oslo", 2, None), (None, 4, None), ("oslo", None, 9), (None, None, 1)]
    for columns in ("shop, price, paid", "*"):
        query = f"SELECT {columns} FROM orders o FULL JOIN payments p ON o.shop = p.shop AND {NEAR}"
        rows = result(query).select("shop", "price", "paid").rows()
        assert sorted(rows, key=repr) == sorted(met + alone, key=repr)


def test_rows_without_a_partner_are_matched_by_their_key() -> None:
    query = f"SELECT price FROM orders o LEFT JOIN payments p ON o.shop = p.shop AND {NEAR} WHERE p.shop"
    assert rows_of(f"{query} IS NULL") == [(2,), (4,)]
    assert rows_of(f"{query} = 'oslo'") == []
    assert rows_of(f"{query} = 'kiel'") == [(5,), (7,)]


def test_windows_without_a_partner_are_matched_by_their_bounds() -> None:
    query = (
        f"SELECT price, paid FROM {TUMBLED.format(how='FULL')} ON o.shop = p.shop AND o.window_start = p.window_start"
    )
    met = [(5, 5), (5, 7), (7, 5), (7, 7)]
    assert rows_of(f"{query} WHERE p.window_start IS NULL") == [(2, None), (4, None)]
    assert rows_of(f"{query} WHERE o.window_end IS NULL") == [(None, 1), (None, 9)]
    assert rows_of(f"{query} WHERE p.shop IS NULL AND price = 2") == [(2, None)]
    assert rows_of(f"{query} WHERE o.window_start = p.window_start") == met
    assert len(rows_of(f"{query} WHERE window_start IS NOT NULL")) == 8


def test_all_columns_can_be_selected_next_to_others() -> None:
    near = f"o.shop = p.shop AND {NEAR}"
    beside = result(f"SELECT *, price + paid AS both FROM orders o JOIN payments p ON {near}")
    assert beside.columns == ["ts", "shop", "price", "ts_right", "paid", "both"]
    assert sorted(beside["both"]) == [10, 14]
    alone = result(f"SELECT * FROM orders o JOIN payments p ON {near}")
    assert beside.select(alone.columns).equals(alone)


def test_all_columns_of_windows_can_be_selected_next_to_others() -> None:
    joined = f"FROM {TUMBLED.format(how='LEFT')} ON o.shop = p.shop AND o.window_start = p.window_start"
    beside, alone = result(f"SELECT *, price + 1 AS more {joined}"), result(f"SELECT * {joined}")
    assert set(beside.columns) == {*alone.columns, "more"}
    alone = alone.drop("emitted_at")  # the time of the run
    assert beside.select(alone.columns).equals(alone)


def test_a_side_calls_its_key_by_its_own_name() -> None:
    query = f"SELECT p.* FROM orders o LEFT JOIN payments p ON price = paid AND {NEAR}"
    assert result(query).columns == ["ts_right", "shop_right", "paid"]
    assert sorted(result(query)["paid"].to_list(), key=repr) == [5, 7, None, None]


LISTED = pl.DataFrame({"id": [1, 2], "ts": [0, 0], "price": [5, 6], "xs": [[1], [2]]})
BIDS = pl.DataFrame({"auction": [1, 1, 2], "at": [1, 2, 3], "bid": [7, 8, 9]})
BOTH = "CREATE STREAM listed WATERMARK FOR ts AS ts; CREATE STREAM bids WATERMARK FOR at AS at;"
MET = "listed JOIN bids ON id = auction AND at BETWEEN ts AND ts + INTERVAL '1' MINUTE"


def sold(query: str) -> pl.DataFrame:
    panes: pl.DataFrame = ev.sql(f"{BOTH} {query}").local({"listed": LISTED, "bids": BIDS}).panes
    return panes


def test_a_star_has_the_key_of_each_side_that_calls_it_differently() -> None:
    for how in ("JOIN", "LEFT JOIN", "FULL JOIN"):
        panes = sold(f"SELECT * FROM {MET.replace('JOIN', how)}")
        assert panes.columns == ["id", "ts", "price", "xs", "auction", "at", "bid", "diff"]
        assert sorted(panes.select("id", "auction", "bid").rows()) == [(1, 1, 7), (1, 1, 8), (2, 2, 9)]


def test_joined_rows_are_grouped_by_the_name_that_the_subquery_gives_the_key() -> None:
    for inner in (f"SELECT * FROM {MET}", f"SELECT auction, bid AS offer, bid, ts FROM {MET}"):
        windows = f"TUMBLE(({inner}), DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
        panes = sold(f"SELECT auction, MAX(bid) AS best FROM {windows} GROUP BY auction")
        assert sorted(panes.drop("diff").rows()) == [(1, 8), (2, 9)]
        assert panes.columns == ["auction", "best", "diff"]
    renamed = f"SELECT auction AS lot, bid AS offer, ts FROM {MET}"
    panes = sold(f"SELECT lot, MAX(offer) AS best FROM TUMBLE(({renamed}), DESCRIPTOR(ts), '1' MINUTE) GROUP BY lot")
    assert sorted(panes.drop("diff").rows()) == [(1, 8), (2, 9)]


def test_joined_rows_without_windows_are_not_grouped() -> None:
    with pytest.raises(ev.PlanError, match=r"The rows of this join have no windows to group by\. Give them windows"):
        sold(f"SELECT id, MAX(bid) AS best FROM (SELECT * FROM {MET}) GROUP BY id")


@pytest.mark.parametrize(
    "bound",
    [
        "at >= ts AND INTERVAL '2' MICROSECOND + ts >= at",
        "at - ts <= INTERVAL '2' MICROSECOND AND at >= ts",
        "INTERVAL '2' MICROSECOND >= at - ts AND ts - at <= INTERVAL '0' SECOND",
        "at >= ts AND at <= ts + INTERVAL '2' MICROSECOND AND at > -1",
    ],
)
def test_a_bound_of_time_is_read_in_each_of_its_forms(bound: str) -> None:
    panes = sold(f"SELECT id, bid FROM listed JOIN bids ON id = auction AND {bound}")
    assert sorted(panes.drop("diff").rows()) == [(1, 7), (1, 8)]


@pytest.mark.parametrize("bound", ["at >= TIMESTAMP '2026-03-01 12:00:00'", "CURRENT_TIMESTAMP > at", "at > ts + at"])
def test_a_time_that_is_compared_with_no_time_of_the_other_side_is_no_bound(bound: str) -> None:
    with pytest.raises(ev.PlanError, match="The join has no time bound"):
        sold(f"SELECT id, bid FROM listed JOIN bids ON id = auction AND {bound}")


def test_names_may_stand_in_the_quotes_of_spark() -> None:
    windows = "TUMBLE(`bids`, DESCRIPTOR(`at`), '1' MINUTE) `b`"
    panes = (
        ev.sql(f"SELECT `auction`, MAX(`b`.`bid`) AS `the best` FROM {windows} GROUP BY `auction`")
        .local({"bids": BIDS})
        .panes
    )
    assert panes.columns == ["auction", "the best", "diff"]
    with pytest.raises(ev.PlanError, match="There is no column 'lot' in 'bids'"):
        ev.sql(f"SELECT COUNT(`lot`) AS n FROM {windows}").local({"bids": BIDS})


STORED = """
    SELECT l.id, r.bid + 1 AS more FROM listed AS l LEFT JOIN (SELECT *, bid AS price, 'x' AS note FROM bids) AS r
    ON l.id = r.auction AND r.at BETWEEN l.ts AND l.ts + INTERVAL '1' MINUTE AND r.price > 0 WHERE l.price < 6
"""


def test_a_join_stores_only_the_columns_that_the_query_reads() -> None:
    compiled_query = compile_query(
        parse_statements(f"{BOTH} {STORED}"), {"listed": tuple(LISTED.columns), "bids": tuple(BIDS.columns)}
    )
    left, right = (compiled_query.inputs[name].apply_polars(rows) for name, rows in (("left", LISTED), ("right", BIDS)))
    assert sorted(left.columns) == ["id", "ts"]  # the price is compared before the join
    assert sorted(right.columns) == ["at", "auction", "bid", "price"]
    assert sorted(sold(STORED).drop("diff").rows()) == [(1, 8), (1, 9)]


def test_a_column_keeps_its_name_when_the_one_that_it_would_hide_is_not_read() -> None:
    """Both sides have a price; the query reads that of the right side only."""
    bids = "(SELECT *, bid * 10 AS price FROM bids)"
    query = f"SELECT id, r.price FROM {MET.replace('JOIN bids', f'JOIN {bids} AS r')}"
    assert sorted(sold(query).drop("diff").rows()) == [(1, 70), (1, 80), (2, 90)]
    assert sorted(sold(query.replace("id, r.price", "*")).select("id", "price", "price_right").rows()) == [
        (1, 5, 70),
        (1, 5, 80),
        (2, 6, 90),
    ]


def test_a_query_of_a_join_says_which_columns_a_star_means() -> None:
    bids = "(SELECT *, bid AS price, 'x' AS note FROM bids) AS r"
    inner = f"SELECT * FROM {MET.replace('JOIN bids', f'JOIN {bids}')}"
    query = f"SELECT auction, MAX(bid) AS best FROM TUMBLE(({inner}), DESCRIPTOR(ts), '1' MINUTE) GROUP BY auction"
    compiled_query = compile_query(
        parse_statements(f"{BOTH} {query}"), {"listed": tuple(LISTED.columns), "bids": tuple(BIDS.columns)}
    )
    left, right = (compiled_query.inputs[name].apply_polars(rows) for name, rows in (("left", LISTED), ("right", BIDS)))
    assert sorted(left.columns) == ["id", "price", "ts"]  # the price stays: it decides the name of the other one
    assert sorted(right.columns) == ["at", "auction", "bid", "price"]
    assert sorted(sold(query).drop("diff").rows()) == [(1, 8), (2, 9)]
    both = query.replace("MAX(bid) AS best", "MAX(price_right) AS best, MIN(price) AS asked")
    assert sorted(sold(both).drop("diff").rows()) == [(1, 8, 5), (2, 9, 6)]
