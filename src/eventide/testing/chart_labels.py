"""Where labels are placed: a label covers no other label, no mark with a label of its own, and not the watermark.

Marks are given first, then labels, the most important first. A label without a free place is left out; the tooltip of
its mark has the same text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width

_REGION = 48.0  # pixels of the squares in which boxes are looked up
_NARROW, _WIDE = " !'(),.:;I[]fijlrt|", "%@MWmw"
_BOLD = 1.1


@dataclass(frozen=True)
class Box:
    """A rectangle of the drawing."""

    x: float
    y: float
    width: float
    height: float

    def overlap(self, other: Box) -> float:
        """The area that two boxes share."""
        wide = min(self.x + self.width, other.x + other.width) - max(self.x, other.x)
        high = min(self.y + self.height, other.y + other.height) - max(self.y, other.y)
        return wide * high if wide > 0 and high > 0 else 0.0

    def contains(self, other: Box) -> bool:
        """Whether the other box is inside, or touches the edge."""
        return (
            self.x <= other.x
            and self.y <= other.y
            and other.x + other.width <= self.x + self.width
            and other.y + other.height <= self.y + self.height
        )


def around(x: float, y: float, radius: float) -> Box:
    """Return the square around a point."""
    return Box(x - radius, y - radius, 2 * radius, 2 * radius)


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return how wide a text is in a wide font. Other fonts need less room.

    >>> round(text_width("12", 10), 1), text_width("時", 10), text_width("ill", 10) < text_width("mmm", 10) / 2
    (12.8, 10.0, True)
    """
    return size * (_BOLD if bold else 1) * sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if character in _NARROW:
        return 0.4
    return 1.0 if character in _WIDE or east_asian_width(character) in "WF" else 0.64


class Places:
    """The places that are taken in the area of a drawing."""

    def __init__(self, area: Box) -> None:
        self._area = area
        self._taken = _Boxes()
        self._unlabelled = _Boxes()

    def occupy(self, box: Box) -> None:
        """Keep labels away from this place."""
        self._taken.add(box)

    def avoid(self, box: Box) -> None:
        """Prefer other places to this one."""
        self._unlabelled.add(box)

    def is_free(self, box: Box) -> bool:
        """Whether nothing is there that a label must not cover."""
        return not any(box.overlap(other) for other in self._taken.near(box))

    def place(self, choices: Sequence[Box]) -> Box | None:
        """Return a free place that covers as little as possible, and occupy it; of equal ones, the first."""
        free = [box for box in choices if self._area.contains(box) and self.is_free(box)]
        best = min(free, key=lambda box: sum(box.overlap(mark) for mark in self._unlabelled.near(box)), default=None)
        if best is not None:
            self.occupy(best)
        return best


class _Boxes:
    """Boxes by the regions that they touch."""

    def __init__(self) -> None:
        self._regions: dict[tuple[int, int], list[Box]] = {}

    def add(self, box: Box) -> None:
        for region in _regions(box):
            self._regions.setdefault(region, []).append(box)

    def near(self, box: Box) -> Iterator[Box]:
        for region in _regions(box):
            yield from self._regions.get(region, ())


def _regions(box: Box) -> Iterator[tuple[int, int]]:
    for column in range(int(box.x // _REGION), int((box.x + box.width) // _REGION) + 1):
        for row in range(int(box.y // _REGION), int((box.y + box.height) // _REGION) + 1):
            yield column, row
