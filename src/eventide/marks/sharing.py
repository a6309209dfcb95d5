"""What the readers of a group know together: how far they have come, and who reads what.

A value, and what may become of it. The group's position is always a cut: a segment that has been read to its end stays
in it until all segments that were sealed with it are read, too; then those that follow take their place. So an
event is never read before one that precedes it under the same key.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from eventide.errors import readers as errors
from eventide.marks.leases import lasts
from eventide.marks.segments import Position, Segments

FORMAT = 1


class Member(NamedTuple):
    """A reader of the group, alive until its lease ends."""

    name: str
    until: int
    lease: int = 0
    """How long it is, when it begins; 0 if that is not known."""
    key: str = ""
    """Tells readers of the same name apart."""

    def alive(self, now: int) -> bool:
        """Whether its lease has not ended."""
        return lasts(self.until, self.lease, now) if self.lease else now < self.until


@dataclass(frozen=True)
class Sharing:
    """The state of a group. Readers are known by a number that no other ever has.

    >>> group = Sharing({0: 0, 1: 0})
    >>> group, one = group.joined("one", until=100)
    >>> group, two = group.joined("two", until=100)
    >>> group.shared_out(one, group.cut).shared_out(two, group.cut).held
    {0: 1, 1: 2}
    """

    cut: Position
    """What was read and committed."""
    held: Mapping[int, int] = field(default_factory=dict)
    """Which reader holds a segment."""
    members: Mapping[int, Member] = field(default_factory=dict)
    last: int = 0
    """The last number that a reader was given."""
    resets: int = 0
    """Grows when the group is set to another cut. A group that is made again begins with another one."""
    passed: int = 0
    """A mark (by number) whose cut is surely not beyond the group's."""

    def joined(self, name: str, *, until: int, lease: int = 0, key: str = "") -> tuple[Sharing, int]:
        """With one more reader, and its number. One of the same name is thought dead: its segments are free."""
        number = self.last + 1
        kept = self.without(other for other, member in self.members.items() if member.name == name)
        return replace(kept, members={**kept.members, number: Member(name, until, lease, key)}, last=number), number

    def without(self, numbers: Iterable[int]) -> Sharing:
        """Without some readers. Their segments are free, and go on where they had committed."""
        gone = set(numbers)
        if not gone & self.members.keys():
            return self
        members = {number: member for number, member in self.members.items() if number not in gone}
        return replace(self, members=members, held={one: by for one, by in self.held.items() if by not in gone})

    def swept(self, now: int, *, sparing: int) -> Sharing:
        """Without readers whose lease has ended; but whoever asks is alive."""
        return self.without([n for n, member in self.members.items() if n != sparing and not member.alive(now)])

    def renewed(self, number: int, *, until: int) -> Sharing:
        """With a longer lease for a reader."""
        return replace(self, members={**self.members, number: self.members[number]._replace(until=until)})

    def numbers_of(self, key: str) -> list[int]:
        """The numbers of a reader by its key; none if it is not a member."""
        return [number for number, member in self.members.items() if member.key == key]

    def holds(self, number: int) -> list[int]:
        """The segments of a reader."""
        return sorted(segment for segment, by in self.held.items() if by == number)

    def surplus(self, number: int, readable: Collection[int], busy: Collection[int] = ()) -> list[int]:
        """The segments that a reader should give up; those that it is ``busy`` with only if it must."""
        mine = sorted(set(self.holds(number)) & set(readable), key=lambda segment: (segment not in busy, segment))
        return mine[self._share(number, readable) :]

    def shared_out(self, number: int, readable: Collection[int], busy: Collection[int] = ()) -> Sharing:
        """With a reader's fair share: what it has too much is free (if it is not ``busy`` with it), what it lacks it
        takes of what is free. Shares differ by one at most, and whoever has more already keeps more.
        """
        given = set(self.surplus(number, readable, busy)) - set(busy)
        held = {one: by for one, by in self.held.items() if one in readable and one not in given}
        lacking = self._share(number, readable) - sum(by == number for by in held.values())
        free = [one for one in sorted(readable) if one not in held and one not in given]
        held |= dict.fromkeys(free[: max(0, lacking)], number)
        return self if held == self.held else replace(self, held=dict(sorted(held.items())))

    def _share(self, number: int, readable: Collection[int]) -> int:
        counts = dict.fromkeys(self.members, 0)
        for segment, by in self.held.items():
            counts[by] += segment in readable
        least, more = divmod(len(readable), len(counts))
        rank = sorted(counts, key=lambda one: (-counts[one], one)).index(number)
        return least + (rank < more)

    def committed(self, position: Position) -> Sharing:
        """With what a reader has read of segments that it holds. What was committed stays so."""
        further = {number: max(offset, self.cut.get(number, 0)) for number, offset in position.items()}
        return replace(self, cut={**self.cut, **further})

    def followed(self, segments: Segments, ends: Position) -> Sharing:
        """With successors in the place of segments that were read to their end (``ends``: of those that are sealed)."""
        cut = dict(self.cut)
        over = [number for number in cut if cut[number] >= ends.get(number, cut[number] + 1)]
        while over:
            sealed, successors = _together(over.pop(), segments)
            if successors and all(cut.get(number, -1) >= ends.get(number, cut.get(number, 0) + 1) for number in sealed):
                for number in sealed:
                    del cut[number]
                cut |= dict.fromkeys(successors, 0)
                over = [number for number in cut if cut[number] >= ends.get(number, cut[number] + 1)]
        if cut == self.cut:
            return self
        return replace(self, cut=dict(sorted(cut.items())), held={n: by for n, by in self.held.items() if n in cut})

    def reset(self, cut: Position) -> Sharing:
        """At another cut, without readers."""
        return Sharing(dict(cut), last=self.last, resets=self.resets + 1)


def _together(number: int, segments: Segments) -> tuple[set[int], set[int]]:
    """The segments that make room together with one, and those that follow them: over the same keys."""
    sealed: set[int] = {number}
    successors: set[int] = set()
    ahead = {number}
    while ahead:
        new = {after for one in ahead for after in segments.successors(one)} - successors
        successors |= new
        ahead = {before for one in new for before in segments[one].predecessors} - sealed
        sealed |= ahead
    return sealed, successors


def readable(cut: Position, ends: Position) -> list[int]:
    """The segments of a cut that may still bring events."""
    return [number for number in cut if cut[number] < ends.get(number, cut[number] + 1)]


def as_bytes(group: Sharing) -> bytes:
    """A group as a store keeps it."""
    data = {
        "format": FORMAT,
        "cut": dict(group.cut),
        "held": dict(group.held),
        "members": {number: member._asdict() for number, member in group.members.items()},
        "last": group.last,
        "resets": group.resets,
        "passed": group.passed,
    }
    return json.dumps(data).encode()


def from_bytes(name: str, state: bytes) -> Sharing:
    """The group that ``as_bytes`` wrote."""
    data = json.loads(state)
    if data.get("format") != FORMAT:
        raise errors.other_group_format(name, data.get("format"), FORMAT)
    return Sharing(
        cut={int(number): offset for number, offset in data["cut"].items()},
        held={int(number): by for number, by in data["held"].items()},
        members={int(number): Member(**member) for number, member in data["members"].items()},
        last=data["last"],
        resets=data["resets"],
        passed=data["passed"],
    )
