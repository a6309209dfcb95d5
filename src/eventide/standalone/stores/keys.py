"""Keys as text, so that equal keys are equal text: one column, whatever the key is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from eventide.errors import standalone as errors


def encoded(columns: Sequence[str], schema: Mapping[str, pl.DataType]) -> pl.Expr:
    """One text a row. Nulls equal nulls, NaN equals NaN, and zero has no sign.

    >>> rows = pl.DataFrame({"shop": ["kiel", None], "n": [-0.0, 1.5]})
    >>> rows.select(key=encoded(["shop", "n"], rows.schema))["key"].to_list()
    ['4:kiel3:0.0', '-3:1.5']
    """
    return pl.concat_str([_part(name, schema[name]) for name in columns]) if columns else pl.lit("")


def encoded_key(values: object, columns: Sequence[str], schema: Mapping[str, pl.DataType]) -> str:
    """The text of one key that a user gives: a value, or one for each column.

    >>> encoded_key("kiel", ["shop"], {"shop": pl.String()})
    '4:kiel'
    """
    given = list(values) if isinstance(values, (list, tuple)) else [values]
    if len(given) != len(columns):
        raise errors.no_key_given(columns)
    row = {name: pl.Series(name, [value], schema[name]) for name, value in zip(columns, given, strict=True)}
    text: str = pl.DataFrame(row).select(encoded(columns, schema)).item()
    return text


def check_key(columns: Sequence[str], schema: Mapping[str, pl.DataType]) -> None:
    """A key is made of plain values."""
    for name in columns:
        if schema[name].is_nested() or schema[name] == pl.Object:
            raise errors.bad_key_type(name, schema[name])
        if schema[name] == pl.Duration:
            raise errors.duration_key(name)


def _part(name: str, dtype: pl.DataType) -> pl.Expr:
    value = pl.col(name)
    if dtype.is_float():
        value = pl.when(value == 0).then(pl.lit(0.0, dtype)).otherwise(value)
    text = value.bin.encode("hex") if dtype == pl.Binary else value.cast(pl.String)
    # The length before each part keeps ("a", "bc") and ("ab", "c") apart.
    whole = pl.concat_str(text.str.len_bytes().cast(pl.String), pl.lit(":"), text)
    return pl.when(value.is_null()).then(pl.lit("-")).otherwise(whole)
