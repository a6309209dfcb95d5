"""Expected panes, how they are paired with actual rows, and the report of a failed expectation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import polars as pl

from eventide._hints import with_option_hints
from eventide.errors import PlanError, did_you_mean
from eventide.panes import DIFF, PANE_INDEX, PANE_TIMING, REASON, RESERVED, WINDOW, WINDOW_END, WINDOW_START
from eventide.testing.errors import bad_window
from eventide.testing.rows import Day
from eventide.time import MAX, MIN, duration, format_duration
from eventide.time.units import Unit

Kind = Literal["plain", "time", "duration", "window", "row window"]
Row: TypeAlias = Mapping[str, Any]

_PAIR = "window"  # both bounds of a window, as tests write them


@dataclass(frozen=True)
class Shape:
    """The fields of an output, how each is read, and how a row is written in one line."""

    what: str
    day: Day
    key: Sequence[str]
    values: Sequence[str]
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    units: Mapping[str, Unit] = field(default_factory=dict)
    """The units of event times that are numbers."""

    @staticmethod
    def of_panes(panes: pl.DataFrame, *, key: Sequence[str], day: Day) -> tuple[Shape, list[Row]]:
        """Return the shape of panes, and their rows."""
        values = [name for name in panes.columns if name not in key and name not in RESERVED]
        return Shape("pane", day, key, values, _kinds(panes)), _rows(panes)

    @staticmethod
    def of_rows(
        rows: pl.DataFrame, *, what: str, day: Day, values: Sequence[str], units: Mapping[str, Unit] | None = None
    ) -> tuple[Shape, list[Row]]:
        """Return the shape of late or dead rows, and the rows. ``values`` are the user's columns."""
        return Shape(what, day, (), values, _kinds(rows), units or {}), _rows(rows)

    def read(self, fields: Mapping[str, Any], label: str) -> Row:
        """Return the fields that a test names, as they are compared."""
        for name in fields:
            if name not in self.kinds:
                raise PlanError(f"{label}({name}=…): there is no field {name!r}. {did_you_mean(name, self.kinds)}")
        return {name: self._read(name, value) for name, value in fields.items()}

    def fits(self, wanted: Row, received: Row) -> bool:
        """Return whether all wanted fields are equal."""
        return all(is_same(value, received[name]) for name, value in wanted.items())

    def describe(self, row: Row, *, all_fields: bool = False) -> list[tuple[str, str]]:
        """Return a row as texts with the names of their fields. Some fields of panes are left out."""
        texts = [(DIFF, "-" if row[DIFF] < 0 else "+")] if DIFF in row and self.what == "pane" else []
        if self.what == "dead letter" and REASON in row:
            texts.append((REASON, str(row[REASON])))
        texts += [(name, self.text(name, row[name])) for name in self.key if name in row]
        paired = self.kinds.get(_PAIR) in ("window", "row window") and _PAIR in row
        if paired:
            texts.append((_PAIR, self.text(_PAIR, row[_PAIR])))
        for name in self.values:
            if name in row and not (paired and name in (_PAIR, *WINDOW)):
                texts.append((name, f"{name}={self.text(name, row[name])}"))
        if PANE_TIMING in row and PANE_TIMING not in self.values:
            index = f"#{row[PANE_INDEX]}" if PANE_INDEX in row else ""
            texts.append((PANE_TIMING, f"{row[PANE_TIMING]}{index}"))
        if all_fields:
            named = {name for name, _ in texts} | ({PANE_INDEX} if PANE_TIMING in row else set())
            texts += [(name, f"{name}={self.text(name, value)}") for name, value in row.items() if name not in named]
        return texts

    def text(self, name: str, value: Any) -> str:
        """Return a field's value as a short text."""
        kind = self.kinds.get(name, "plain")
        if kind in ("window", "row window") and value is not None:
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
        if kind in ("window", "row window"):
            return self._read_window(value)
        if value is None:
            return None
        if name in self.units and kind == "plain":
            return self.day.read_number(value, name, self.units[name])
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
            raise bad_window(value) from None
        if self.kinds[_PAIR] == "row window":
            return start, end
        low = MIN if start is None else self.day.read(start, "window")
        high = MAX if end is None else self.day.read(end, "window")
        return (None if low == MIN else low), (None if high == MAX else high)


def is_same(wanted: Any, received: Any) -> bool:
    """Return whether values are equal, where NaN equals NaN. ``wanted`` is on the left, so ``pytest.approx`` works.

    >>> is_same(float("nan"), float("nan")), is_same([1, None], [1, None]), is_same(1, True)
    (True, True, False)
    """
    if isinstance(wanted, float) and isinstance(received, float) and math.isnan(wanted):
        return math.isnan(received)
    if isinstance(wanted, bool) != isinstance(received, bool) and isinstance(wanted, (bool, int, float)):
        return False
    if isinstance(wanted, list | tuple) and isinstance(received, list | tuple):
        return len(wanted) == len(received) and all(map(is_same, wanted, received))
    return bool(wanted == received)


def _kinds(rows: pl.DataFrame) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    for name, dtype in rows.schema.items():
        time, length = isinstance(dtype, pl.Datetime), isinstance(dtype, pl.Duration)
        kinds[name] = "time" if time else "duration" if length else "plain"
    if _has_pair(rows):
        kinds[_PAIR] = "row window" if rows.schema[WINDOW_START].is_integer() else "window"
    return kinds


def _rows(rows: pl.DataFrame) -> list[Row]:
    """Rows with times and durations as int microseconds, which hold any value, and with both bounds as a pair."""
    counted = [
        pl.col(name).dt.cast_time_unit("us").to_physical()
        for name, dtype in rows.schema.items()
        if isinstance(dtype, (pl.Datetime, pl.Duration))
    ]
    dicts = rows.with_columns(counted).to_dicts()
    if not _has_pair(rows):
        return list(dicts)
    return [row | {_PAIR: (row[WINDOW_START], row[WINDOW_END])} for row in dicts]


def _has_pair(rows: pl.DataFrame) -> bool:
    """Whether the bounds of a window may be named together; a column of that name means itself."""
    return set(WINDOW) <= set(rows.columns) and _PAIR not in rows.columns


_MOST_ROWS = 12


@dataclass(frozen=True)
class HistoryEntry:
    """One bundle: its clock, its inputs, the watermark after it, and its outputs."""

    clock: str
    inputs: Sequence[str]
    watermark: str
    outputs: Sequence[str]


def table(happenings: Sequence[HistoryEntry]) -> list[str]:
    """Aligned lines: a bundle may take several.

    >>> for line in table([HistoryEntry("12:05", ["a 5", "b 3"], "12:02", ["+ a total=5"])]):
    ...     print(line)
    clock  in   watermark  out
    12:05  a 5      12:02  + a total=5
           b 3
    """
    rows: list[tuple[str, str, str, str]] = [("clock", "in", "watermark", "out")]
    for happening in happenings:
        inputs = _shortened(happening.inputs)
        for i in range(max(len(inputs), len(happening.outputs), 1)):
            rows.append(
                (
                    happening.clock if i == 0 else "",
                    inputs[i] if i < len(inputs) else "",
                    happening.watermark if i == 0 else "",
                    happening.outputs[i] if i < len(happening.outputs) else "",
                )
            )
    clock, input_width, watermark = (max(len(row[column]) for row in rows) for column in range(3))
    return [f"{c:<{clock}}  {i:<{input_width}}  {w:>{watermark}}  {o}".rstrip() for c, i, w, o in rows]


def _shortened(rows: Sequence[str]) -> Sequence[str]:
    if len(rows) <= _MOST_ROWS:
        return rows
    return [*rows[: _MOST_ROWS - 1], f"… and {len(rows) - _MOST_ROWS + 1} more"]


_LABEL = 12


def report(
    title: str, shape: Shape, pairing: Pairing[Row, Row], history: Sequence[HistoryEntry], hint: str = ""
) -> str:
    """Return what was received, what was expected, where they differ, and the history."""
    missing, unexpected = list(pairing.missing), list(pairing.unexpected)
    counts = [
        *([f"{len(pairing.matched)} as expected"] if pairing.matched else []),
        *([f"{len(missing)} missing"] if missing else []),
        *([f"{len(unexpected)} unexpected"] if unexpected else []),
    ]
    lines = [f"{title}: {', '.join(counts)}.", ""]
    lines += [_line("as expected", shape, received) for _, received in pairing.matched]
    for wanted in missing:
        lines.append(_line("missing", shape, wanted, all_fields=True))
        nearest = unexpected[0] if len(missing) == len(unexpected) == 1 else _nearest(wanted, unexpected)
        if nearest is not None:
            unexpected.remove(nearest)
            lines += _differing(shape, wanted, nearest)
    lines += [_line("unexpected", shape, received) for received in unexpected]
    return "\n".join([*lines, "", *([hint, ""] if hint else []), history_text(history)])


def history_text(history: Sequence[HistoryEntry]) -> str:
    """Return everything that happened, bundle by bundle."""
    return "\n".join(["So far:", *(f"  {line}" for line in table(history))])


def _line(label: str, shape: Shape, row: Row, *, all_fields: bool = False) -> str:
    return f"  {label:<{_LABEL}}" + " ".join(label for _, label in shape.describe(row, all_fields=all_fields))


def _nearest(wanted: Row, unexpected: Sequence[Row]) -> Row | None:
    """Return the row that agrees with most of the wanted fields; None if no field agrees."""

    def agreement(received: Row) -> int:
        return sum(is_same(value, received[name]) for name, value in wanted.items() if name != DIFF)

    best = max(unexpected, key=agreement, default=None)
    return best if best is not None and agreement(best) else None


def _differing(shape: Shape, wanted: Row, received: Row) -> list[str]:
    """Return the row that was received instead, with marks under the fields that differ, and the expected values."""
    different = [name for name, value in wanted.items() if not is_same(value, received[name])]
    texts = shape.describe(received)
    named = {name for name, _ in texts} | ({PANE_INDEX} if PANE_TIMING in dict(texts) else set())
    texts += [(name, f"{name}={shape.text(name, received[name])}") for name in different if name not in named]
    marked = {PANE_TIMING if name == PANE_INDEX and PANE_TIMING in dict(texts) else name for name in different}
    marks = " ".join(("~" if name in marked else " ") * len(label) for name, label in texts)
    line = f"  {'got':<{_LABEL}}" + " ".join(label for _, label in texts)
    reasons = ", ".join(
        f"{name} is {shape.text(name, received[name])}, not {shape.text(name, wanted[name])}" for name in different
    )
    return [line, f"  {'':<{_LABEL}}{marks.rstrip()}  {reasons}"]


E = TypeVar("E")
A = TypeVar("A")


@dataclass(frozen=True)
class ExpectedPane:
    """A pane that must be emitted. Only the named fields are compared.

    >>> from eventide.testing import pane, retraction
    >>> pane(n=2), retraction(n=2).diff
    (pane(n=2), -1)
    """

    fields: Mapping[str, Any]
    diff: int = 1

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f"{'pane' if self.diff > 0 else 'retraction'}({fields})"


@with_option_hints
def pane(**fields: Any) -> ExpectedPane:
    """A pane that must be emitted: its columns, and ``window=(start, end)`` for both bounds of its window.

    Columns of every pane are ``pane_timing``, ``pane_index``, ``pane_nonspeculative_index``, ``pane_is_first``,
    ``pane_is_last``, ``emitted_at`` and ``window_time``. Fields that are not named are not compared.

    >>> pane(user="a", window=("12:00", "12:02"), total=5, pane_timing="ON_TIME").diff
    1
    """
    return ExpectedPane(fields)


@with_option_hints
def retraction(**fields: Any) -> ExpectedPane:
    """A retraction that must be emitted: the fields of the pane that it retracts.

    >>> retraction(user="a", total=3).diff
    -1
    """
    return ExpectedPane(fields, diff=-1)


@dataclass(frozen=True)
class Pairing(Generic[E, A]):
    """The matched expectations, the missing ones, and the unexpected rows."""

    matched: Sequence[tuple[E, A]]
    missing: Sequence[E]
    unexpected: Sequence[A]

    @property
    def complete(self) -> bool:
        """Whether exactly the expected rows were received."""
        return not self.missing and not self.unexpected


def pair(expected: Sequence[E], actual: Sequence[A], fits: Callable[[E, A], bool]) -> Pairing[E, A]:
    """Pair as many as possible, one to one, in any order.

    An expectation that fits several must not take what another one needs, so this is a matching in a
    bipartite graph (by augmenting paths), not a first fit.

    >>> pair(["any", "a"], ["a", "b"], lambda e, a: e in ("any", a)).complete
    True
    """
    choices = [[a for a, received in enumerate(actual) if fits(wanted, received)] for wanted in expected]
    matches: dict[int, int] = {}

    def assign(e: int, tried: set[int]) -> bool:
        for a in choices[e]:
            if a in tried:
                continue
            tried.add(a)
            if a not in matches or assign(matches[a], tried):
                matches[a] = e
                return True
        return False

    missing = [expected[e] for e in range(len(expected)) if not assign(e, set())]
    matched = [(expected[e], actual[a]) for a, e in sorted(matches.items())]
    return Pairing(matched, missing, [received for a, received in enumerate(actual) if a not in matches])
