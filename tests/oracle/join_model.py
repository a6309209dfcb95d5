"""The interval join, one row at a time: short, slow, and written down from the rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

LEFT, RIGHT = 0, 1
MAX = 2**63 - 1


@dataclass(frozen=True)
class Row:
    side: int
    id: int
    key: str | None
    time: int | None
    value: int


@dataclass(frozen=True)
class Spec:
    """``right.time - left.time`` lies in ``[lo, hi]``; without a bound, rows of a side stay so long behind their own
    watermark (``retained``)."""

    lo: int | None
    hi: int | None
    how: str
    retained: tuple[int | None, int | None] = (None, None)
    where: str | None = None
    last: int | None = None  # instead of bounds: so many right rows of a key are kept

    def pads(self, side: int) -> bool:
        return self.how == "full" or self.how == ("left", "right")[side]

    def near(self, left: int, right: int) -> bool:
        return (self.lo is None or right - left >= self.lo) and (self.hi is None or right - left <= self.hi)

    def can_meet(self, row: Row, reached: tuple[int, int]) -> bool:
        """Whether a partner may still come that is not late."""
        assert row.time is not None
        if (retained := self.retained[row.side]) is not None:
            return reached[row.side] <= row.time + retained
        if self.last is not None:
            return reached[LEFT] < MAX
        if row.side == LEFT:
            assert self.hi is not None
            return reached[RIGHT] <= row.time + self.hi
        assert self.lo is not None
        return reached[LEFT] <= row.time - self.lo


WHERE: dict[str | None, Callable[[Row, Row], bool]] = {
    None: lambda left, right: True,
    "less": lambda left, right: left.value < right.value,
    "even": lambda left, right: (left.value + right.value) % 2 == 0,
}

Pair = tuple[int | None, int | None]  # the ids of a joined row; None next to an unmatched row


@dataclass
class Out:
    pairs: list[Pair] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)
    entered: list[Row] = field(default_factory=list)


class Model:
    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.kept: tuple[list[Row], list[Row]] = ([], [])
        self.met: set[tuple[int, int]] = set()

    def step(self, rows: Sequence[Row], was: tuple[int, int], reached: tuple[int, int]) -> Out:
        """A bundle. Watermarks of both sides as they stood before it, and as they stand after it."""
        out = Out()
        sides = [[row for row in rows if row.side == side] for side in (LEFT, RIGHT)]
        for row in [*sides[RIGHT], *sides[LEFT]]:
            if row.time is None:
                out.dead.append(row.id)
            elif row.time < was[row.side]:
                out.late.append(row.id)
            else:
                out.entered.append(row)
                if self.spec.last is not None and row.side == LEFT:
                    self._forget(out)
                self._meet(row, out)
                self.kept[row.side].append(row)
        if self.spec.last is not None:
            self._forget(out)
        for row in [*self.kept[LEFT], *self.kept[RIGHT]]:
            if row.key is None or not self.spec.can_meet(row, reached):
                self._drop(row, out)
        return out

    def _forget(self, out: Out) -> None:
        """Right rows that are no longer among the last of their key go."""
        for key in {row.key for row in self.kept[RIGHT] if row.key is not None}:
            for row in [row for row in self.kept[RIGHT] if row.key == key][: -(self.spec.last or 0)]:
                self._drop(row, out)

    def _drop(self, row: Row, out: Out) -> None:
        self.kept[row.side].remove(row)
        if self.spec.pads(row.side) and (row.side, row.id) not in self.met:
            out.pairs.append((row.id, None) if row.side == LEFT else (None, row.id))

    def _meet(self, row: Row, out: Out) -> None:
        for other in self.kept[1 - row.side]:
            left, right = (row, other) if row.side == LEFT else (other, row)
            assert left.time is not None and right.time is not None
            if left.key is None or left.key != right.key or not self.spec.near(left.time, right.time):
                continue
            if WHERE[self.spec.where](left, right):
                out.pairs.append((left.id, right.id))
                self.met |= {(LEFT, left.id), (RIGHT, right.id)}
