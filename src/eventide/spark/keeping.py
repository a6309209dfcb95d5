"""An operator's state in Spark's state store: a head that says what there is, and pages that hold it.

Python workers live on between batches, so what was read or written stays in memory under the version that stands in
the head. The version is in state: a task that was retried, or ran elsewhere in between, never uses what is stale.
A worker that was passed by for some batches has a version that the one in state came from, and fetches what is new.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eventide.errors import state as errors
from eventide.operators.saving import State
from eventide.spark.stage import Stage
from eventide.spark.storing import StorePages
from eventide.spark.tasks import Task
from eventide.state.heads import Head
from eventide.state.paging import Ledger

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState, ValueState

_VERSIONS = 64
_BUDGET = 1 << 29  # bytes of panes and cells that a worker keeps in memory; indexes come on top


@dataclass(frozen=True)
class Kept:
    """The state of one bucket as it stands in the store."""

    version: str
    state: State
    ledger: Ledger | None = None
    promises: dict[str, int] = field(default_factory=dict)  # of the buckets before; of other keys as bucket/key
    before: tuple[str, ...] = ()  # the versions that this one came from, the last ones
    size: int = 0


class Keeper:
    """Reads and writes the state of the bucket that Spark has chosen. ``ask`` gives the map of pages, when needed."""

    def __init__(self, head: ValueState, ask: Callable[[], MapState], stage: Stage) -> None:
        self._head = head
        self._ask = ask
        self._stage = stage
        self.pages = StorePages(ask)

    def read(self, bucket: int, task: Task) -> tuple[Kept, bool]:
        """What is known of a bucket, and whether it was in memory."""
        found = self._head.get()
        if found is None:
            return Kept("", self._stage.operator().initial()), False
        version, about, body = found
        head = Head.from_bytes(bytes(body))
        self.pages = StorePages(self._ask, head.pages)
        kept = _memory.get((task.run, self._stage.name, bucket), version)
        if kept is not None:
            return kept, True
        said = json.loads(about)
        near = _memory.nearest((task.run, self._stage.name, bucket), said["before"])
        if said["buckets"] != self._stage.buckets:
            raise errors.other_buckets(said["buckets"], self._stage.buckets)
        state, ledger = self._stage.operator().read(head.body, self.pages, near)
        return Kept(version, state, ledger, said["promises"], before=tuple(said["before"])), False

    def write(self, bucket: int, task: Task, kept: Kept, state: State, promises: dict[str, int]) -> dict[str, int]:
        """Keep it for the next batch; returns how large it is."""
        operator = self._stage.operator()
        body, ledger = operator.write(state, self.pages, kept.ledger)
        sizes, in_head = operator.sizes(state, ledger), self.pages.settled()
        head = Head(body, in_head, sizes["pages"] - len(in_head)).to_bytes()
        version = f"{task.batch}.{task.attempt}"
        before = (*kept.before, kept.version)[-_VERSIONS:] if kept.version else ()
        about = {"buckets": self._stage.buckets, "promises": promises, "depth": self._stage.depth, "before": before}
        self._head.update((version, json.dumps(about), head))
        fresh = Kept(version, state, ledger, promises, before, sizes["raw"])
        _memory.put((task.run, self._stage.name, bucket), fresh)
        written = self.pages.moved + len(head)
        return {"pages": sizes["pages"], "state_bytes": sizes["bytes"] + len(body), "written": written}


class Memory:
    """States of buckets in this process, the ones used last, up to a budget.

    Of each bucket the last two versions are kept: a batch that is tried again begins where the first try began.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._kept: OrderedDict[tuple[str, str, int], list[Kept]] = OrderedDict()

    def get(self, place: tuple[str, str, int], version: str) -> Kept | None:
        """The state of this version, if it is here."""
        for kept in self._kept.get(place, ()):
            if kept.version == version:
                self._kept.move_to_end(place)
                return kept
        return None

    def nearest(self, place: tuple[str, str, int], before: Sequence[str]) -> tuple[State, Ledger] | None:
        """The latest state here that is one of those versions."""
        found = [kept for kept in self._kept.get(place, ()) if kept.version in before and kept.ledger is not None]
        kept = max(found, key=lambda one: before.index(one.version), default=None)
        return None if kept is None or kept.ledger is None else (kept.state, kept.ledger)

    def put(self, place: tuple[str, str, int], kept: Kept) -> None:
        """Remember a state."""
        self._kept[place] = [*self._kept.get(place, ())[-1:], kept]
        self._kept.move_to_end(place)
        while len(self._kept) > 1 and sum(versions[-1].size for versions in self._kept.values()) > self._budget:
            self._kept.popitem(last=False)


_memory = Memory(_BUDGET)
