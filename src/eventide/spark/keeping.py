"""An operator's state in Spark's state store: a head that says what there is, and pages that hold it.

Python workers live on between batches, so what was read or written stays in memory under the version that stands in
the head. The version is in state: a task that was retried, or ran elsewhere in between, never reads what is stale.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from eventide.operators.windowed import State, WindowedAggregate
from eventide.spark.stage import Stage
from eventide.spark.tasks import this_task
from eventide.state import snapshot


@dataclass(frozen=True)
class Kept:
    """The state of one bucket."""

    version: str
    state: State
    promises: dict[int, int] = field(default_factory=dict)


_cache: dict[tuple[str, str, int], Kept] = {}


class Keeper:
    """Reads and writes the state of buckets."""

    def __init__(self, handle: StatefulProcessorHandle, stage: Stage) -> None:
        self._head = handle.getValueState("head", "format int, version string, body binary")
        self._stage = stage
        self._hit = 0

    def read(self, bucket: int) -> Kept:
        """What is known of a bucket."""
        found = self._head.get()
        if found is None:
            return Kept("", self._stage.operator().initial())
        _, version, body = found
        kept = _cache.get(self._place(bucket))
        self._hit = int(kept is not None and kept.version == version)
        if kept is not None and self._hit:
            return kept
        content = snapshot.load(bytes(body))
        _, state = WindowedAggregate.load(self._stage.plan, content["state"].item().encode("latin1"))
        return Kept(version, state, {int(k): v for k, v in content["promises"].items()})

    def write(self, bucket: int, state: State, promises: dict[int, int]) -> None:
        """Keep it for the next batch."""
        import polars as pl

        task = this_task()
        version = f"{task.batch}.{task.attempt}"
        saved = self._stage.operator().save(state)
        body = snapshot.dump({"state": pl.Series([saved.decode("latin1")]), "promises": promises})
        self._head.update((1, version, body))
        _cache[self._place(bucket)] = Kept(version, state, promises)

    def sizes(self, bucket: int) -> dict[str, int]:
        """For the metrics."""
        return {"cache_hits": self._hit}

    def _place(self, bucket: int) -> tuple[str, str, int]:
        return (this_task().run, self._stage.name, bucket)
