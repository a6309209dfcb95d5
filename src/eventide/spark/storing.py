"""Where the pages of a bucket lie: small ones in its head, the others in a map of Spark's state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState

LIMIT = 1 << 15
"""So many bytes of pages lie in a head at most.

The head is read and written with every batch, so what lies in it must cost little: 32 KiB took half a millisecond. To
name the map and to call it for the first time took five to eight.
"""


class StorePages:
    """The pages of one bucket, for one batch.

    A page is put into the head, and most go from there without ever being in the map: bundles are small, and their
    pages are merged. When those in the head have become too large together, the largest go to the map, until half
    of the room is free: a state about as large as the limit does not use the map in every batch.
    """

    def __init__(self, ask: Callable[[], MapState], in_head: Mapping[int, bytes] | None = None) -> None:
        self._ask = ask
        self._in_head = dict(in_head or {})
        self.moved = 0  # bytes that this batch put into the map

    def get(self, page: int) -> bytes:
        """The body of a page."""
        if page in self._in_head:
            return self._in_head[page]
        found = self._ask().getValue((page,))
        return bytes(found[0]) if found else b""

    def put(self, page: int, body: bytes) -> None:
        """Keep a page. A large one is not held in memory until the end."""
        self._in_head[page] = body
        if len(body) > LIMIT:
            self._move(page)

    def drop(self, page: int) -> None:
        """Forget a page."""
        if self._in_head.pop(page, None) is None:
            self._ask().removeKey((page,))

    def settled(self) -> dict[int, bytes]:
        """The pages that stay in the head, once all of a batch was put and dropped."""
        size = sum(map(len, self._in_head.values()))
        if size > LIMIT:
            for page in sorted(self._in_head, key=lambda one: (-len(self._in_head[one]), one)):
                if size <= LIMIT // 2:
                    break
                size -= len(self._in_head[page])
                self._move(page)
        return dict(self._in_head)

    def _move(self, page: int) -> None:
        body = self._in_head.pop(page)
        self._ask().updateValue((page,), (body,))
        self.moved += len(body)
