"""The order of the rows of a batch from a source without one: by input, event time and values.

Spark divides the rows of a batch among tasks, and a repeated batch in another way: with other cores, another size of
splits. What depends on the order of rows (windows counted in rows, row by row bounds, processors, joins with the last
rows) must not see the numbers of tasks. Rows that are equal in all columns are in any order, which does not show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from eventide import _columns as c
from eventide.kernels.frames import as_dtype
from eventide.operators.operator import Stamp


def in_row_order(stamps: Sequence[Stamp]) -> list[Stamp]:
    """The stamps of a batch with the rows of each input in order, all of them in the first stamp of the input.

    Only for operators that get rows as they are. Cells have no order.
    """
    ordered: list[Stamp] = []
    for edge in sorted({stamp.edge for stamp in stamps}):
        first, *others = [stamp for stamp in stamps if stamp.edge == edge]
        rows = ordered_rows(pl.concat([stamp.stamped.rows for stamp in (first, *others)]))
        ordered.append(replace(first, stamped=replace(first.stamped, rows=rows)))
        ordered += [replace(other, stamped=replace(other.stamped, rows=rows.clear())) for other in others]
    return ordered


def ordered_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows by event time, then by the values of their columns, one after the other.

    >>> rows = pl.DataFrame({"name": ["b", "a", "b"], "__time": [2, 1, 1]})
    >>> ordered_rows(rows).equals(ordered_rows(rows.reverse()))
    True
    """
    if rows.height < 2:
        return rows
    times = [name for name in (c.TIME, c.AT) if name in rows.columns][:1]
    # Columns of operators follow from those of users, except where there are no others.
    names = [name for name in rows.columns if not name.startswith("__")] or rows.columns
    content = (pl.col(name).cast(_plain(rows.schema[name])) for name in names)
    return rows.sort(*times, *content, nulls_last=True, maintain_order=True)


def _plain(dtype: pl.DataType) -> pl.DataType:
    """The type with texts for categories, which have an order of their own, and lists for arrays."""
    if isinstance(dtype, (pl.Categorical, pl.Enum)):
        return pl.String()
    if isinstance(dtype, (pl.List, pl.Array)):
        return pl.List(_plain(as_dtype(dtype.inner)))
    if isinstance(dtype, pl.Struct):
        return pl.Struct({field.name: _plain(as_dtype(field.dtype)) for field in dtype.fields})
    return dtype
