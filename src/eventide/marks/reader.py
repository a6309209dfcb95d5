"""Readers: the events of a stream, and between which times they lie."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pyarrow as pa

from eventide.errors import readers as errors
from eventide.marks.batch import OFFSET, SEGMENT, Batch, placed
from eventide.marks.group import ReaderGroup, Start
from eventide.marks.held import Held
from eventide.marks.mark import TimeWindow
from eventide.marks.passing import Passing
from eventide.marks.sharing import Sharing, readable
from eventide.marks.streams import Stream
from eventide.time import duration


@dataclass
class _Found:
    """What a reader finds out about itself when it looks at its group."""

    number: int
    kept: set[int] = field(default_factory=set)
    """The segments that are still in its hands."""


class Reader:
    """Reads the segments of a stream that its group gives it; each event goes to one reader of the group.

    ``start`` is where a new group begins. A reader holds its segments for ``reader_lease`` from each call; then others
    take them, and go on at its last ``commit()``. So after a crash events may come again: do with them what may be
    done twice, or keep what was done under ``_segment`` and ``_offset``. A reader that is opened again under its
    ``reader_id`` takes over at once. Commit regularly: segments change hands at commits, and those that follow others
    are read when these were read *and committed*.

    Call it from one thread. ``close()`` (or the end of a ``with`` block) gives the segments back; it does not commit.

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
            raise errors.not_a_name("reader_id", reader_id)
        self._process = os.getpid()
        self._lease = duration(reader_lease, what="reader_lease of Reader()")
        self.group = ReaderGroup(stream, group, token=token)
        self.stream = self.group.stream
        self.reader_id = reader_id or f"reader-{uuid.uuid4().hex}"
        self._key = uuid.uuid4().hex
        """By which it knows itself in its group, and others of the same id not."""
        info = self.stream.info()
        reserved = {SEGMENT, OFFSET} & set(info.config.schema.names)
        if reserved:
            raise errors.reserved_columns(self.stream.name, sorted(reserved))
        self._segments = info.segments
        self._ends: dict[int, int] = {}
        """Where the segments that are sealed end."""
        self._look()
        self._held: dict[int, Held] = {}
        self._lost: set[int] = set()
        self._unanswered: dict[int, int] = {}
        """What a commit asked for whose answer did not come: it may have been done."""
        self._next = 0
        self._closed = False
        self.group.begin(start)
        joined = self.group.change(self._joined)
        self._number, self._resets = joined.last, joined.resets
        self._passing = Passing(self.stream, joined.passed)
        self._sync()

    @property
    def segments(self) -> list[int]:
        """The segments that it holds."""
        return sorted(self._held)

    @property
    def at_end(self) -> bool:
        """Whether the stream has ended and everything was read: here, and (and committed) by the others."""
        self._look()
        return self._segments.has_ended and not readable(self._position(self.group.state()), self._ends)

    def read(self, rows: int = 10_000, *, wait: str | timedelta | None = None) -> Batch | None:
        """The next events, at most ``rows``; None if there are none (until ``wait`` has passed)."""
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise errors.bad_rows(rows)
        patience = 0 if wait is None else duration(wait, what="wait of read()")
        until, pause = time.monotonic() + patience / 1e6, 0.001
        while True:
            batch = self._read(rows)
            left = until - time.monotonic()
            if batch is not None or left <= 0 or self.at_end:
                return batch
            time.sleep(min(pause, left))
            pause = min(2 * pause, 0.1)

    def __iter__(self) -> Iterator[Batch]:
        """Batches, until nothing more is there."""
        while (batch := self.read()) is not None:
            yield batch

    def commit(self) -> None:
        """Make durable how far this reader has come with all that ``read()`` gave. If it has lost segments meanwhile,
        the others are committed, and ``SegmentsLostError`` names those.
        """
        self._look()  # what was read to its end may be followed by others
        self._sync(commit=True)
        lost, self._lost = sorted(self._lost), set()
        if lost:
            raise errors.segments_lost(self.group.name, self.reader_id, lost)

    def heartbeat(self) -> None:
        """Say that this reader is alive, as every call does: for work that takes longer than its lease."""
        self._sync()

    def checkpoint(self) -> dict[int, int]:
        """What the whole group has read and committed, as a cut."""
        return self.group.checkpoint()

    def time_window(self) -> TimeWindow:
        """Between which times the group is reading: what others have committed counts, and what this one has read.

        ``lower`` belongs to the last mark whose cut is passed (exactly at it counts): all events before that time have
        been read. No writer had noted a later time than ``upper`` when what is being read was written. None: not
        known (yet). Neither ever goes back.
        """
        self._must_be_open()
        return self._passing.window(self._position(self.group.state()))

    def close(self) -> None:
        """Give the segments back at once. What was not committed will be read again. Again is harmless."""
        if not self._closed and os.getpid() == self._process:  # a copy in a forked process has nothing to give
            self._closed = True
            self._held = {}
            try:
                if self.stream.store.group(self.stream.name, self.group.name) is not None:
                    self.group.change(lambda group: group.without(group.numbers_of(self._key)))
            finally:
                self.group.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _joined(self, group: Sharing) -> Sharing:
        until = self.stream.store.now() + self._lease
        return group.joined(self.reader_id, until=until, lease=self._lease, key=self._key)[0]

    def _read(self, rows: int) -> Batch | None:
        while True:
            self._sync()
            batch = self._taken(rows)
            if batch is not None or not self._look():
                return batch

    def _taken(self, rows: int) -> Batch | None:
        """From one segment after the other; each call begins with the one after the last."""
        found = self._upcoming(rows)
        if not found:
            return None
        table = pa.concat_tables([placed(one, number, self._held[number].position) for number, one in found.items()])
        for number, one in found.items():  # only now: whatever failed before this, nothing counts as read
            self._held[number].pass_by(len(one))
            self._next = number + 1
        return Batch(table, {number: held.position for number, held in sorted(self._held.items())})

    def _upcoming(self, rows: int) -> dict[int, pa.Table]:
        """The next events of segments, in the order of their turns. If one cannot be read after others could, these
        are given first; the fault comes again with the next call.
        """
        numbers = sorted(number for number, held in self._held.items() if not held.leaving)
        found: dict[int, pa.Table] = {}
        for number in [one for one in numbers if one >= self._next] + [one for one in numbers if one < self._next]:
            missing = rows - sum(map(len, found.values()))
            if missing == 0:
                break
            try:
                table = self._held[number].upcoming(self.stream, missing)
            except Exception:
                if not found:
                    raise
                break
            if table is not None:
                found[number] = table
        return found

    def _sync(self, *, commit: bool = False) -> None:
        """Tell the group that this reader is alive, and what it has read if that is to be committed; give up what it
        has too much, take what it lacks, and learn what it has lost.
        """
        self._must_be_open()
        found = _Found(self._number)
        try:
            group = self.group.change(lambda before: self._synced(before, found, commit=commit))
        except BaseException:
            if commit:
                self._unanswered = {number: self._held[number].position for number in self._dirty()}
            raise
        self._number = found.number
        self._lost |= {number for number in self._dirty() if number not in found.kept and not self._done(number, group)}
        self._unanswered = {}
        for number in found.kept:
            held = self._held[number]
            held.committed = held.position if commit else max(held.committed, group.cut.get(number, held.position))
        self._held = {
            number: self._held[number] if number in found.kept else Held(number, group.cut[number])
            for number in group.holds(self._number)
        }
        leaving = group.surplus(self._number, readable(group.cut, self._ends), self._dirty())
        for number, held in self._held.items():
            held.leaving = number in leaving

    def _synced(self, group: Sharing, found: _Found, *, commit: bool) -> Sharing:
        if group.resets != self._resets:
            raise errors.group_was_reset(self.group.name, self.reader_id)
        if any(number not in self._segments for number in group.cut):
            self._look()
        now = self.stream.store.now()
        found.number = self._number
        # What was committed beyond its own position, another one has read meanwhile.
        found.kept = {
            number
            for number in group.holds(self._number)
            if number in self._held and group.cut[number] <= self._held[number].position
        }
        if self._number not in group.members:  # others thought it dead: it begins anew, without what it had
            group, found.number = self._rejoined(group, now)
        group = group.swept(now, sparing=found.number)
        if not self._lease * 2 // 3 <= group.members[found.number].until - now <= self._lease:
            group = group.renewed(found.number, until=now + self._lease)
        busy = [number for number in self._dirty() if number in found.kept]
        if commit:
            group = group.committed({number: self._held[number].position for number in busy})
            group = replace(group, passed=max(group.passed, self._passing.passed(group.cut)))
            busy = []
        group = group.followed(self._segments, self._ends)
        return group.shared_out(found.number, readable(group.cut, self._ends), busy)

    def _rejoined(self, group: Sharing, now: int) -> tuple[Sharing, int]:
        for number in group.numbers_of(self._key):  # the answer to that did not come
            return group, number
        if any(member.name == self.reader_id for member in group.members.values()):
            raise errors.reader_replaced(self.group.name, self.reader_id)
        return group.joined(self.reader_id, until=now + self._lease, lease=self._lease, key=self._key)

    def _done(self, number: int, group: Sharing) -> bool:
        """Whether what was read of a segment is committed, by a commit whose answer did not come."""
        position = self._held[number].position
        if self._unanswered.get(number) != position:
            return False
        return group.cut.get(number, -1) >= position or number in self._segments.ancestors(group.cut)

    def _dirty(self) -> list[int]:
        return [number for number, held in self._held.items() if held.dirty]

    def _position(self, group: Sharing) -> dict[int, int]:
        own = {number: held.position for number, held in self._held.items() if group.held.get(number) == self._number}
        return {**group.cut, **own}

    def _look(self) -> bool:
        """Learn of new segments, and where sealed ones end; whether there was something to learn."""
        self._segments = self.stream.segments
        sealed = [one.number for one in self._segments.all if one.sealed and one.number not in self._ends]
        if sealed:  # only now: nothing is appended to them any more
            lengths = self.stream.store.lengths(self.stream.name)
            self._ends |= {number: lengths[number] for number in sealed}
        return bool(sealed)

    def _must_be_open(self) -> None:
        if os.getpid() != self._process:
            raise errors.reader_forked(self.group.name, self.reader_id)
        if self._closed:
            raise errors.reader_closed(self.group.name, self.reader_id)
