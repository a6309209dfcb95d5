"""The oracle: the rules of ``docs/design/semantics.md``, one row at a time, in plain Python and nothing else.

It keeps every row of every open window and looks at all of them in each step. Slow, and short enough to be believed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tests.oracle.model_triggers import Moment, Never, build, stops_early

MIN, MAX = -(2**63), 2**63 - 1
DAY = 86_400_000_000  # how far ahead of the clock a row may be, unless a watermark says otherwise
_US = timedelta(microseconds=1)


class Row(NamedTuple):
    """A row as it came; ``id`` is its place in the order of arrival."""

    id: int
    key: str | None
    time: int | None
    value: int | None = None
    gap: int | None = None
    origin: str | None = None
    number: int | None = None


class Spec(NamedTuple):
    """A plan in words: tuples such as ``("sliding", 10, 4, 0)`` and ``("watermark", early, late)``."""

    window: tuple[Any, ...]
    trigger: tuple[Any, ...]
    mode: str = "accumulating"
    only_updated: bool = False
    lateness: int = 0
    at: str = "end"
    keyed: bool = True
    skew: int | None = None
    lists: bool = True
    deduplicate: bool = False
    timeout: int | None = None  # when windows of rows are closed by time
    most: int | None = None  # the limit of rows
    forget: int | None = None  # when idle keys of rows are forgotten

    @property
    def by_row(self) -> bool:
        return self.window[0] in ("rows", "row_sessions") or self.by_offset

    @property
    def by_offset(self) -> bool:
        return self.window[0] in ("offsets", "offset_sessions")

    @property
    def gapless(self) -> bool:
        """Offsets are waited for while one is missing."""
        return self.by_offset and self.window[4] == "gapless"

    @property
    def merging(self) -> bool:
        return self.window[0] in ("sessions", "row_sessions", "offset_sessions")


class Pane(NamedTuple):
    """A row of output. The order of the first fields is the order of rows in a bundle (null keys first)."""

    diff: int
    end: int
    start: int
    key: Any
    values: tuple[Any, ...]
    timing: str
    index: int  # type: ignore[assignment]
    nonspeculative_index: int
    is_first: bool
    is_last: bool
    time: int | None
    at: int


@dataclass
class Out:
    """What a step gives."""

    panes: list[Pane] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    dead: list[tuple[int, str]] = field(default_factory=list)
    rows: int = 0
    kept: int = 0
    refined: int = 0
    unemitted: int = 0
    forgotten: int = 0

    def counts(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "kept": self.kept,
            "late": len(self.late),
            "dead": dict(Counter(reason for _, reason in self.dead)),
            "refined": self.refined,
            "unemitted": self.unemitted,
            "panes": dict(Counter(pane.timing for pane in self.panes if pane.diff > 0)),
            "retractions": sum(pane.diff < 0 for pane in self.panes),
            "forgotten_keys": self.forgotten,
        }


@dataclass
class Atom:
    """A row of a session that may be cut: its interval, where the session began, where its piece ends."""

    row: Row
    start: int
    end: int
    anchor: int
    began: int = 0  # the anchor, if the rows that are looked at are not late after all
    until: int = 0
    emitted: bool = False  # its piece has expired; the interval alone holds the session together


@dataclass
class Window:
    """A key's window: its rows, those that no pane has emitted yet, and the state of its trigger."""

    key: str | None
    start: int
    end: int
    trigger: Never
    rows: list[Row] = field(default_factory=list)
    pending: list[Row] = field(default_factory=list)
    finished: bool = False
    panes: int = 0
    nonspeculative: int = 0
    standing: Pane | None = None
    touched: bool = False
    closed: bool = False  # to make room


def shown(key: Any) -> Any:
    """A key as panes are ordered by it: null first."""
    return tuple(map(shown, key)) if isinstance(key, tuple) else (key is not None, key or "")


def aggregate(rows: Iterable[Row]) -> tuple[Any, ...]:
    """count, sum, min, max, first, last, collect and sort of ``value``."""
    timed = sorted(rows, key=lambda row: (row.time, row.value is None, row.value))  # among equals by value, nulls last
    values = [row.value for row in timed if row.value is not None]
    ends = (timed[0].value, timed[-1].value) if timed else (None, None)
    if not values:
        return (len(timed), None, None, None, *ends, (), ())
    return (len(timed), sum(values), min(values), max(values), *ends, tuple(values), tuple(sorted(values)))


def windows_at(window: tuple[Any, ...], at: int) -> list[tuple[int, int]]:
    """All windows, of a kind whose bounds are given, that hold ``at``."""
    kind, *args = window
    if kind == "global":
        return [(MIN, MAX)]
    if kind == "calendar":
        return [_calendar(args[0], args[1], at)]
    if kind == "cumulate":
        step, size, offset = args
        start = (at - offset) // size * size + offset
        return [(start, start + length) for length in range(step, size + 1, step) if at < start + length]
    size, every, offset = args[:3]
    newest = (at - offset) // every * every + offset
    bounds = [(start, start + size) for start in range(newest, at - size, -every)]
    return [(start, end) for start, end in bounds if kind == "sliding" or start >= 1]


def _calendar(unit: str, tz: str, at: int) -> tuple[int, int]:
    day = (datetime(1970, 1, 1, tzinfo=UTC) + at * _US).astimezone(ZoneInfo(tz)).date()
    if unit == "week":
        day -= timedelta(days=day.weekday())
    if unit == "month":
        day = day.replace(day=1)
    after = day + timedelta(days={"day": 1, "week": 7, "month": 32}[unit])
    return _midnight(day, tz), _midnight(after.replace(day=1) if unit == "month" else after, tz)


def _midnight(day: date, tz: str) -> int:
    """The first instant of a day. Where midnight is skipped or comes twice, ``fold=0`` is right."""
    local = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(tz))
    return (local.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // _US


class Model:
    """A plan at work. ``step`` takes a bundle, its clock and the watermark that stands after it."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.watermark = MIN
        self.open: dict[tuple[str | None, int, int], Window] = {}
        self.numbered: Counter[str | None] = Counter()  # rows so far, on the row axis
        self.atoms: dict[str | None, list[Atom]] = defaultdict(list)  # only where sessions are cut
        self.on_time: set[int] = set()  # the ids of rows that were not late when they came
        self.floors: dict[Any, int] = {}  # per key: the end of the last window that was closed to make room
        self.ids: dict[int, int] = {}  # for windows by offset: whose id a row has, which has its own order
        self.reach: dict[Any, int] = {}  # per origin: the first offset that is still to come
        self.seen: set[tuple[str | None, int | None]] = set()  # the numbers of rows, per origin
        self.active: dict[str | None, int] = {}  # per key: its last activity
        self.forgotten: set[str | None] = set()  # keys that this bundle forgets

    def step(self, rows: list[Row], now: int, watermark: int) -> Out:
        out = Out(rows=len(rows))
        self.out, self.now, self.after = out, now, max(watermark, self.watermark)
        usable = [row for row in rows if self._admit(row)]
        if self.spec.by_offset:
            usable = self._as_offsets(usable)
        self.forgotten = set()
        self.before = {key: self._reached(key, self.watermark) for key in self._keys(usable)}
        place = self._assign if not self.spec.merging else self._cut if self.spec.window[3] else self._merge
        place(usable)
        self._follow(rows)
        self._forget()
        self._make_room()
        for window in list(self.open.values()):
            self._evaluate(window)
        self._wear_away()
        self.out.late = [self.ids.get(row, row) for row in self.out.late]
        for key in self.forgotten:
            self.floors.pop(key, None)
        self.watermark = self.after
        out.panes.sort(key=lambda pane: pane[:4])
        return out

    # Admission

    def _admit(self, row: Row) -> bool:
        reason, again = None, self.spec.deduplicate and (row.origin, row.number) in self.seen
        if self._misnumbered(row):
            reason = "bad_row"
        elif row.time is None:
            reason = "null_time"
        elif self.spec.skew is not None and row.time > self.now + self.spec.skew:
            reason = "future"
        elif self._misplaced(row):
            reason = "bad_row"
        elif again:
            reason = "duplicate"
        self.seen.add((row.origin, row.number))
        if reason:
            self.out.dead.append((row.id, reason))
        return reason is None

    def _as_offsets(self, rows: list[Row]) -> list[Row]:
        """Rows as they count for windows by offset: of a key and origin, and in the order of their offsets."""
        ordered = sorted(rows, key=lambda row: row.number or 0)
        self.ids |= {len(self.ids) + i: row.id for i, row in enumerate(ordered)}
        begin = len(self.ids) - len(rows)
        return [row._replace(id=begin + i, key=(row.key, row.origin)) for i, row in enumerate(ordered)]  # type: ignore[arg-type]

    def _misnumbered(self, row: Row) -> bool:
        return (self.spec.deduplicate or self.spec.gapless) and (row.number is None or row.number < 1)

    def _misplaced(self, row: Row) -> bool:
        kind = self.spec.window[0]
        if self.spec.by_offset:
            return row.number is None or (row.number < 1 and kind == "offsets")
        return kind == "sessions" and self.spec.window[1] == "gap" and not (row.gap or 0) > 0

    def _enter(self, row: Row) -> None:
        assert row.time is not None
        self.out.kept += 1
        if self.spec.by_offset and row.number is not None:
            self.out.refined += row.number < self.before[row.key]
        if row.time >= self.watermark or self.spec.by_row:
            self.on_time.add(row.id)
        else:
            self.out.refined += 1

    # The watermark of an axis

    def _keys(self, rows: list[Row]) -> set[str | None]:
        return {row.key for row in rows} | {window.key for window in self.open.values()}

    def _follow(self, rows: list[Row]) -> None:
        """How far the offsets of each origin have come: without a gap, or at all."""
        for row in rows:
            if row.number is None or self._misnumbered(row):
                continue
            reached = self.reach.get(row.origin, 1 if self.spec.gapless else MIN)
            if self.spec.gapless:
                while (row.origin, reached) in self.seen:
                    reached += 1
                self.reach[row.origin] = reached
            else:
                self.reach[row.origin] = max(reached, row.number + 1)

    def _reached(self, key: Any, watermark: int) -> int:
        """The watermark on the window's axis: on the row axis, rows of the key (or the stream) so far, plus one."""
        if not self.spec.by_row or watermark == MAX:
            return watermark
        if key in self.forgotten:
            return MAX
        if self.spec.by_offset:
            return self.reach.get(key[1], MIN)
        return (self.numbered[key] if self.spec.window[0] == "rows" else self.numbered.total()) + 1

    def _expired(self, end: int, watermark: int) -> bool:
        life = self.spec.lateness
        if self.spec.window[0] == "sessions" and self.spec.window[2] == "merge":
            return end + life < watermark
        return end + life <= watermark or end == watermark == MAX

    def _forget(self) -> None:
        """Keys that the watermark has left far enough behind send nothing more: their windows end."""
        self.forgotten = set()
        if self.spec.forget is not None and self.after < MAX:
            self.forgotten = {key for key, last in self.active.items() if last + self.spec.forget <= self.after}
        for key in self.forgotten:
            del self.active[key], self.numbered[key]
        self.out.forgotten = len(self.forgotten)

    # Windows

    def _assign(self, rows: list[Row]) -> None:
        for row in rows:
            self.numbered[row.key] += 1
            assert row.time is not None
            self.active[row.key] = max(self.active.get(row.key, MIN), row.time, self.after)
            at = row.number if self.spec.by_offset else self.numbered[row.key] if self.spec.by_row else row.time
            assert at is not None
            windows = windows_at(self.spec.window, at)
            live = [bounds for bounds in windows if not self._expired(bounds[1], self.before[row.key])]
            roomy = [bounds for bounds in live if self._has_room(row.key, *bounds)]
            if roomy:
                self._enter(row)
                for bounds in roomy:
                    self._join(self._window(row.key, *bounds), [row])
            elif live:
                self._beyond(row)
            elif windows:
                self.out.late.append(row.id)
            else:
                self.out.dead.append((self.ids.get(row.id, row.id), "no_window"))

    # Limits

    def _held(self, window: Window) -> int:
        return len(window.pending if self.spec.mode == "discarding" else window.rows)

    def _has_room(self, key: Any, start: int, end: int) -> bool:
        held = self._held(self.open[key, start, end]) if (key, start, end) in self.open else 0
        return end > self.floors.get(key, MIN) and (self.spec.most is None or held < self.spec.most)

    def _beyond(self, row: Row) -> None:
        self.out.dead.append((self.ids.get(row.id, row.id), "out_of_retention"))

    def _make_room(self) -> None:
        """Close the oldest windows of a key until it holds no more than it may. The newest stays."""
        if self.spec.timeout is not None:
            for window in self.open.values():
                latest = max(row.time for row in window.rows if row.time is not None)
                if latest + self.spec.timeout <= self.after:
                    self._close(window)
        for key in {window.key for window in self.open.values()} if self.spec.most is not None else ():
            after = self._reached(key, self.after)
            windows = [
                w for w in self.open.values() if w.key == key and not w.closed and not self._expired(w.end, after)
            ]
            windows.sort(key=lambda window: (window.end, window.start))
            while len(windows) > 1 and sum(map(self._held, windows)) > self.spec.most:  # type: ignore[operator]
                self._close(windows.pop(0))

    def _close(self, window: Window) -> None:
        window.closed = True
        self.floors[window.key] = max(self.floors.get(window.key, MIN), window.end)

    def _window(self, key: str | None, start: int, end: int) -> Window:
        if (key, start, end) not in self.open:
            trigger = build(self.spec.trigger, end <= self.before[key])
            self.open[key, start, end] = Window(key, start, end, trigger)
        return self.open[key, start, end]

    def _join(self, window: Window, rows: list[Row]) -> None:
        window.touched = True
        window.rows += rows
        window.pending += rows
        if window.finished:
            self.out.unemitted += len(rows)
        else:
            window.trigger.join(len(rows), self.now)

    # Sessions

    def _intervals(self, rows: list[Row]) -> dict[str | None, list[tuple[int, int, list[Any]]]]:
        bounds: dict[str | None, list[tuple[int, int, list[Any]]]] = defaultdict(list)
        for row in rows:
            self.numbered[row.key] += 1
            at = row.number if self.spec.by_offset else self.numbered.total() if self.spec.by_row else row.time
            gap = row.gap if self.spec.window[1] == "gap" else self.spec.window[1]
            assert at is not None and gap is not None
            bounds[row.key].append((at, at + gap, [row]))
        return bounds

    def _chains(self, intervals: list[tuple[int, int, list[Any]]]) -> Iterator[tuple[int, int, list[Any]]]:
        """Unions of intervals that overlap, or touch."""
        if not intervals:
            return
        intervals = sorted(intervals, key=lambda interval: interval[:2])
        start, end, held = intervals[0]
        for begins, ends, more in intervals[1:]:
            if begins < end or (begins == end and self.spec.window[2] == "merge"):
                end, held = max(end, ends), held + more
            else:
                yield start, end, held
                start, end, held = begins, ends, more
        yield start, end, held

    def _merge(self, rows: list[Row]) -> None:
        late: list[int] = []
        for key, new in self._intervals(rows).items():
            old: list[Any] = [(window.start, window.end, []) for window in self.open.values() if window.key == key]
            if self.spec.most is not None or self.floors:
                new = self._with_room(key, old, new, late)
            for start, end, joined in self._chains([*old, *new]):
                if self._expired(end, self.before[key]):
                    late += [row.id for row in joined]
                elif joined:
                    self._settle(key, start, end, sorted(joined))
        self.out.late += sorted(late)

    def _with_room(self, key: Any, old: list[Any], new: list[Any], late: list[int]) -> list[Any]:
        """The rows that find room in the session that all of them would make."""
        kept: set[int] = set()
        for start, end, joined in self._chains([*old, *new]):
            held = [w for w in self.open.values() if w.key == key and start <= w.start and w.end <= end]
            room = MAX if self.spec.most is None else self.spec.most - sum(map(self._held, held))
            if self._expired(end, self.before[key]):
                late += [row.id for row in joined]
            else:
                above = [row.id for at, _, (row,) in new if row in joined and at >= self.floors.get(key, MIN)]
                kept |= set(sorted(above)[: max(room, 0)])
                for row in joined:
                    if row.id not in kept:
                        self._beyond(row)
        return [session for session in new if session[2][0].id in kept]

    def _settle(self, key: str | None, start: int, end: int, joined: list[Row]) -> None:
        """Put rows into the session ``[start, end)``, which replaces those that it has swallowed."""
        for row in joined:
            self._enter(row)
        held = (w for w in self.open.values() if w.key == key and start <= w.start and w.end <= end)
        swallowed = [window for window in held if (window.start, window.end) != (start, end)]
        window = self._window(key, start, end)
        # What has finished for good says nothing more; what finished at the end does so again at the new one.
        window.finished |= bool(swallowed) and all(old.finished for old in swallowed) and stops_early(self.spec.trigger)
        for old in swallowed:
            del self.open[key, old.start, old.end]
            if not window.finished:
                self._retract(old)
            window.trigger.merge(old.trigger)
            window.rows += old.rows
            window.pending += old.pending if self.spec.mode == "discarding" else old.rows
        self._join(window, joined)

    # Sessions of a greatest length

    def _cut(self, rows: list[Row]) -> None:
        late: list[int] = []
        for key, intervals in self._intervals(rows).items():
            new = [Atom(row, start, end, start) for start, end, (row,) in intervals]
            while True:  # without its late rows a session may begin elsewhere
                pieces = self._pieces([*self.atoms[key], *new])
                gone = [atom for atom in new if self._expired(atom.until, self.before[key])]
                late += [atom.row.id for atom in gone]
                new = [atom for atom in new if atom not in gone]
                if not gone:
                    break
            self.atoms[key] += new
            for atom in self.atoms[key]:
                atom.anchor = atom.began
            replaced = [w for w in self.open.values() if w.key == key and (w.start, w.end) not in pieces]
            for old in replaced:
                del self.open[key, old.start, old.end]
                self._retract(old)
            for atom in new:
                self._enter(atom.row)
            for bounds, held in pieces.items():
                known = (key, *bounds) in self.open
                joined = sorted(atom.row for atom in held if atom in new or not known)
                if joined:
                    window = self._window(key, *bounds)
                    for old in replaced if not known else ():  # the earliest deadline stands
                        if old.start < window.end and window.start < old.end:
                            window.trigger.inherit(old.trigger)
                    self._join(window, joined)
        self.out.late += sorted(late)

    def _pieces(self, atoms: list[Atom]) -> dict[tuple[int, int], list[Atom]]:
        """Sessions cut at their start plus multiples of the greatest length; only pieces that hold rows."""
        bounds: dict[tuple[int, int], list[Atom]] = defaultdict(list)
        for _, end, held in self._chains([(atom.start, atom.end, [atom]) for atom in atoms]) if atoms else ():
            anchor, most = min(atom.anchor for atom in held), self.spec.window[3]
            for atom in held:
                start = anchor + (atom.start - anchor) // most * most
                atom.began, atom.until = anchor, min(start + most, end)
                if not atom.emitted:
                    bounds[start, atom.until].append(atom)
        return bounds

    def _wear_away(self) -> None:
        for key, atoms in self.atoms.items():
            for atom in atoms:
                atom.emitted |= self._expired(atom.until, self.after)
            self.atoms[key] = [a for a in atoms if not (a.emitted and self._expired(a.end, self.after))]

    # Panes

    def _evaluate(self, window: Window) -> None:
        before, after = self.before[window.key], self._reached(window.key, self.after)
        moment = Moment(self.now, window.end <= after)
        completes, expires = moment.complete and window.end > before, self._expired(window.end, after) or window.closed
        asked = window.touched or completes or expires or window.trigger.due(self.now)
        window.touched = False
        if asked and not window.finished:
            fires = window.trigger.ready(moment) and (completes or bool(window.pending))
            if fires:
                window.finished = window.trigger.fire(moment)
            if fires or (expires and window.pending):
                timing = "ON_TIME" if completes else "LATE" if moment.complete else "EARLY"
                self._emit(window, timing, is_last=expires or window.finished)
        if expires:
            del self.open[window.key, window.start, window.end]

    def _emit(self, window: Window, timing: str, *, is_last: bool) -> None:
        rows = window.pending if self.spec.mode == "discarding" else window.rows
        values = aggregate(rows)[: None if self.spec.lists else -2]
        if self.spec.only_updated and window.standing:
            same = not rows if self.spec.mode == "discarding" else values == window.standing.values
            if same:
                return
        self._retract(window)
        index, later = window.panes, window.nonspeculative if timing != "EARLY" else -1
        window.panes += 1
        window.nonspeculative += timing != "EARLY"
        time = self._output_time(window, rows)
        key = shown(window.key)
        window.standing = Pane(
            1, window.end, window.start, key, values, timing, index, later, index == 0, is_last, time, self.now
        )
        self.out.panes.append(window.standing)
        window.pending = []

    def _retract(self, window: Window) -> None:
        if self.spec.mode == "retracting" and window.standing:
            self.out.panes.append(window.standing._replace(diff=-1, is_last=False, at=self.now))

    def _output_time(self, window: Window, rows: list[Row]) -> int | None:
        if self.spec.by_row:
            return max(self.watermark, *(row.time for row in window.rows if row.time is not None))
        choose = {"earliest": min, "latest": max}.get(self.spec.at)
        times = [row.time for row in rows if row.id in self.on_time and row.time is not None]
        if choose and times:
            return choose(times)
        return window.end - 1 if window.end < MAX else None
