"""Every kind of window, compared with its definition: a slow function from a position to the windows that hold it.

A new kind joins the suite of ``test_contract.py`` by one entry in ``CASES``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import polars as pl

import eventide as ev
from eventide.time import MAX, MIN
from eventide.windows import WindowKind

Windows = set[tuple[int, int]]

HALF_HOUR = 30 * 60 * 1_000_000


def us(n: int) -> timedelta:
    """Microseconds, as users give durations."""
    return timedelta(microseconds=n)


@dataclass(frozen=True)
class Case:
    """A kind, positions to try it at, and its definition."""

    name: str
    kind: WindowKind
    positions: range
    definition: Callable[[int], Windows]


def equal(size: int, every: int, offset: int = 0) -> Callable[[int], Windows]:
    """Windows of one size that start at ``offset`` plus every multiple of ``every``."""
    return lambda at: {(s, s + size) for s in range(at - size + 1, at + 1) if (s - offset) % every == 0}


def growing(step: int, size: int, offset: int = 0) -> Callable[[int], Windows]:
    """Windows that start with a period and grow by a step until they fill it."""

    def windows(at: int) -> Windows:
        starts = [s for s in range(at - size + 1, at + 1) if (s - offset) % size == 0]
        return {(s, s + n) for s in starts for n in range(step, size + 1, step) if at < s + n}

    return windows


def counted(size: int, every: int) -> Callable[[int], Windows]:
    """Windows of so many rows; the first starts at row 1."""
    return lambda at: {(s, s + size) for s in range(1, at + 1, every) if at < s + size}


def runs_of_equal(label: Callable[[datetime], object], around: range) -> Callable[[int], Windows]:
    """A window is the longest stretch of time in which a calendar shows the same. ``around`` is a grid of instants."""
    labels = [label(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)) for at in around]
    bounds = [i for i in range(1, len(around)) if labels[i] != labels[i - 1]]

    def windows(at: int) -> Windows:
        i = around.index(at)
        start = max(b for b in bounds if b <= i)
        return {(around[start], around[min(b for b in bounds if b > i)])}

    return windows


def grid(first: str, last: str) -> range:
    """Every half hour between two days."""
    ends = (int(datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()) * 1_000_000 for day in (first, last))
    return range(*ends, HALF_HOUR)


def calendar_case(unit: str, tz: str, first: str, last: str, label: Callable[[datetime], object], spare: int) -> Case:
    """A calendar checked against ``zoneinfo``, ``spare`` days from both ends of the grid."""
    around, zone = grid(first, last), ZoneInfo(tz)
    inner = around[spare * 48 : -spare * 48]
    definition = runs_of_equal(lambda at: label(at.astimezone(zone)), around)
    return Case(f"{unit} {tz} {first}", ev.calendar(unit, tz=tz), inner, definition)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Shifts:
    """A user's own: [0, 3) and [3, 10) of every 10, nothing shared."""

    axis = "time"
    shared = False

    def slice_of(self, at: pl.Expr) -> pl.Expr:
        return at // 10 * 10 + pl.when(at % 10 < 3).then(0).otherwise(3)

    def windows_of(self, slices: pl.Series) -> pl.DataFrame:
        length = pl.when(pl.col("slice") % 10 == 0).then(3).otherwise(7)
        return pl.DataFrame({"slice": slices}).select("slice", start="slice", end=pl.col("slice") + length)

    def describe(self) -> str:
        return "shifts"


@dataclass(frozen=True)
class OpeningHours:
    """A user's own: of every ten positions, 2 to 5 are in a window and in one over the ten; the others in none."""

    axis = "time"
    shared = True

    def slice_of(self, at: pl.Expr) -> pl.Expr:
        return pl.when((at % 10).is_between(2, 5)).then(at // 10 * 10 + 2)

    def windows_of(self, slices: pl.Series) -> pl.DataFrame:
        at = pl.col("slice")
        short = pl.DataFrame({"slice": slices}).select("slice", start=at, end=at + 4)
        return pl.concat([short, pl.DataFrame({"slice": slices}).select("slice", start=at - 2, end=at + 8)])

    def describe(self) -> str:
        return "opening hours"


def _shifts(at: int) -> Windows:
    day = at // 10 * 10
    return {(day, day + 3)} if at - day < 3 else {(day + 3, day + 10)}


def _opening_hours(at: int) -> Windows:
    day = at // 10 * 10
    return {(day + 2, day + 6), (day, day + 10)} if 2 <= at - day <= 5 else set()


AROUND_ZERO = range(-70, 70)
ROWS = range(1, 60)

CASES = [
    Case("tumbling", ev.tumbling(us(10)), AROUND_ZERO, equal(10, 10)),
    Case("tumbling by one", ev.tumbling(us(1)), AROUND_ZERO, equal(1, 1)),
    Case("tumbling with offset", ev.tumbling(us(10), offset=us(3)), AROUND_ZERO, equal(10, 10, 3)),
    Case("tumbling with negative offset", ev.tumbling(us(10), offset=us(-3)), AROUND_ZERO, equal(10, 10, 7)),
    Case("tumbling with long offset", ev.tumbling(us(10), offset=us(34)), AROUND_ZERO, equal(10, 10, 4)),
    Case("sliding that divides", ev.sliding(us(12), every=us(4)), AROUND_ZERO, equal(12, 4)),
    Case("sliding with remainder", ev.sliding(us(10), every=us(4)), AROUND_ZERO, equal(10, 4)),
    Case("sliding, coprime", ev.sliding(us(7), every=us(3), offset=us(2)), AROUND_ZERO, equal(7, 3, 2)),
    Case("sliding by one", ev.sliding(us(5), every=us(1)), AROUND_ZERO, equal(5, 1)),
    Case("sliding less than half", ev.sliding(us(7), every=us(5)), AROUND_ZERO, equal(7, 5)),
    Case("sliding, equal", ev.sliding(us(6), every=us(6), offset=us(1)), AROUND_ZERO, equal(6, 6, 1)),
    Case("hopping with gaps", ev.sliding(us(3), every=us(7), gaps="allowed"), AROUND_ZERO, equal(3, 7)),
    Case(
        "hopping with gaps and offset",
        ev.sliding(us(3), every=us(7), offset=us(-2), gaps="allowed"),
        AROUND_ZERO,
        equal(3, 7, 5),
    ),
    Case("cumulate", ev.cumulate(us(3), us(12)), AROUND_ZERO, growing(3, 12)),
    Case("cumulate with offset", ev.cumulate(us(3), us(12), offset=us(5)), AROUND_ZERO, growing(3, 12, 5)),
    Case("cumulate in one step", ev.cumulate(us(12), us(12)), AROUND_ZERO, growing(12, 12)),
    Case("global", ev.global_window(), AROUND_ZERO, lambda at: {(MIN, MAX)}),
    Case("rows", ev.rows(5), ROWS, counted(5, 5)),
    Case("one row", ev.rows(1), ROWS, counted(1, 1)),
    Case("rows sliding", ev.rows(5, every=2), ROWS, counted(5, 2)),
    Case("rows sliding by one", ev.rows(4, every=1), ROWS, counted(4, 1)),
    Case("rows with gaps", ev.rows(2, every=5), ROWS, counted(2, 5)),
    Case("a user's own", Shifts(), AROUND_ZERO, _shifts),
    Case("a user's own with gaps", OpeningHours(), AROUND_ZERO, _opening_hours),
    calendar_case("day", "Europe/Berlin", "2024-03-28", "2024-04-03", datetime.date, 2),
    calendar_case("day", "Europe/Berlin", "2024-10-24", "2024-10-30", datetime.date, 2),
    calendar_case("day", "Australia/Lord_Howe", "2024-04-04", "2024-04-10", datetime.date, 2),
    calendar_case("day", "Asia/Kathmandu", "1969-12-28", "1970-01-04", datetime.date, 2),
    calendar_case("day", "UTC", "1969-12-28", "1970-01-04", datetime.date, 2),
    calendar_case("week", "America/New_York", "2024-02-20", "2024-04-01", lambda at: at.isocalendar()[:2], 14),
    calendar_case("month", "Europe/Berlin", "2024-01-20", "2024-05-10", lambda at: (at.year, at.month), 40),
    calendar_case("hour", "Asia/Tokyo", "2024-03-28", "2024-04-01", lambda at: (at.date(), at.hour), 1),
]  # fmt: skip


def assigned(kind: WindowKind, positions: Iterable[int]) -> dict[int, Windows]:
    """What the columnar code gives: the windows of each position."""
    frame = pl.DataFrame({"at": pl.Series(list(positions), dtype=pl.Int64)}).with_columns(
        slice=kind.slice_of(pl.col("at"))
    )
    windows = kind.windows_of(frame["slice"].drop_nulls().unique())
    observed: dict[int, Windows] = {at: set() for at in frame["at"]}
    for at, start, end in frame.join(windows, on="slice").select("at", "start", "end").iter_rows():
        assert (start, end) not in observed[at], "a window is named once"
        observed[at].add((start, end))
    return observed


def slices(kind: WindowKind, positions: Iterable[int]) -> list[int | None]:
    """The slice of each position."""
    return pl.select(kind.slice_of(pl.lit(pl.Series(list(positions), dtype=pl.Int64)))).to_series().to_list()
