"""Rows as tests write them, dicts with short times, to frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from eventide.errors import testing as errors
from eventide.panes import INSTANT
from eventide.testing.day import Day
from eventide.time import duration
from eventide.windows import Inherit, Sessions

_GAP = pl.Duration("us")
_WINDOW = pl.Struct({"start": INSTANT, "end": INSTANT})


class RowReader:
    """Reads the rows of one stream. Columns and types are those of ``schema`` and of the first bundle."""

    def __init__(self, plan: Any, day: Day, schema: Mapping[str, Any] | None = None, *, fixed: bool = False) -> None:
        self._day = day
        self._given = dict(pl.Schema(schema or {}))
        self._fixed: dict[str, pl.DataType] | None = self._given if fixed else None
        times = [plan.time] if isinstance(plan.time, str) else []
        self._special: dict[str, pl.DataType] = dict.fromkeys((*times, *plan.watermark.rule.columns()), INSTANT)
        window = getattr(plan, "window", None)  # a join of near rows has none
        if isinstance(window, Sessions) and isinstance(window.gap, str):
            self._special[window.gap] = _GAP
        if isinstance(window, Inherit):
            self._special["window"] = _WINDOW

    @property
    def schema(self) -> dict[str, pl.DataType] | None:
        """The columns, once they are known."""
        return self._fixed

    def frame(self, rows: Sequence[Mapping[str, Any]] | pl.DataFrame) -> pl.DataFrame:
        """A bundle; the first one fixes the columns."""
        frame = rows if isinstance(rows, pl.DataFrame) else self._read(rows)
        if self._fixed is None and frame.width:
            self._fixed = dict(frame.schema)
        return frame

    def _read(self, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
        for row in rows:
            if not isinstance(row, Mapping):
                raise errors.not_a_row(row)
        known = self._fixed
        names = list(known or dict.fromkeys((*self._given, *(name for row in rows for name in row))))
        unknown = [name for row in rows for name in row if name not in names]
        if unknown:
            raise errors.unknown_columns(unknown, names)
        return pl.DataFrame([self._series(name, [row.get(name) for row in rows]) for name in names])

    def _series(self, name: str, values: list[Any]) -> pl.Series:
        dtype = (self._fixed or {}).get(name) or self._given.get(name) or self._special.get(name)
        if isinstance(dtype, pl.Datetime) or (name in self._special and dtype == pl.Int64):
            micros = [None if value is None else self._day.read(value, name) for value in values]
            return _build(name, micros, pl.Int64()).cast(dtype)
        if name in self._special and dtype == _GAP:
            micros = [v if v is None or isinstance(v, int) else duration(v, what=name, negative=True) for v in values]
            return _build(name, micros, pl.Int64()).cast(_GAP)
        if name in self._special and dtype == _WINDOW:
            return pl.Series(name, [self._window(value) for value in values], dtype=_WINDOW)
        series = _build(name, values, dtype)
        return series.cast(pl.String) if series.dtype == pl.Null else series

    def _window(self, value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        if not isinstance(value, (tuple, list)) or len(value) != 2:
            raise errors.bad_window(value)
        bounds = [None if bound is None else self._day.read(bound, "window") for bound in value]
        instants = pl.Series(bounds, dtype=pl.Int64).cast(INSTANT).to_list()
        return {"start": instants[0], "end": instants[1]}


def _build(name: str, values: list[Any], dtype: pl.DataType | None) -> pl.Series:
    try:
        return pl.Series(name, values, dtype=dtype, strict=True)
    except (TypeError, pl.exceptions.PolarsError) as problem:
        raise errors.wrong_type(f"the column {name!r}: {problem}") from None
