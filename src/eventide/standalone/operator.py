"""The window operator that runs by itself: what all of its kinds do with a message, step by step.

1. While downstream refuses outputs, no message is taken.
2. A message that was taken before is a replay, and changes nothing.
3. A message whose windows are all out of retention is a dead letter.
4. It enters its windows, which are opened where they are not.
5. The policies say of which windows news are told: early, when a window is full, late.
6. Outputs are made durable together with everything else, then sent.
7. What is out of retention goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import polars as pl

from eventide.errors import standalone as errors
from eventide.operators import columns as c
from eventide.standalone import columns as s
from eventide.standalone.clock import Clock, Moment
from eventide.standalone.contents import Content
from eventide.standalone.design import Design
from eventide.standalone.intake import Rows, admitted, frame_of
from eventide.standalone.outbox import Downstream, Outbox
from eventide.standalone.placing import SessionWindows
from eventide.standalone.progress import Progress
from eventide.standalone.restoring import Restoring
from eventide.standalone.shown import dead_letters, message_rows, output_rows, window_rows
from eventide.standalone.stores import MemoryStore, Range, SqliteStore
from eventide.standalone.stores.windows import NAME
from eventide.standalone.windowing import Windowing
from eventide.state.snapshot import dump, load
from eventide.time import MAX, MIN, instant

Dead: TypeAlias = Callable[[pl.DataFrame], object]


class WindowOperator:
    """What all standalone operators have in common. Make one of its kinds, such as ``ev.WindowAggregator``."""

    def __init__(
        self,
        design: Design,
        *,
        store: str | Path | None,
        downstream: Downstream | None,
        dead: Dead | None,
        schema: Mapping[str, Any] | None,
    ) -> None:
        self._design = design
        self._dead = dead
        self._unusable: list[pl.DataFrame] = []
        self._store = MemoryStore(design.layout) if store is None else SqliteStore(store, design.layout)
        self._progress = Progress(design.course)
        self._clock = Clock()
        self._schema: pl.Schema | None = None
        self._content: Content | None = None
        self._windowing: Windowing | None = None
        self._restoring: Restoring | None = None
        try:
            saved = self._store.state()
            last = 0 if saved is None else self._resume(load(saved), str(store))
            if schema is not None and self._schema is None:
                self._bind(pl.Schema(schema))
        except BaseException:
            self._store.close()
            raise
        self._outbox = Outbox(self._store, downstream, last)

    def add_message(self, message: Rows, *, now: Moment | None = None) -> None:
        """Take in a message (a dict), several (a list of dicts, or a frame), at the time ``now``.

        Several messages are one step: policies are asked once, after the last of them.
        """
        if self._outbox.blocked:
            raise errors.delivery_disabled(len(self._outbox.waiting))
        frame = frame_of(message, self._schema)
        self._bind(frame.schema)
        at = self._clock.at(now)
        messages, unusable = admitted(frame, self._design.roles)
        opened = self._take_in(messages, unusable, at)
        self._deliver(opened)

    def timeout(self, *, now: Moment | None = None) -> bool:
        """Time has passed: send what was refused before, then tell what is due. False: it was refused again."""
        at = self._clock.at(now)
        if self._outbox.blocked and not self._send():
            return False
        if self._windowing is not None:
            changed = self._judge(None, self._progress, at)
            self._deliver(changed)
        return not self._outbox.blocked

    def get_result(self) -> pl.DataFrame:
        """The outputs that wait: a copy, until ``flush()`` clears them or downstream takes them."""
        waiting = self._outbox.waiting
        if waiting:
            return pl.concat(waiting)
        return pl.DataFrame() if self._windowing is None else self._outputs(self._no_windows(), self._clock.now)

    def flush(self) -> None:
        """Make durable what has happened. Without ``downstream``, the outputs that wait count as taken."""
        if not self._outbox.automatic:
            self._outbox.clear()
        self._commit()

    def get_windows(
        self, start: Moment | None = None, end: Moment | None = None, *, key: object = None
    ) -> pl.DataFrame:
        """The windows that share an instant with ``[start, end)``, in the order in which they expire.

        Windows counted in rows are found by the offsets of their messages: those that hold one in ``[start, end)``.
        """
        if self._content is None:
            raise errors.no_schema()
        session = None if key is None else self._design.window_key(key, self._columns)
        within = self._position(start, MIN), self._position(end, MAX)
        windows = self._windows(*within, session)
        content = self._content.shown(windows, self._store.messages)
        return window_rows(windows, content, self._design.axis, timed=self._design.roles.time is not None)

    def get_messages(
        self,
        start: Moment | None = None,
        end: Moment | None = None,
        *,
        key: object = None,
        on: object = None,
        start_offset: int | None = None,
        end_offset: int | None = None,
        told: bool = False,
    ) -> pl.DataFrame:
        """The messages in ``[start, end)`` that are kept, all of them or those of a key, by time and offset.

        Offsets sharpen the ends: at ``start`` messages count from ``start_offset`` on, and those at ``end`` itself
        up to ``end_offset``. Without ``start`` or ``end``, offsets are bounds by themselves. Where windows are counted
        in rows, ``start`` and ``end`` are offsets, too. ``told=True`` leaves out what waits for a policy and was in no
        output yet.
        """
        if self._content is None:
            raise errors.no_schema()
        if not self._content.needs_messages:
            raise errors.keeps_no_messages(self._design.roles.operator)
        session, equal, nothing = self._design.lookup(key, on, self._columns)
        first, last = self._position(start, MIN), self._position(end, MAX)
        # Without a time, an offset bounds the messages by itself.
        lower = start_offset if start is None and start_offset is not None else MIN
        upper = end_offset if end is None and end_offset is not None else MAX
        if self._design.axis == "rows":
            lower, upper = max(lower, first), min(upper, last if end is None else last - 1)
            within = self._holding(lower, upper)
        else:
            sharper = None if start is None else start_offset, None if end is None else end_offset
            within = Range(first, last, *sharper)
        found = None if nothing else self._store.messages.read(within, session=session, equal=equal)
        if found is None:
            return pl.DataFrame(schema=self._columns)
        if (lower, upper) != (MIN, MAX):
            found = found.filter(pl.col(s.OFFSET).is_between(lower, upper))
        return message_rows(found, self._store.windows.all() if told else None).select(self._columns.names())

    @property
    def dead(self) -> pl.DataFrame:
        """The messages that could not be used so far, with a reason; none where ``dead=`` takes them."""
        return pl.concat(self._unusable, how="vertical_relaxed") if self._unusable else pl.DataFrame()

    @property
    def checkpoint(self) -> int | None:
        """The greatest offset taken in. What follows it is new; what is up to it may be replayed without harm."""
        return self._progress.seen.last

    def recover_from(self) -> int | None:
        """The offset from which the stream must be read (again) to go on; None: from its beginning.

        That is the one after the checkpoint. Where messages were lost but windows were not, it is the first offset of
        the earliest window: replayed messages are stored again, and tell nothing that was told before.
        """
        if self._restoring is not None:
            return self._restoring.first
        return None if self.checkpoint is None else self.checkpoint + 1

    def explain(self) -> str:
        """The operator in words."""
        needs = "known with the first message" if self._content is None else self._content.needs_messages
        return self._design.explain(needs)

    def close(self) -> None:
        """Let go of the store. What was not flushed is read again from the stream."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Steps

    def _take_in(self, messages: pl.DataFrame, unusable: pl.DataFrame, now: int) -> bool:
        """Messages into windows. True: something happened that must be durable."""
        assert self._windowing is not None and self._content is not None
        before = self._progress
        replays, fresh = self._parted(messages)
        if self._restoring is not None and replays.height:
            self._restoring = self._restoring.after(self._store.messages, replays)
        fresh = before.numbered(fresh)
        after = before.after(fresh)
        again, unusable = self._parted(unusable)
        if self._restoring is not None:
            self._restoring = self._restoring.seeing(again[s.OFFSET].drop_nulls())
        else:
            replays = pl.concat([replays, again])
            self._bury({"gap_forgotten": replays.filter(pl.Series(before.seen.doubtful(replays[s.OFFSET])))}, now)
        taken = pl.concat([fresh[s.OFFSET], unusable[s.OFFSET].drop_nulls()])
        windows = self._store.windows.all()
        placed = self._design.placing.placed(before.beside(fresh), windows)
        entered = self._windowing.entered(placed.rows, self._no_windows() if windows is None else windows)
        if self._content.needs_messages:
            counted = fresh.join(placed.rows, on=s.OFFSET, how="semi", maintain_order="left")
            failed = counted.clear() if entered.failed is None else entered.failed
            self._store.messages.put(counted.join(failed, on=s.OFFSET, how="anti", maintain_order="left"))
        self._bury({None: unusable, "out_of_retention": placed.expired, "no_window": placed.nowhere}, now)
        if entered.failed is not None:
            self._bury({"failed": entered.failed}, now)
        if entered.gone.height:
            self._store.windows.delete(entered.gone)
        self._progress = after.taking(taken)
        restored = self._restoring is not None and (fresh.height > 0 or self._restoring.over)
        if restored:
            self._restoring = None
        if fresh.height == placed.expired.height and not restored:  # nothing but replays and dead letters
            return False
        # After a crash nobody asks for what lies below the checkpoint.
        overtaken = before.seen.reaches_beyond(taken)
        return self._judge(entered.windows, before, now) or entered.opened or overtaken

    def _parted(self, messages: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Replays, and what is new."""
        offsets = messages[s.OFFSET]
        if offsets.null_count():
            offsets = offsets.fill_null(MIN)  # which no message has
        known = self._progress.seen.hold(offsets)
        if not known.any() and offsets.n_unique() == offsets.len():
            return messages.clear(), messages
        first = (offsets.is_first_distinct() | messages[s.OFFSET].is_null()).to_numpy()
        return messages.filter(pl.Series(known)), messages.filter(pl.Series(~known & first))

    def _judge(self, entered: pl.DataFrame | None, before: Progress, now: int) -> bool:
        """Tell what is to be told, drop what is out of retention. True: something happened."""
        assert self._windowing is not None
        if self._restoring is not None:  # what is told now would be told without the messages that are missing
            return False
        windows = self._store.windows.all()
        known = self._no_windows() if windows is None else windows
        touched = self._windowing.untouched(known.clear()) if entered is None else entered
        others = known.join(touched, on=NAME, how="anti")
        self._progress = self._progress.retaining(pl.concat([others, touched.select(others.columns)]))
        judged = self._windowing.judged(touched, others, before, self._progress, now)
        if judged.told.height:
            rows = self._outputs(judged.told, now)
            self._outbox.add(rows.partition_by("window", *self._design.roles.window_key, maintain_order=True))
        if judged.windows.height:
            self._store.windows.put(judged.windows)
        if judged.expired.height:
            self._store.windows.delete(judged.expired)
        self._expire(judged.expired)
        return judged.told.height > 0 or judged.expired.height > 0

    def _expire(self, windows: pl.DataFrame) -> None:
        """Messages go with the last window that holds them."""
        if windows.is_empty() or self._content is None or not self._content.needs_messages:
            return
        if self._design.layout.session:
            self._store.messages.retire(windows)
        elif self._design.course.per_key:  # one key's row numbers say nothing about another's
            self._store.messages.retire(self._design.unneeded(self._progress.beside(windows)))
        else:
            self._store.messages.expire(self._design.needed_from(self._progress.lowest_floor()))

    def _deliver(self, durable: bool) -> None:
        """Outputs are durable, under their numbers, before they are sent: a crash sends the same ones again."""
        if durable:
            self._commit()
        if self._outbox.automatic and self._outbox.waiting:
            self._send()

    def _send(self) -> bool:
        try:
            return self._outbox.send()
        finally:
            self._commit()

    def _outputs(self, told: pl.DataFrame, now: int) -> pl.DataFrame:
        assert self._content is not None
        return output_rows(told, self._content.told(told, self._store.messages), self._design, now)

    def _bury(self, dead: Mapping[str | None, pl.DataFrame], now: int) -> None:
        """Dead letters, by the reason, unless that stands beside them."""
        for reason, messages in dead.items():
            if messages.height:
                letters = dead_letters(messages, reason, self._columns, now)
                if self._dead is None:
                    self._unusable.append(letters)
                else:
                    self._dead(letters)

    # What is known of the messages, and what outlives the process

    @property
    def _columns(self) -> pl.Schema:
        assert self._schema is not None
        return self._schema

    def _no_windows(self) -> pl.DataFrame:
        assert self._windowing is not None
        return pl.DataFrame(schema=self._windowing.schema)

    def _bind(self, schema: pl.Schema) -> None:
        if schema == self._schema:
            return
        design = self._design
        design.roles.check(schema)
        content = design.content(schema)
        windowing = Windowing(design.placing, design.policies, content, design.roles.window_key, schema)
        if self._windowing is not None and (content.needs_messages or windowing.schema != self._windowing.schema):
            name = next(name for name, dtype in schema.items() if dtype != self._columns[name])
            raise errors.column_was_null(name, schema[name])
        self._schema, self._content, self._windowing = schema, content, windowing

    def _commit(self) -> None:
        schema = None if self._schema is None else pl.DataFrame(schema=self._schema)
        facts = {"made": self._design.facts(), "last": self._outbox.last, "now": self._clock.now, "schema": schema}
        self._store.commit(lambda: dump(facts | self._progress.saved()))

    def _resume(self, saved: dict[str, Any], path: str) -> int:
        for name, now in self._design.facts().items():
            if saved["made"].get(name) != now:
                raise errors.another_operator(path, name, saved["made"].get(name, "nothing"), now)
        if saved["schema"] is not None:
            self._bind(saved["schema"].schema)
        self._progress = self._progress.resumed(saved)
        self._clock.now = saved["now"]
        windows = self._store.windows.all()
        if windows is not None and windows.height and self._content is not None and self._content.needs_messages:
            lost = self._store.messages.count() == 0
            self._restoring = Restoring.of(windows, self._design.course, self._progress.seen) if lost else None
        last: int = saved["last"]
        return last

    def _windows(self, start: int, end: int, session: str | None = None) -> pl.DataFrame:
        """The windows that share a part of ``[start, end)``: instants, or offsets where windows are counted in rows."""
        store = self._store.windows
        if self._design.axis == "time":
            found = store.overlapping(start, end, session=session)
            return self._no_windows() if found is None else found
        known = store.overlapping(MIN, MAX, session=session)
        if known is None:
            return self._no_windows()
        found = known.filter((pl.col(s.START_OFFSET) < end) & (pl.col(s.LAST_OFFSET) >= start))
        by_key = isinstance(self._design.placing, SessionWindows)
        return found if by_key else found.sort(s.START_OFFSET, c.START, c.END, maintain_order=True)

    def _holding(self, lower: int, upper: int) -> Range:
        """Where messages with these offsets lie, on the row axis: in windows, because others are not kept."""
        if (lower, upper) == (MIN, MAX):
            return Range()
        windows = self._windows(lower, min(upper, MAX - 1) + 1)
        first, last = windows[c.START].min(), windows[c.END].max()
        return Range(first, last) if isinstance(first, int) and isinstance(last, int) else Range(MIN, MIN)

    def _position(self, value: Moment | None, default: int) -> int:
        if value is None:
            return default
        if self._design.axis == "rows" and not isinstance(value, int):
            raise errors.not_an_offset(value)
        return value if isinstance(value, int) else instant(value)
