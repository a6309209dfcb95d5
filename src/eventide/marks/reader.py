"""Readers: the events of a stream, shared by the readers of a group."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta

import numpy as np
import polars as pl
import pyarrow as pa

from eventide._arguments import is_integer
from eventide.errors import PlanError, shown
from eventide.marks.errors import ReaderReplacedError, SegmentsLostError, invalid_name, reserved_column
from eventide.marks.events import OFFSET, SEGMENT, decode_blobs
from eventide.marks.mark import TimeWindow
from eventide.marks.reader_group import GroupState, MarkTracker, ReaderGroup, Start, readable_segments
from eventide.marks.streams import Stream
from eventide.time import duration


@dataclass(frozen=True, repr=False)
class Batch:
    """Events, in order within each segment.

    >>> import pyarrow as pa
    >>> batch = Batch(pa.table({"shop": ["kiel"], "_segment": [0], "_offset": [0]}), position={0: 1})
    >>> len(batch), batch.frame["shop"].to_list()
    (1, ['kiel'])
    """

    table: pa.Table
    """The columns of the stream, ``_segment`` and ``_offset``."""
    position: dict[int, int]
    """The position of the reader after this batch, in each of its segments."""

    def __repr__(self) -> str:
        events, segments = len(self.table), len(self.position)
        return f"<Batch: {events:,} event{'s' * (events != 1)} of {segments:,} segment{'s' * (segments != 1)}>"

    def __len__(self) -> int:
        return len(self.table)

    @property
    def frame(self) -> pl.DataFrame:
        """The events as a Polars frame."""
        return pl.DataFrame(pl.from_arrow(self.table))


@dataclass
class SegmentCursor:
    """The position of a reader in a segment, with the decoded events ahead of it."""

    segment: int
    position: int
    committed: int = -1
    is_leaving: bool = False
    """Whether it will be released after the next commit: nothing more is read from it."""
    ahead: pa.Table | None = None

    def __post_init__(self) -> None:
        self.committed = self.position if self.committed < 0 else self.committed

    @property
    def is_dirty(self) -> bool:
        """Whether it has uncommitted reads."""
        return self.position != self.committed

    def peek(self, stream: Stream, rows: int) -> pa.Table | None:
        """The next events, at most ``rows``. The rest of a decoded blob is kept for the next call."""
        if self.ahead is None or not len(self.ahead):
            blobs = stream.store.read(stream.name, self.segment, self.position, rows=rows)
            if not blobs:
                self.ahead = None
                return None
            table = decode_blobs(stream.name, self.segment, blobs)
            self.ahead = table.slice(self.position - blobs[0].offset)
        return self.ahead.slice(0, rows)

    def advance(self, rows: int) -> None:
        """Move past events that were read."""
        if self.ahead is not None:
            self.ahead = self.ahead.slice(rows)
        self.position += rows

    def with_location(self, table: pa.Table) -> pa.Table:
        """Add the location columns to events that begin at the position."""
        segments = pa.array(np.full(len(table), self.segment, np.int32))
        offsets = pa.array(np.arange(self.position, self.position + len(table), dtype=np.int64))
        return table.append_column(SEGMENT, segments).append_column(OFFSET, offsets)


@dataclass
class _Membership:
    """The member number of a reader, and the segments that it still owns."""

    number: int
    retained: set[int] = field(default_factory=set)


class Reader:
    """Reads the segments of a stream that its group assigns to it. Each event goes to one reader of the group.

    ``start`` is where a new group starts. A reader holds its segments for ``reader_lease`` from each call; then other
    readers take them and continue at its last ``commit()``. So events may be read again after a crash: process them
    idempotently, for example by ``_segment`` and ``_offset``. A reader that is opened again under its ``reader_id``
    takes over at once. Commit regularly: segments are reassigned at commits, and successors of a segment are read
    once it was read *and committed*.

    Use it from one thread. ``close()`` (or the end of a ``with`` block) releases the segments; it does not commit.

    >>> import pyarrow as pa
    >>> from eventide.marks import Stream, Writer
    >>> from eventide.marks.stores.memory import MemoryStore
    >>> from eventide.marks.stores.store import Config
    >>> store = MemoryStore()
    >>> _ = store.create_stream("orders", Config(schema=pa.schema({"shop": pa.string()})))
    >>> with Writer(Stream(store, "orders"), "till-1") as till:
    ...     _ = till.append([{"shop": "kiel"}, {"shop": "bonn"}])
    >>> with Reader(Stream(store, "orders")) as reader:
    ...     print(reader.read().table.to_pylist())
    ...     reader.commit()
    [{'shop': 'kiel', '_segment': 0, '_offset': 0}, {'shop': 'bonn', '_segment': 0, '_offset': 1}]
    """

    def __init__(
        self,
        stream: str | Stream,
        group: str = "default",
        reader_id: str | None = None,
        *,
        start: Start = "earliest",
        reader_lease: str | timedelta = "30 seconds",
        token: str | None = None,
    ) -> None:
        if reader_id is not None and (not isinstance(reader_id, str) or not reader_id):
            raise invalid_name("reader_id", reader_id)
        self._process = os.getpid()
        self._lease = duration(reader_lease, what="reader_lease of Reader()")
        self.group = ReaderGroup(stream, group, token=token)
        self.stream = self.group.stream
        self.reader_id = reader_id or f"reader-{uuid.uuid4().hex}"
        self._key = uuid.uuid4().hex
        """Distinguishes it in the group from other readers with the same id."""
        info = self.stream.info()
        reserved = {SEGMENT, OFFSET} & set(info.config.schema.names)
        if reserved:
            raise reserved_column(self.stream.name, min(reserved))
        self._segments = info.segments
        self._ends: dict[int, int] = {}
        """The ends of sealed segments."""
        self._refresh_segments()
        self._cursors: dict[int, SegmentCursor] = {}
        self._lost: set[int] = set()
        self._in_doubt: dict[int, int] = {}
        """The positions of a commit that was not acknowledged."""
        self._next_segment = 0
        self._is_closed = False
        self.group.create(start)
        state = self.group.update(self._join)
        self._number, self._generation = state.last_member, state.generation
        self._mark_tracker = MarkTracker(self.stream, state.passed_mark)
        self._sync()

    def __repr__(self) -> str:
        return f"<Reader {self.reader_id!r} of {self.stream.name!r}, group {self.group.name!r}>"

    @property
    def segments(self) -> list[int]:
        """The segments that are assigned to it."""
        return sorted(self._cursors)

    @property
    def at_end(self) -> bool:
        """Whether the stream has ended, and this reader has read, and the others have committed, all of it."""
        self._refresh_segments()
        return self._segments.has_ended and not readable_segments(self._position(self.group.state()), self._ends)

    def read(self, rows: int = 10_000, *, wait: str | timedelta | None = None) -> Batch | None:
        """The next events, at most ``rows``; None if none arrive within ``wait``."""
        if not is_integer(rows, at_least=1):
            raise PlanError(f"read(rows={shown(rows)}): it must be a whole number, 1 or more.")
        timeout = 0 if wait is None else duration(wait, what="wait of read()")
        deadline, pause = time.monotonic() + timeout / 1e6, 0.001
        while True:
            batch = self._read(rows)
            remaining = deadline - time.monotonic()
            if batch is not None or remaining <= 0 or self.at_end:
                return batch
            time.sleep(min(pause, remaining))
            pause = min(2 * pause, 0.1)

    def __iter__(self) -> Iterator[Batch]:
        """Batches, until there are no more events."""
        while (batch := self.read()) is not None:
            yield batch

    def commit(self) -> None:
        """Store the position after all batches that ``read()`` returned.

        If segments were reassigned before, the others are committed, and ``SegmentsLostError`` names the lost ones.
        """
        self._refresh_segments()  # finished segments may have successors
        self._sync(commit=True)
        lost, self._lost = sorted(self._lost), set()
        if lost:
            numbers = f"segment {lost[0]}" if len(lost) == 1 else f"segments {', '.join(map(str, lost))}"
            raise SegmentsLostError(
                f"Reader {self.reader_id!r} of group {self.group.name!r} has lost {numbers}: its lease ended before "
                "the commit, so their events will be read again. Other segments are committed. Deduplicate by "
                "(_segment, _offset), commit more often, or choose a longer reader_lease."
            )

    def heartbeat(self) -> None:
        """Renew the lease, as every call does: for processing that takes longer than the lease."""
        self._sync()

    def checkpoint(self) -> dict[int, int]:
        """The committed position of the whole group, as a cut."""
        return self.group.checkpoint()

    def time_window(self) -> TimeWindow:
        """The event-time range at the position of the group: committed by others, read by this reader.

        ``lower`` is the time of the last mark whose cut is passed: all events before it have been read. No writer had
        noted a time after ``upper`` when the current events were written. None means unknown. Neither goes back.
        """
        self._check_open()
        return self._mark_tracker.window(self._position(self.group.state()))

    def close(self) -> None:
        """Release the segments at once. Uncommitted events will be read again. Idempotent."""
        if not self._is_closed and os.getpid() == self._process:  # a copy in a forked process owns nothing
            self._is_closed = True
            self._cursors = {}
            try:
                if self.stream.store.group(self.stream.name, self.group.name) is not None:
                    self.group.update(lambda state: state.remove(state.members_with_key(self._key)))
            finally:
                self.group.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _join(self, state: GroupState) -> GroupState:
        until = self.stream.store.now() + self._lease
        return state.join(self.reader_id, until=until, lease=self._lease, key=self._key)[0]

    def _read(self, rows: int) -> Batch | None:
        while True:
            self._sync()
            batch = self._next_batch(rows)
            if batch is not None or not self._refresh_segments():
                return batch

    def _next_batch(self, rows: int) -> Batch | None:
        tables = self._peek(rows)
        if not tables:
            return None
        table = pa.concat_tables([self._cursors[number].with_location(table) for number, table in tables.items()])
        for number, events in tables.items():  # last: after a failure before this line nothing counts as read
            self._cursors[number].advance(len(events))
            self._next_segment = number + 1
        return Batch(table, {number: cursor.position for number, cursor in sorted(self._cursors.items())})

    def _peek(self, rows: int) -> dict[int, pa.Table]:
        """The next events by segment, round-robin.

        If a segment cannot be read after others could, their events are returned; the next call fails.
        """
        numbers = sorted(number for number, cursor in self._cursors.items() if not cursor.is_leaving)
        first = [number for number in numbers if number >= self._next_segment]
        tables: dict[int, pa.Table] = {}
        for number in first + [number for number in numbers if number < self._next_segment]:
            missing = rows - sum(map(len, tables.values()))
            if missing == 0:
                break
            try:
                table = self._cursors[number].peek(self.stream, missing)
            except Exception:
                if not tables:
                    raise
                break
            if table is not None:
                tables[number] = table
        return tables

    def _sync(self, *, commit: bool = False) -> None:
        """Renew the lease, commit, rebalance, and find out which segments were lost."""
        self._check_open()
        membership = _Membership(self._number)
        try:
            state = self.group.update(lambda state: self._next_state(state, membership, commit=commit))
        except BaseException:
            if commit:
                self._in_doubt = {number: self._cursors[number].position for number in self._dirty()}
            raise
        self._number = membership.number
        retained = membership.retained
        self._lost |= {
            number for number in self._dirty() if number not in retained and not self._is_committed(number, state)
        }
        self._in_doubt = {}
        for number in retained:
            cursor = self._cursors[number]
            committed = max(cursor.committed, state.cut.get(number, cursor.position))
            cursor.committed = cursor.position if commit else committed
        self._cursors = {
            number: self._cursors[number] if number in retained else SegmentCursor(number, state.cut[number])
            for number in state.segments_of(self._number)
        }
        surplus = state.surplus(self._number, readable_segments(state.cut, self._ends), self._dirty())
        for number, cursor in self._cursors.items():
            cursor.is_leaving = number in surplus

    def _next_state(self, state: GroupState, membership: _Membership, *, commit: bool) -> GroupState:
        if state.generation != self._generation:
            raise ReaderReplacedError(
                f"Group {self.group.name!r} was reset or deleted. Discard what reader {self.reader_id!r} has read "
                "since, and open a new reader."
            )
        if any(number not in self._segments for number in state.cut):
            self._refresh_segments()
        now = self.stream.store.now()
        membership.number = self._number
        # If the group has committed beyond the own position, another reader has read the segment.
        membership.retained = {
            number
            for number in state.segments_of(self._number)
            if number in self._cursors and state.cut[number] <= self._cursors[number].position
        }
        if self._number not in state.members:  # evicted: join again, without the former segments
            state, membership.number = self._rejoin(state, now)
        state = state.evict_expired(now, except_for=membership.number)
        if not self._lease * 2 // 3 <= state.members[membership.number].until - now <= self._lease:
            state = state.renew(membership.number, until=now + self._lease)
        busy = [number for number in self._dirty() if number in membership.retained]
        if commit:
            state = state.commit({number: self._cursors[number].position for number in busy})
            passed_mark = max(state.passed_mark, self._mark_tracker.last_passed(state.cut))
            state = replace(state, passed_mark=passed_mark)
            busy = []
        state = state.advance(self._segments, self._ends)
        return state.rebalance(membership.number, readable_segments(state.cut, self._ends), busy)

    def _rejoin(self, state: GroupState, now: int) -> tuple[GroupState, int]:
        for number in state.members_with_key(self._key):  # an earlier attempt was not acknowledged
            return state, number
        if any(member.name == self.reader_id for member in state.members.values()):
            raise ReaderReplacedError(
                f"Another reader {self.reader_id!r} has joined group {self.group.name!r}. Stop this one: an id belongs "
                "to one reader."
            )
        return state.join(self.reader_id, until=now + self._lease, lease=self._lease, key=self._key)

    def _is_committed(self, number: int, state: GroupState) -> bool:
        """Whether a commit in doubt has committed the position in a segment."""
        position = self._cursors[number].position
        if self._in_doubt.get(number) != position:
            return False
        return state.cut.get(number, -1) >= position or number in self._segments.ancestors(state.cut)

    def _dirty(self) -> list[int]:
        return [number for number, cursor in self._cursors.items() if cursor.is_dirty]

    def _position(self, state: GroupState) -> dict[int, int]:
        assigned = (number for number in self._cursors if state.assignment.get(number) == self._number)
        return {**state.cut, **{number: self._cursors[number].position for number in assigned}}

    def _refresh_segments(self) -> bool:
        """Read the segments and the ends of sealed ones. Return whether more are sealed than before."""
        self._segments = self.stream.segments
        sealed = [
            segment.number for segment in self._segments.all if segment.sealed and segment.number not in self._ends
        ]
        if sealed:  # only now: their lengths no longer change
            lengths = self.stream.store.lengths(self.stream.name)
            self._ends |= {number: lengths[number] for number in sealed}
        return bool(sealed)

    def _check_open(self) -> None:
        if os.getpid() != self._process:
            raise PlanError(
                f"Reader {self.reader_id!r} of group {self.group.name!r} was opened before this process was forked, "
                "and both processes would read the same segments. Open a reader with another id in each process."
            )
        if self._is_closed:
            raise PlanError(f"Reader {self.reader_id!r} of group {self.group.name!r} is closed. Open a new one.")
