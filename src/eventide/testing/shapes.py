"""Rows of an output as tests see them: flat fields, times as instants, each with a text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import polars as pl

from eventide.errors import testing as errors
from eventide.panes import RESERVED
from eventide.testing.day import Day
from eventide.time import MAX, MIN, duration, format_duration

Kind = Literal["plain", "time", "duration", "window"]
Row: TypeAlias = Mapping[str, Any]

_START, _END = "__start", "__end"


@dataclass(frozen=True)
class Shape:
    """The fields of an output, how each is read, and how a row is said in one line."""

    what: str
    day: Day
    key: Sequence[str]
    values: Sequence[str]
    kinds: Mapping[str, Kind] = field(default_factory=dict)

    @staticmethod
    def of_panes(panes: pl.DataFrame, *, key: Sequence[str], day: Day) -> tuple[Shape, list[Row]]:
        """The shape of panes, and the panes themselves."""
        flat, by_row = _flat(panes)
        values = [name for name in panes.columns if name not in key and name not in RESERVED]
        return Shape("pane", day, key, values, _kinds(flat, by_row)), _rows(flat)

    @staticmethod
    def of_rows(rows: pl.DataFrame, *, what: str, day: Day, values: Sequence[str]) -> tuple[Shape, list[Row]]:
        """The shape of late or dead rows, and the rows themselves; ``values`` are the user's own columns."""
        flat, by_row = _flat(rows)
        return Shape(what, day, (), values, _kinds(flat, by_row)), _rows(flat)

    def read(self, fields: Mapping[str, Any], word: str) -> Row:
        """The fields that a test names, as they are compared."""
        for name in fields:
            if name not in self.kinds:
                raise errors.no_such_field(word, name, self.kinds)
        return {name: self._read(name, value) for name, value in fields.items()}

    def fits(self, wanted: Row, came: Row) -> bool:
        """Whether every field that is wanted came."""
        return all(same(value, came[name]) for name, value in wanted.items())

    def say(self, row: Row, *, all_fields: bool = False) -> list[tuple[str, str]]:
        """A row as words, each with the name of its field. Of a pane's many fields only some are said."""
        words = [("diff", "-" if row["diff"] < 0 else "+")] if "diff" in row and self.what == "pane" else []
        if self.what == "dead letter" and "reason" in row:
            words.append(("reason", str(row["reason"])))
        words += [(name, self.text(name, row[name])) for name in self.key if name in row]
        if "window" in row:
            words.append(("window", self.text("window", row["window"])))
        for name in self.values:
            if name in row and name != "window":
                words.append((name, f"{name}={self.text(name, row[name])}"))
        if "timing" in row and "timing" not in self.values:
            words.append(("timing", f"{row['timing']}#{row['index']}" if "index" in row else str(row["timing"])))
        if all_fields:
            said = {name for name, _ in words} | ({"index"} if "timing" in row else set())
            words += [(name, f"{name}={self.text(name, value)}") for name, value in row.items() if name not in said]
        return words

    def text(self, name: str, value: Any) -> str:
        """A field's value in a few characters."""
        kind = self.kinds.get(name, "plain")
        if name == "window" and value is not None:
            return f"[{self._bound(value[0], kind, '-∞')}, {self._bound(value[1], kind, '+∞')})"
        if value is None:
            return "null"
        if kind == "time" and isinstance(value, int):
            return self.day.write(value)
        if kind == "duration" and isinstance(value, int):
            return format_duration(value)
        if isinstance(value, str):
            return repr(value) if not value or set(value) & set(" \t\n,[]{}\"'=") else value
        if isinstance(value, list):
            return f"[{', '.join(self.text('', item) for item in value)}]"
        return str(value).lower() if isinstance(value, bool) else str(value)

    def _bound(self, value: Any, kind: Kind, unbounded: str) -> str:
        if value is None:
            return unbounded
        return self.day.write(value) if kind == "window" else str(value)

    def _read(self, name: str, value: Any) -> Any:
        kind = self.kinds[name]
        if kind == "window" or name == "window":
            return self._read_window(value)
        if value is None:
            return None
        if kind == "time":
            return self.day.read(value, name)
        if kind == "duration":
            return value if isinstance(value, int) else duration(value, what=name, zero=True, negative=True)
        return value

    def _read_window(self, value: Any) -> tuple[int | None, int | None]:
        if value is None:
            return None, None
        try:
            start, end = value
        except (TypeError, ValueError):
            raise errors.bad_window(value) from None
        if self.kinds["window"] == "plain":
            return start, end
        low = MIN if start is None else self.day.read(start, "window")
        high = MAX if end is None else self.day.read(end, "window")
        return (None if low == MIN else low), (None if high == MAX else high)


def same(wanted: Any, came: Any) -> bool:
    """Equal, where NaN is NaN. ``wanted`` stands left, so that ``pytest.approx`` can be used.

    >>> same(float("nan"), float("nan")), same([1, None], [1, None]), same(1, True)
    (True, True, False)
    """
    if isinstance(wanted, float) and isinstance(came, float) and math.isnan(wanted):
        return math.isnan(came)
    if isinstance(wanted, bool) != isinstance(came, bool) and isinstance(wanted, (bool, int, float)):
        return False
    if isinstance(wanted, list | tuple) and isinstance(came, list | tuple):
        return len(wanted) == len(came) and all(map(same, wanted, came))
    return bool(wanted == came)


def _flat(rows: pl.DataFrame) -> tuple[pl.DataFrame, bool]:
    """The fields of ``window`` and ``pane`` as columns, and whether windows are counted in rows."""
    window = rows.schema.get("window")
    if not isinstance(window, pl.Struct):
        return rows, False
    bound = pl.col("window").struct.field
    columns = [bound("start").to_physical().alias(_START), bound("end").to_physical().alias(_END)]
    pane = rows.schema.get("pane")
    if isinstance(pane, pl.Struct):
        # A result may bear the name of a pane's field; then the field is called pane_….
        names = {f.name: f"pane_{f.name}" if f.name in rows.columns else f.name for f in pane.fields}
        columns += [pl.col("pane").struct.field(name).alias(flat) for name, flat in names.items()]
        rows = rows.with_columns(columns).drop("pane")
        return rows.drop("window"), window.fields[0].dtype == pl.Int64
    return rows.with_columns(columns).drop("window"), window.fields[0].dtype == pl.Int64


def _kinds(flat: pl.DataFrame, by_row: bool) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    for name, dtype in flat.schema.items():
        if name == _START:
            kinds["window"] = "plain" if by_row else "window"
        elif name != _END:
            time, length = isinstance(dtype, pl.Datetime), isinstance(dtype, pl.Duration)
            kinds[name] = "time" if time else "duration" if length else "plain"
    return kinds


def _rows(flat: pl.DataFrame) -> list[Row]:
    """Rows with times and durations as int microseconds, which hold any value."""
    counted = [
        pl.col(name).dt.cast_time_unit("us").to_physical()
        for name, dtype in flat.schema.items()
        if isinstance(dtype, (pl.Datetime, pl.Duration))
    ]
    rows: list[Row] = []
    for row in flat.with_columns(counted).to_dicts():
        bounds = {"window": (row.pop(_START), row.pop(_END))} if _START in row else {}
        rows.append(row | bounds)
    return rows
