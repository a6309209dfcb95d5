"""RowProcessor: a processor that is called for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from datetime import datetime, timedelta
from functools import partial
from itertools import compress
from operator import not_
from typing import Any, Literal, TypeAlias

import polars as pl

from eventide.errors import DataError, cause_text, user_line
from eventide.kernels.keys import join_on_key
from eventide.processors.declared_columns import frame_of
from eventide.processors.errors import processor_failed
from eventide.processors.keyed_state import AT, ON_CLOCK, TIMER, Keys
from eventide.processors.processor import Processor, TimerRequest
from eventide.time import MAX, instant

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = "Mapping[str, Any] | Iterable[Mapping[str, Any]] | None"

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_GROUP = "__group"


class RowProcessor(Processor):
    """A processor that is called for each row, with the state of its key as a dict.

    ``state`` has the columns of ``state_schema``, None at first. Its content after the call is stored. A key is
    forgotten when nothing is left, as after ``state.clear()``. Rows to emit are returned, or yielded: dicts with the
    columns of ``output=``.

    >>> import eventide as ev, polars as pl
    >>> class Counting(ev.RowProcessor):
    ...     state_schema = {"n": pl.Int64}
    ...
    ...     def process_row(self, edge, row, state):
    ...         state["n"] = (state["n"] or 0) + 1
    ...         return {"shop": row["shop"], "n": state["n"]}
    >>> counted = ev.stream(time="t", key="shop").process(Counting(), output={"shop": pl.String, "n": pl.Int64})
    >>> counted.local(pl.DataFrame({"t": [1, 2, 3], "shop": ["kiel", "ulm", "kiel"]})).panes["n"].to_list()
    [1, 1, 2]
    """

    on_error: Literal["raise", "dead"] = "raise"  # set by .process(on_error=…)

    def process_row(self, edge: str, row: Row, state: Row) -> Rows:
        """Process a row of an input. ``self.time`` is its event time, ``self.late`` whether it is late."""
        raise NotImplementedError

    def on_timer_row(self, row: Row, state: Row) -> Rows:
        """Called for a due timer. ``row`` has the key, ``timer``, ``at`` and ``clock``."""
        return None

    @property
    def time(self) -> datetime:
        """The event time of the row; in ``on_timer_row``, that of the timer."""
        return _as_datetime(self.context.at.time)

    @property
    def late(self) -> bool:
        """Whether the row is late."""
        return self.context.at.late

    def set_timer(self, at: datetime | int | str, *, name: str = "", clock: bool = False) -> None:
        """Set a timer of this row's key; ``at`` is an instant, or microseconds."""
        self.context.at.timers.append((name, clock, at if isinstance(at, int) else instant(at)))

    def remove_timer(self, *, name: str = "", clock: bool = False) -> None:
        """Remove a timer of this row's key."""
        self.context.at.timers.append((name, clock, None))

    def process(self, edge: str, rows: pl.DataFrame) -> None:
        """Call ``process_row`` for each row, in order."""
        columns = [name for name in rows.columns if not name.startswith("__")]
        times = zip(rows[self.TIME].to_physical(), rows[self.LATE], strict=True)
        self._each("process_row", rows, rows.select(columns).to_dicts(), list(times), partial(self.process_row, edge))

    def on_timer(self, rows: pl.DataFrame) -> None:
        """Call ``on_timer_row`` for each timer in the order of times, unless an earlier call removed or reset it."""
        times = [(at, False) for at in rows[AT].to_physical()]
        self._each("on_timer_row", rows, rows.to_dicts(), times, self.on_timer_row)

    def _each(
        self,
        method: str,
        rows: pl.DataFrame,
        seen: list[Row],
        times: list[tuple[int, bool]],
        call: Callable[[Row, Row], Rows],
    ) -> None:
        keys, groups = _grouped(rows, self.context.keys)
        known = self.state.get(keys).select(*self.state_schema).to_dicts() or [{} for _ in range(keys.height)]
        states = _States(known, self.state_schema)
        out: list[Mapping[str, Any]] = []
        timers = _TimerRequests(self.context.now, ended=self.context.watermark == MAX)
        failed: dict[int, str] = {}
        timed = method == "on_timer_row"
        careful = self.on_error == "dead" and not timed
        for i, (group, row) in enumerate(zip(groups, seen, strict=True)):
            time: int | None
            time, late = times[i]
            if timed:
                time = timers.turn_of(group, row[TIMER], row[ON_CLOCK], time)
                if time is None:
                    continue
                row[AT] = _as_datetime(time)
            self.context.at = at = TimerRequest(time, late)
            state = states.of(group, copied=careful)
            try:
                emitted = _listed(call(row, state))
                if careful:  # a row that fails must not change anything
                    frame_of(emitted, self.context.output), frame_of([state], self.context.state.columns)
            except Exception as cause:
                if not careful:
                    raise processor_failed(self.context.who, method, row, cause) from cause
                failed[i] = _row_failed(self.context.who, method, cause)
                continue
            states.note(group, state)
            out += emitted
            timers.note(group, at)
        try:
            self._apply(keys, states, out, timers.timers)
        except DataError as cause:
            raise processor_failed(self.context.who, method, None, cause) from cause
        if failed:
            self.context.dead(rows[list(failed)], list(failed.values()))

    def _apply(
        self,
        keys: pl.DataFrame,
        states: _States,
        out: list[Mapping[str, Any]],
        timers: dict[tuple[int, str, bool], int | None],
    ) -> None:
        """Apply the changes of all calls to state and timers, and emit their rows."""
        changed, emptied = states.changed()
        if changed:
            values = frame_of([states.states[group] for group in changed], self.context.state.columns)
            self.state.put(pl.concat([keys[changed], values], how="horizontal"))
        if emptied:
            self.state.remove(keys[emptied])
        if out:
            self.emit(frame_of(out, self.context.output))
        if timers:
            requests = keys[[group for group, _, _ in timers]].with_columns(
                pl.Series(TIMER, [name for _, name, _ in timers], pl.String),
                pl.Series(ON_CLOCK, [clock for _, _, clock in timers], pl.Boolean),
                pl.Series(AT, list(timers.values()), pl.Int64),
            )
            self.timers.put(requests.filter(pl.col(AT).is_not_null()))
            self.timers.drop(requests.filter(pl.col(AT).is_null()))


class _States:
    """The states of the keys of a call, by the number of the key."""

    def __init__(self, states: list[Row], schema: Mapping[str, Any]) -> None:
        self.states = states
        self._before = deepcopy(states)
        self._schema = schema

    def of(self, group: int, *, copied: bool) -> Row:
        """Return the state that a call may change."""
        return deepcopy(self.states[group]) if copied else self.states[group]

    def note(self, group: int, state: Row) -> None:
        """Store the state after a call."""
        self.states[group] = state or dict.fromkeys(self._schema)

    def changed(self) -> tuple[list[int], list[int]]:
        """Return the keys whose state changed, and those whose state is empty now."""
        pairs = enumerate(zip(self.states, self._before, strict=True))
        changed = [group for group, (state, before) in pairs if state != before]
        left = [any(value is not None for value in self.states[group].values()) for group in changed]
        return list(compress(changed, left)), list(compress(changed, map(not_, left)))


class _TimerRequests:
    """The timers that calls have set, or removed (None), by the number of the key, their name and their clock."""

    def __init__(self, now: int, *, ended: bool) -> None:
        self.timers: dict[tuple[int, str, bool], int | None] = {}
        self._soonest: dict[int, int] = {}
        self._now = now
        self._ended = ended

    def note(self, group: int, at: TimerRequest) -> None:
        """Record the timers that a call for this key has set."""
        for name, clock, time in at.timers:
            self.timers[group, name, clock] = time
            if time is not None and time > at.time:
                self._soonest[group] = min(time, self._soonest.get(group, time))

    def turn_of(self, group: int, name: str, clock: bool, at: int) -> int | None:
        """Return the time of a due timer if it fires in this round, otherwise None.

        A timer that was set again, or that an earlier timer precedes, fires in the next round, so that the timers of a
        key fire in order. At the end of the stream there is no next round, and it fires now.
        """
        timer = group, name, clock
        if self._ended:
            time = self.timers.get(timer, at)
            return None if time is None or (clock and time > self._now) else time
        if timer in self.timers:
            return None
        if self._soonest.get(group, at + 1) <= at:
            self.timers[timer] = at
            return None
        return at


def _as_datetime(time: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time)


def _grouped(rows: pl.DataFrame, keys: Keys) -> tuple[pl.DataFrame, list[int]]:
    """Return the distinct keys of rows, and the number of each row's key."""
    row_keys = keys.of(rows, "process()")
    distinct = row_keys.unique(maintain_order=True)
    numbered = join_on_key(row_keys, distinct.with_row_index(_GROUP), keys.by, maintain_order="left")
    return distinct, numbered[_GROUP].to_list()


def _listed(rows: Rows) -> list[Mapping[str, Any]]:
    if rows is None:
        return []
    return [rows] if isinstance(rows, Mapping) else list(rows)


def _row_failed(processor: str, method: str, cause: BaseException) -> str:
    """Return the reason of a dead letter in one line."""
    line = user_line(cause)
    return f"{cause_text(cause)} (in {processor}.{method}{'' if line is None else f', line {line[1]}'})"
