"""The state of an operator in another number of buckets, all of them in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from eventide.operators.redistribution import BucketSnapshot, SplitRows, divide
from eventide.state.pages import PageStore


@dataclass(frozen=True)
class DividedState:
    """The state of all buckets. Unlike that of a ``Division``, it can be read more than once."""

    buckets: Sequence[BucketSnapshot]
    tracker: BucketSnapshot | None = None

    @property
    def count(self) -> int:
        """The number of buckets."""
        return len(self.buckets)


def redistribute(
    buckets: Iterable[tuple[bytes, PageStore]],
    count: int,
    split: SplitRows,
    *,
    tracker: BucketSnapshot | None = None,
    coalesces: Callable[[int], bool] = lambda count: False,
) -> DividedState:
    """Return what ``divide`` returns, with all buckets in memory."""
    division = divide(buckets, count, split, tracker=tracker, coalesces=coalesces)
    return DividedState(list(division.buckets), division.tracker)
