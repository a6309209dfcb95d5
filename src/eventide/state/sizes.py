"""How large values are, from the widths of columns and the lengths of what is in them.

An estimate that is the same in every process: it does not ask how memory happens to be laid out.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

_WORD = 8


def sizes(schema: Mapping[str, pl.DataType]) -> pl.Expr:
    """The size of a row of these columns.

    >>> frame = pl.DataFrame({"n": [1, 2], "names": [["a", "bcd"], []]})
    >>> frame.select(sizes(frame.schema)).to_series().to_list()
    [20, 16]
    """
    return pl.sum_horizontal(_size(pl.col(name), dtype) for name, dtype in schema.items()).cast(pl.Int64)


def _size(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    if dtype == pl.String:
        return value.str.len_bytes().fill_null(0).cast(pl.Int64)
    if dtype == pl.Binary:
        return value.bin.size().fill_null(0).cast(pl.Int64)
    if isinstance(dtype, pl.Struct):
        fields = [_size(value.struct.field(field.name), _instance(field.dtype)) for field in dtype.fields]
        return pl.sum_horizontal(fields).cast(pl.Int64)
    if isinstance(dtype, pl.List):
        return _WORD + value.list.eval(_size(pl.element(), _instance(dtype.inner))).list.sum().fill_null(0)
    return pl.lit(_WORD, pl.Int64)


def _instance(dtype: object) -> pl.DataType:
    return dtype() if isinstance(dtype, type) else dtype  # type: ignore[return-value]
