"""What joins give in this process: the pairs, and what stands beside rows that met none."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import eventide as ev

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
    panes: pl.DataFrame = ev.sql(f"{STREAMS} {query}", orders=ORDERS, payments=PAYMENTS).panes
    return panes.drop("diff")


def told(query: str) -> list[tuple[Any, ...]]:
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
    said = ev.sql_pipeline(f"{STREAMS} SELECT price FROM {TUMBLED.format(how='')} {using}").plan
    left, right = (ev.stream(time="ts", key="shop", watermark=ev.ascending()) for _ in range(2))
    assert said == ev.window_join(left, right, window=ev.tumbling("1 minute")).plan


def test_a_column_of_rows_may_be_called_window_start() -> None:
    frames = [one.rename({"shop": "window_start"}) for one in (ORDERS, PAYMENTS)]
    query = f"{STREAMS} SELECT price, paid FROM orders o JOIN payments p ON o.window_start = p.window_start AND {NEAR}"
    assert sorted(ev.sql(query, orders=frames[0], payments=frames[1]).panes.drop("diff").rows()) == [(5, 5), (7, 7)]
