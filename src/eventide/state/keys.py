"""Keys as Spark groups them."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl


def as_grouped(rows: pl.DataFrame, key: Iterable[str]) -> pl.DataFrame:
    """-0.0 is 0.0 (Polars takes ``+ 0.0`` for nothing to do).

    >>> as_grouped(pl.DataFrame({"x": [-0.0, 1.0]}), ["x"])["x"].to_list()
    [0.0, 1.0]
    """
    floats = [pl.col(name) for name in key if rows.schema[name].is_float()]
    return rows.with_columns(pl.when(x == 0).then(x.abs()).otherwise(x) for x in floats) if floats else rows
