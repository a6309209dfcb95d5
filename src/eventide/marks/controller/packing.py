"""What appends have left in small blobs is packed by the controller that owns the stream, a little in each round.

Appends pack by themselves what they write. Left are the blobs of older versions, and those that were too many or too
large for one append. Two that do it at once do no harm, so a lease is needed only to save the work, and no fence.
"""

from __future__ import annotations

from collections.abc import Collection

from eventide.marks import packing
from eventide.marks.stores.store import Store


class Packer:
    """Knows how far it has come in each segment. That is not kept: whoever begins anew looks through all blobs once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._places: dict[tuple[str, int], int] = {}

    def step(self, stream: str) -> None:
        """One step in the segment that is furthest behind. No more, since appends to it wait meanwhile."""
        behind = {
            segment: length - self._place(stream, segment, length)
            for segment, length in self._store.lengths(stream).items()
        }
        segment = max(behind, key=lambda one: behind[one])
        if behind[segment] >= packing.PACKING.long:
            place = self._places.get((stream, segment), 0)
            self._places[stream, segment] = self._store.pack(stream, segment, place)

    def keep(self, streams: Collection[str]) -> None:
        """Forget all other streams."""
        self._places = {place: offset for place, offset in self._places.items() if place[0] in streams}

    def _place(self, stream: str, segment: int, length: int) -> int:
        if self._places.get((stream, segment), 0) > length:  # another stream of that name
            del self._places[stream, segment]
        return self._places.get((stream, segment), 0)
