"""Streams with the same columns as one stream."""

from __future__ import annotations

import polars as pl

import eventide as ev


def test_the_order_of_columns_may_differ_between_inputs() -> None:
    web, tills = ev.stream(time="t", key="shop"), ev.stream(time="t", key="shop")
    sales = ev.union(web=web, tills=tills).window(ev.tumbling("1 minute")).agg(total=ev.sum("price"))
    bundle = {
        "web": pl.DataFrame({"t": [1], "shop": ["kiel"], "price": [5]}),
        "tills": pl.DataFrame({"price": [7], "shop": ["kiel"], "t": [2]}),
    }
    assert sales.local(bundle).panes["total"].to_list() == [12]
