"""Where a reader stands among the marks of its stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from eventide.marks.mark import Mark, TimeWindow
from eventide.marks.segments import Position, Segments
from eventide.marks.streams import Stream

_PAGE = 100


class Passing:
    """Follows a stream's marks as a position advances. Both bounds of time never go back, whatever the position does.

    ``after`` is a mark (by number) that was passed before.
    """

    def __init__(self, stream: Stream, after: int = 0) -> None:
        self._stream = stream
        self._segments = stream.segments
        self._fetched = max(0, after - 1)
        self._ahead: deque[Mark] = deque()
        self.last: Mark | None = None
        """The last mark that was passed."""
        self._upper: int | None = None

    def window(self, position: Position) -> TimeWindow:
        """Between which times a position (a cut) lies.

        The lower one is that of the last mark whose cut is not beyond the position. The upper one is that of the first
        mark after it that the position is nowhere beyond: a reader may be ahead in some segments, and what it reads
        there is no older than the marks that it has passed there.
        """
        for mark in self._marks():
            if not self._known(mark.cut, position).is_at_most(mark.cut, position):
                break
            self.last = self._ahead.popleft()
        lower = None if self.last is None else self.last.lower
        above = self._above(position)
        if above is None:
            return TimeWindow(lower, None)
        self._upper = above.upper if self._upper is None else max(self._upper, above.upper)
        return TimeWindow(lower, self._upper)

    def passed(self, cut: Position) -> int:
        """The number of the last mark, if it is not beyond a cut; else 0."""
        last = self.last
        return last.number if last is not None and self._known(cut).is_at_most(last.cut, cut) else 0

    def _above(self, position: Position) -> Mark | None:
        """The first mark ahead that a position is nowhere beyond. Far ahead it is searched for, and nothing is kept:
        cuts never go back, so of two marks the later one is above whatever the earlier one is.
        """
        for mark in self._ahead:
            if self._is_above(mark, position):
                return mark
        low, found = self._fetched, self._stream.store.last_mark(self._stream.name)
        if found is None or found.number <= low or not self._is_above(found, position):
            return None
        while found.number - low > 1:
            middle = (low + found.number) // 2
            mark = next(iter(self._stream.store.marks(self._stream.name, after=middle - 1, limit=1)), found)
            if mark.number >= found.number:  # those between were dropped, and so were all before
                break
            if self._is_above(mark, position):
                found = mark
            else:
                low = mark.number
        return found

    def _is_above(self, mark: Mark, position: Position) -> bool:
        return self._known(mark.cut, position).is_at_most(position, mark.cut)

    def _marks(self) -> Iterator[Mark]:
        """Those ahead, in order; more are fetched when these are not enough."""
        yield from tuple(self._ahead)
        while page := self._stream.store.marks(self._stream.name, after=self._fetched, limit=_PAGE):
            self._ahead.extend(page)
            self._fetched = page[-1].number
            yield from page

    def _known(self, *positions: Position) -> Segments:
        if any(number not in self._segments for position in positions for number in position):
            self._segments = self._stream.segments
        return self._segments
