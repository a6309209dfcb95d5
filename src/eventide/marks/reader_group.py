"""Reader groups: readers that share the segments of a stream, and the event time at their position."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

from eventide._formats import FORMATS
from eventide.errors import DataError, PlanError, shown
from eventide.marks.errors import invalid_name
from eventide.marks.mark import Mark, TimeWindow
from eventide.marks.segments import Position, Segments
from eventide.marks.stores.store import is_lease_active
from eventide.marks.streams import Stream, open_stream

Start: TypeAlias = "Literal['earliest', 'latest'] | Mapping[int, int] | Mapping[str, int]"
"""Where a group starts: at the first remaining event, after the last one, or at a cut."""

_MARKS_PAGE = 100


class MarkTracker:
    """Follows the marks of a stream as a position advances. The bounds of its time window never go back.

    ``after`` is the number of a mark that is known to be passed.
    """

    def __init__(self, stream: Stream, after: int = 0) -> None:
        self.last: Mark | None = None
        """The last passed mark."""
        self._stream = stream
        self._segments = stream.segments
        self._fetched = max(0, after - 1)
        self._ahead: deque[Mark] = deque()
        self._upper: int | None = None

    def window(self, position: Position) -> TimeWindow:
        """The time window of a position, which is a cut.

        ``lower`` is the time of the last mark whose cut is passed. ``upper`` is the time of the first mark whose cut is
        nowhere behind the position: a reader that is ahead in a segment reads events of later marks there.
        """
        for mark in self._marks_ahead():
            if not self._segments_with(mark.cut, position).is_at_most(mark.cut, position):
                break
            self.last = self._ahead.popleft()
        lower = None if self.last is None else self.last.lower
        above = self._first_mark_above(position)
        if above is None:
            return TimeWindow(lower, None)
        self._upper = above.upper if self._upper is None else max(self._upper, above.upper)
        return TimeWindow(lower, self._upper)

    def last_passed(self, cut: Position) -> int:
        """The number of the last passed mark, if a cut has passed it; else 0."""
        has_passed = self.last is not None and self._segments_with(cut).is_at_most(self.last.cut, cut)
        return self.last.number if self.last is not None and has_passed else 0

    def _first_mark_above(self, position: Position) -> Mark | None:
        """The first mark whose cut is nowhere behind a position.

        Cuts never go back, so marks far ahead are found by binary search, without keeping them.
        """
        for mark in self._ahead:
            if self._is_above(mark, position):
                return mark
        low, lowest = self._fetched, self._stream.store.last_mark(self._stream.name)
        if lowest is None or lowest.number <= low or not self._is_above(lowest, position):
            return None
        while lowest.number - low > 1:
            middle = (low + lowest.number) // 2
            mark = next(iter(self._stream.store.marks(self._stream.name, after=middle - 1, limit=1)), lowest)
            if mark.number >= lowest.number:  # the marks between were truncated, and so were all before them
                break
            if self._is_above(mark, position):
                lowest = mark
            else:
                low = mark.number
        return lowest

    def _is_above(self, mark: Mark, position: Position) -> bool:
        return self._segments_with(mark.cut, position).is_at_most(position, mark.cut)

    def _marks_ahead(self) -> Iterator[Mark]:
        """The marks ahead, in order, fetched page by page."""
        yield from tuple(self._ahead)
        while page := self._stream.store.marks(self._stream.name, after=self._fetched, limit=_MARKS_PAGE):
            self._ahead.extend(page)
            self._fetched = page[-1].number
            yield from page

    def _segments_with(self, *positions: Position) -> Segments:
        if any(number not in self._segments for position in positions for number in position):
            self._segments = self._stream.segments
        return self._segments


class Member(NamedTuple):
    """A reader of a group. It is alive until its lease ends."""

    name: str
    until: int
    lease: int = 0
    """The length of the lease."""
    key: str = ""
    """Distinguishes readers with the same name."""

    def is_alive(self, now: int) -> bool:
        """Whether its lease is active."""
        return is_lease_active(self.until, self.lease, now) if self.lease else now < self.until


@dataclass(frozen=True)
class GroupState:
    """The position and the assignment of a group. Methods return the next state.

    The position is always a cut. A segment that was read to its end stays in it until all segments that were sealed
    with it are read, too; then their successors replace them. So events of a key are read in order. Each member has a
    number that is never reused.

    >>> state = GroupState({0: 0, 1: 0})
    >>> state, first = state.join("one", until=100)
    >>> state, second = state.join("two", until=100)
    >>> state.rebalance(first, state.cut).rebalance(second, state.cut).assignment
    {0: 1, 1: 2}
    """

    cut: Position
    """The committed position."""
    assignment: Mapping[int, int] = field(default_factory=dict)
    """The member that reads each segment."""
    members: Mapping[int, Member] = field(default_factory=dict)
    last_member: int = 0
    """The number of the last member that joined."""
    generation: int = 0
    """Changes when the group is reset, or deleted and created again."""
    passed_mark: int = 0
    """The number of a mark that the committed position has passed."""

    def join(self, name: str, *, until: int, lease: int = 0, key: str = "") -> tuple[GroupState, int]:
        """Add a member and return its number. A member with the same name is considered dead and removed."""
        number = self.last_member + 1
        others = self.remove(other for other, member in self.members.items() if member.name == name)
        members = {**others.members, number: Member(name, until, lease, key)}
        return replace(others, members=members, last_member=number), number

    def remove(self, numbers: Iterable[int]) -> GroupState:
        """Remove members. Their segments are free and continue at the committed position."""
        removed = set(numbers)
        if not removed & self.members.keys():
            return self
        members = {number: member for number, member in self.members.items() if number not in removed}
        assignment = {segment: member for segment, member in self.assignment.items() if member not in removed}
        return replace(self, members=members, assignment=assignment)

    def evict_expired(self, now: int, *, except_for: int) -> GroupState:
        """Remove members whose lease has ended. The calling member is alive."""
        return self.remove(
            [number for number, member in self.members.items() if number != except_for and not member.is_alive(now)]
        )

    def renew(self, number: int, *, until: int) -> GroupState:
        """Renew the lease of a member."""
        return replace(self, members={**self.members, number: self.members[number]._replace(until=until)})

    def members_with_key(self, key: str) -> list[int]:
        """The numbers of the members with a key: one or none."""
        return [number for number, member in self.members.items() if member.key == key]

    def segments_of(self, number: int) -> list[int]:
        """The segments that are assigned to a member."""
        return sorted(segment for segment, member in self.assignment.items() if member == number)

    def surplus(self, number: int, readable: Collection[int], busy: Collection[int] = ()) -> list[int]:
        """The segments that a member should release: those that it is ``busy`` with only if necessary."""
        assigned = set(self.segments_of(number)) & set(readable)
        ordered = sorted(assigned, key=lambda segment: (segment not in busy, segment))
        return ordered[self._quota(number, readable) :]

    def rebalance(self, number: int, readable: Collection[int], busy: Collection[int] = ()) -> GroupState:
        """Give a member its share: release its surplus unless it is ``busy`` with it, assign free segments to it.

        Shares differ by one at most. Members that already have more segments keep the larger shares.
        """
        released = set(self.surplus(number, readable, busy)) - set(busy)
        assignment = {
            segment: member
            for segment, member in self.assignment.items()
            if segment in readable and segment not in released
        }
        missing = self._quota(number, readable) - sum(member == number for member in assignment.values())
        free = [segment for segment in sorted(readable) if segment not in assignment and segment not in released]
        assignment |= dict.fromkeys(free[: max(0, missing)], number)
        return self if assignment == self.assignment else replace(self, assignment=dict(sorted(assignment.items())))

    def commit(self, position: Position) -> GroupState:
        """Commit what a member has read of its segments. The committed position never decreases."""
        committed = {number: max(offset, self.cut.get(number, 0)) for number, offset in position.items()}
        return replace(self, cut={**self.cut, **committed})

    def advance(self, segments: Segments, ends: Position) -> GroupState:
        """Replace segments that were read to their end by their successors. ``ends`` has the sealed segments."""
        cut = dict(self.cut)
        finished = _finished(cut, ends)
        while finished:
            sealed, successors = _sealed_together(finished.pop(), segments)
            if successors and sealed <= set(_finished(cut, ends)):
                for number in sealed:
                    del cut[number]
                cut |= dict.fromkeys(successors, 0)
                finished = _finished(cut, ends)
        if cut == self.cut:
            return self
        assignment = {segment: member for segment, member in self.assignment.items() if segment in cut}
        return replace(self, cut=dict(sorted(cut.items())), assignment=assignment)

    def reset(self, cut: Position) -> GroupState:
        """Move to another position and remove all members."""
        return GroupState(dict(cut), last_member=self.last_member, generation=self.generation + 1)

    def _quota(self, number: int, readable: Collection[int]) -> int:
        counts = dict.fromkeys(self.members, 0)
        for segment, member in self.assignment.items():
            counts[member] += segment in readable
        least, remainder = divmod(len(readable), len(counts))
        rank = sorted(counts, key=lambda member: (-counts[member], member)).index(number)
        return least + (rank < remainder)


def readable_segments(cut: Position, ends: Position) -> list[int]:
    """The segments of a cut that may still have events to read."""
    finished = _finished(cut, ends)
    return [number for number in cut if number not in finished]


def dump_group(state: GroupState) -> bytes:
    """Encode the state of a group."""
    data = {
        "format": FORMATS["reader group"],
        "cut": dict(state.cut),
        "assignment": dict(state.assignment),
        "members": {number: member._asdict() for number, member in state.members.items()},
        "last_member": state.last_member,
        "generation": state.generation,
        "passed_mark": state.passed_mark,
    }
    return json.dumps(data).encode()


def load_group(name: str, body: bytes) -> GroupState:
    """Decode the state of ``dump_group``."""
    data = json.loads(body)
    version = data.pop("format", None)
    if version != FORMATS["reader group"]:
        raise DataError(
            f"Group {name!r} was written by another version of Eventide (format {version}; this version reads "
            f"{FORMATS['reader group']}). Use that version, or another group."
        )
    for mapping in ("cut", "assignment"):
        data[mapping] = {int(number): value for number, value in data[mapping].items()}
    data["members"] = {int(number): Member(**member) for number, member in data["members"].items()}
    return GroupState(**data)


class ReaderGroup:
    """Readers that share the segments of a stream. The state is in the store.

    >>> import pyarrow as pa
    >>> from eventide.marks import Reader, Stream
    >>> from eventide.marks.stores.memory import MemoryStore
    >>> from eventide.marks.stores.store import Config
    >>> store = MemoryStore()
    >>> _ = store.create_stream("orders", Config(schema=pa.schema({"shop": pa.string()}), segments=2))
    >>> reader = Reader(Stream(store, "orders"), "billing", "one")
    >>> group = ReaderGroup(Stream(store, "orders"), "billing")
    >>> group.checkpoint(), group.readers()
    ({0: 0, 1: 0}, {'one': [0, 1]})
    """

    def __init__(self, stream: str | Stream, name: str = "default", *, token: str | None = None) -> None:
        if not isinstance(name, str) or not name:
            raise invalid_name("group", name)
        self.stream = stream if isinstance(stream, Stream) else open_stream(stream, token=token)
        self.name = name
        self._owns_store = isinstance(stream, str)

    def __repr__(self) -> str:
        return f"<ReaderGroup {self.name!r} of {self.stream.name!r}>"

    def close(self) -> None:
        """Close the store, if it was opened for this group."""
        if self._owns_store:
            self.stream.store.close()

    def checkpoint(self) -> dict[int, int]:
        """The committed position of the group: a cut for ``reset()`` or ``Reader(start=)``."""
        return dict(self.state().cut)

    def reset(self, start: Start) -> None:
        """Continue at another position. The next read or commit of an open reader fails."""
        cut = self.resolve_start(start)
        if not self._create(cut):
            self.update(lambda state: state.reset(cut))

    def readers(self) -> dict[str, list[int]]:
        """The segments of each reader, including dead readers that were not evicted yet."""
        state = self.state()
        return {member.name: state.segments_of(number) for number, member in state.members.items()}

    def delete(self) -> None:
        """Delete the group."""
        self.stream.store.delete_group(self.stream.name, self.name)

    def state(self) -> GroupState:
        """The state of the group. Fails if the group does not exist."""
        return self._load()[1]

    def update(self, change: Callable[[GroupState], GroupState]) -> GroupState:
        """Change the state and return it. ``change`` is called again if another reader was faster."""
        while True:
            version, state = self._load()
            changed = change(state)
            if changed == state:
                return changed
            if self.stream.store.put_group(self.stream.name, self.name, version, dump_group(changed)):
                return changed

    def create(self, start: Start) -> None:
        """Create the group unless it exists."""
        if self.stream.store.group(self.stream.name, self.name) is None:
            self._create(self.resolve_start(start))

    def resolve_start(self, start: Start) -> dict[int, int]:
        """The cut of a start in the current stream."""
        info = self.stream.info()
        if start == "earliest":
            return info.segments.least_cut(info.starts)
        lengths = self.stream.store.lengths(self.stream.name)
        if start == "latest":
            return {number: lengths[number] for number in info.segments.open_numbers}
        try:
            if not isinstance(start, Mapping):
                raise TypeError
            cut = {int(number): int(offset) for number, offset in start.items()}  # JSON has strings as keys
        except (TypeError, ValueError):
            raise PlanError(
                f"{shown(start)} is not a start: use 'earliest', 'latest', or a cut such as {{0: 120}}."
            ) from None
        info.segments.check_cut(self.stream.name, cut, lengths)
        return dict(sorted(cut.items()))

    def _create(self, cut: Mapping[int, int]) -> bool:
        # Numbers start at the clock, so that those of a deleted group or stream are not reused.
        store, now = self.stream.store, self.stream.store.now()
        state = GroupState(cut, last_member=now, generation=now)
        return store.put_group(self.stream.name, self.name, 0, dump_group(state))

    def _load(self) -> tuple[int, GroupState]:
        stored = self.stream.store.group(self.stream.name, self.name)
        if stored is None:
            raise PlanError(
                f"There is no group {self.name!r} at stream {self.stream.name!r} yet. Create it with "
                f"Reader(stream, group={self.name!r}) or ReaderGroup.reset()."
            )
        version, body = stored
        return version, load_group(self.name, body)


def _finished(cut: Position, ends: Position) -> list[int]:
    """The sealed segments of a cut that were read to their end."""
    return [number for number in cut if number in ends and cut[number] >= ends[number]]


def _sealed_together(number: int, segments: Segments) -> tuple[set[int], set[int]]:
    """The segments that are replaced together with a segment, and their successors over the same keys."""
    sealed: set[int] = {number}
    successors: set[int] = set()
    pending = {number}
    while pending:
        new = {successor for segment in pending for successor in segments.successors(segment)} - successors
        successors |= new
        pending = {predecessor for segment in new for predecessor in segments[segment].predecessors} - sealed
        sealed |= pending
    return sealed, successors
