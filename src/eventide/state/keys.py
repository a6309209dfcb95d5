"""Keys as Spark groups them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import polars as pl

JoinStrategy = Literal["inner", "left"]

_SAME = "__same"


def as_grouped(rows: pl.DataFrame, key: Iterable[str]) -> pl.DataFrame:
    """-0.0 is 0.0 (Polars takes ``+ 0.0`` for nothing to do).

    >>> as_grouped(pl.DataFrame({"x": [-0.0, 1.0]}), ["x"])["x"].to_list()
    [0.0, 1.0]
    """
    floats = [pl.col(name) for name in key if rows.schema[name].is_float()]
    return rows.with_columns(pl.when(x == 0).then(x.abs()).otherwise(x) for x in floats) if floats else rows


def join_on_key(
    left: pl.DataFrame, right: pl.DataFrame, key: Sequence[str], how: JoinStrategy = "left", **options: Any
) -> pl.DataFrame:
    """Rows with equal keys side by side, as Spark groups them: null equals null, and NaN equals NaN.

    Polars joins frames on a single float column that it knows to be sorted, and every frame of one row is, without
    taking NaN for equal; a second column makes it compare as it should.
    """
    same = pl.lit(0, pl.Int8).alias(_SAME)
    joined = left.with_columns(same).join(
        right.with_columns(same), on=[*key, _SAME], how=how, nulls_equal=True, **options
    )
    return joined.drop(_SAME)
