"""Pages of panes as a ledger knows them: which ids each holds, and which of them have not been taken since."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from eventide.state.paging import LIMIT, Page

Ids = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.uint32] | npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

SMALL = LIMIT // 4
"""A page of fewer bytes may be merged with its neighbours; less than this is not worth freeing."""


@dataclass(frozen=True)
class Leaf:
    """A page of panes: which ids it holds, and which of them have not been taken since."""

    page: Page
    offsets: Offsets | None  # ids, counted from the first; None: one after the other
    alive: Mask | None  # None: all
    living: int

    @property
    def ids(self) -> Ids:
        """The ids of its rows, ascending."""
        return ids_of(self.page, self.offsets)

    @property
    def last(self) -> int:
        """The last of them."""
        return self.page.start + (self.page.rows - 1 if self.offsets is None else int(self.offsets[-1]))

    @property
    def size(self) -> int:
        """About how many bytes are left of its rows."""
        return self.page.raw * self.living // self.page.rows

    @property
    def small(self) -> bool:
        """There is room for more in a page."""
        return self.size < SMALL

    @property
    def worn(self) -> bool:
        """Most of it is gone."""
        return 2 * self.living < self.page.rows

    def without(self, gone: Ids) -> Leaf:
        """Less some ids between its first and its last; those that it never had are passed over."""
        at = gone - self.page.start
        if self.offsets is not None:
            place = np.searchsorted(self.offsets, at)
            at = place[self.offsets[place] == at]
        alive = self.mask().copy()
        alive[at] = False
        return replace(self, alive=alive, living=int(np.count_nonzero(alive)))

    def mask(self) -> Mask:
        """Which of its rows have not been taken."""
        return np.ones(self.page.rows, np.bool_) if self.alive is None else self.alive


def without(leaves: Sequence[Leaf], gone: Ids) -> list[Leaf]:
    """The pages, less some ids (ascending)."""
    return [leaf.without(gone[lo:hi]) if lo < hi else leaf for leaf, lo, hi in within(leaves, gone)]


def within(leaves: Sequence[Leaf], ids: Ids) -> Iterable[tuple[Leaf, int, int]]:
    """For each page, from where to where ids (ascending) lie between its first and its last."""
    first = [leaf.page.start for leaf in leaves]
    last = [leaf.last for leaf in leaves]
    bounds = np.searchsorted(ids, first).tolist(), np.searchsorted(ids, last, "right").tolist()
    return zip(leaves, *bounds, strict=True)


def ids_of(page: Page, offsets: Offsets | None) -> Ids:
    """The ids that a page holds."""
    return page.start + (np.arange(page.rows) if offsets is None else offsets.astype(np.int64))


def offsets_of(ids: Ids) -> Offsets | None:
    """Ascending ids, counted from the first; None where none is left out."""
    span = int(ids[-1] - ids[0])
    if span == len(ids) - 1:
        return None
    wide: npt.NDArray[np.int64] = ids - ids[0]
    return wide.astype(np.uint32) if span < 2**32 else wide


def told_by(content: dict[str, Any]) -> Offsets | None:
    """The offsets that a page tells."""
    told: pl.Series | None = content.get("ids")
    if told is None:
        return None
    offsets: Offsets = told.to_numpy()
    return offsets
