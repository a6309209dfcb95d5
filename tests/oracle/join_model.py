"""The interval join, one row at a time: short, slow, and written down from the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

LEFT, RIGHT = 0, 1


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

    def pads(self, side: int) -> bool:
        return self.how == "full" or self.how == ("left", "right")[side]

    def near(self, left: int, right: int) -> bool:
        return (self.lo is None or right - left >= self.lo) and (self.hi is None or right - left <= self.hi)

    def can_meet(self, row: Row, reached: tuple[int, int]) -> bool:
        """Whether a partner may still come that is not late."""
        assert row.time is not None
        if (retained := self.retained[row.side]) is not None:
            return reached[row.side] <= row.time + retained
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

Pair = tuple[int | None, int | None]  # the ids of a joined row; None beside a row that is alone


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

    def step(self, rows: Iterable[Row], was: tuple[int, int], reached: tuple[int, int]) -> Out:
        """A bundle. Watermarks of both sides as they stood before it, and as they stand after it."""
        out = Out()
        for row in rows:
            if row.time is None:
                out.dead.append(row.id)
            elif row.time < was[row.side]:
                out.late.append(row.id)
            else:
                out.entered.append(row)
                self._meet(row, out)
                self.kept[row.side].append(row)
        for side in (LEFT, RIGHT):
            for row in list(self.kept[side]):
                if row.key is None or not self.spec.can_meet(row, reached):
                    self.kept[side].remove(row)
                    if self.spec.pads(side) and (side, row.id) not in self.met:
                        out.pairs.append((row.id, None) if side == LEFT else (None, row.id))
        return out

    def _meet(self, row: Row, out: Out) -> None:
        for other in self.kept[1 - row.side]:
            left, right = (row, other) if row.side == LEFT else (other, row)
            assert left.time is not None and right.time is not None
            if left.key is None or left.key != right.key or not self.spec.near(left.time, right.time):
                continue
            if WHERE[self.spec.where](left, right):
                out.pairs.append((left.id, right.id))
                self.met |= {(LEFT, left.id), (RIGHT, right.id)}
