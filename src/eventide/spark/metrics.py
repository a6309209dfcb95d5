"""What each batch did, as Python objects: read from the pages of a batch, or from what Spark observed of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from eventide.spark import page
from eventide.spark.batch_report import batch_line
from eventide.spark.command_effects import CommandEffect, effects_from
from eventide.spark.measures import REASONS, SUMS
from eventide.time import MAX, MIN

if TYPE_CHECKING:
    from pyspark.sql import Column

    from eventide.spark.stage import Stage

PREFIX = "eventide"
_TIMINGS = ("EARLY", "ON_TIME", "LATE")
_PLAIN = ("rows", "kept", "late")


@dataclass(frozen=True)
class BatchMetrics:
    """One operator in one batch. ``rows = kept + late + dead``, always.

    >>> metrics = BatchMetrics(batch=7, depth=0, at=0, rows=10, kept=8, late=1, dead={"null_time": 1})
    >>> metrics.balanced
    True
    >>> print(metrics)
    batch 7 at 1970-01-01T00:00:00Z | 10 rows | watermark unknown | no panes | 1 late row | 1 dead (1 null_time)
    """

    batch: int
    depth: int  # of the operator in a chain of pipelines
    at: int  # the batch's time, in microseconds
    rows: int = 0
    kept: int = 0  # in a window, in the join, or with the processor
    late: int = 0
    dead: Mapping[str, int] = field(default_factory=dict)  # by reason
    refined: int = 0  # of those kept: behind the watermark, but within the lateness
    unemitted: int = 0  # of those kept: came after their trigger had finished (only with may_lose_data)
    panes: Mapping[str, int] = field(default_factory=dict)  # by timing
    retractions: int = 0
    watermark: int | None = None  # None: nothing is known yet, or the stream is drained
    drained: bool = False
    watermark_key: int = 0
    least_origin: str | None = None  # the one that holds the watermark back
    origins: int = 0
    idle_origins: tuple[str | None, ...] = ()
    slowest: tuple[tuple[str | None, int], ...] = ()  # origins that are least far, and their watermarks; at most 12
    renumbered_origins: tuple[str | None, ...] = ()  # they sent a number again with a later time; at most 12
    gaps: int = 0  # runs of sequence numbers that are missing
    open_windows: int = 0
    in_flight: int = 0  # rows whose calls span batches: they have arrived, and are not counted in ``rows`` yet
    pages: int = 0
    state_bytes: int = 0
    written: int = 0  # bytes of state that the batch wrote
    cache_hits: int = 0
    buckets: int = 0
    missing_files: int = 0  # source files that were deleted before an interrupted batch was repeated
    operation: Literal["window", "join", "processor"] = "window"
    seconds: float = field(default=0.0, compare=False)  # that the batch took; 0: not known
    previous_watermark: int | None = None  # at the start of the batch
    commands: tuple[CommandEffect, ...] = ()  # of the control stream, that the batch applied

    def __str__(self) -> str:
        return batch_line(self)

    @property
    def lag(self) -> timedelta | None:
        """How far event time is behind the batch's time."""
        return None if self.watermark is None else timedelta(microseconds=self.at - self.watermark)

    @property
    def rate(self) -> float | None:
        """Rows per second of this batch; None: not known how long it took."""
        return self.rows / self.seconds if self.seconds else None

    @property
    def balanced(self) -> bool:
        """Whether every row is accounted for."""
        return self.rows == self.kept + self.late + sum(self.dead.values())


def read_metrics(
    batch: int, pages: Iterable[Any], watermark_keys: Mapping[int, int], *, seconds: float = 0.0
) -> list[BatchMetrics]:
    """Return the metrics of a batch, one for each operator, from its progress pages. It took ``seconds``."""
    by_depth: dict[int, list[Any]] = {}
    for one in pages:
        kind, _, depth = one["kind"].partition(".")
        if kind == page.PROGRESS:
            by_depth.setdefault(int(depth), []).append(one)
    return [
        metrics_of(
            batch,
            depth,
            summed([(one["now"], one["counts"]) for one in own], own[0]["detail"]),
            watermark_keys.get(depth, 0),
            seconds=seconds,
        )
        for depth, own in sorted(by_depth.items())
    ]


def summed(buckets: Iterable[tuple[int, Mapping[str, int]]], detail: str | None) -> dict[str, Any]:
    """What the buckets of an operator said in a batch, taken together.

    >>> summed([(5, {"rows": 2, "watermark": 1}), (5, {"rows": 1, "late": 1, "watermark": 1})], "{}")["rows"]
    3
    """
    said = list(buckets)
    sums = {name: sum(counts.get(name, 0) for _, counts in said) for name in SUMS}
    known = {"watermark": max((counts["watermark"] for _, counts in said), default=None), "detail": detail}
    return sums | known | {"at": max((now for now, _ in said), default=0)}


def metrics_of(
    batch: int, depth: int, observed: Mapping[str, Any], watermark_key: int = 0, *, seconds: float = 0.0
) -> BatchMetrics:
    """Return the metrics of one operator from plain counts."""
    counts = {name: int(observed.get(name) or 0) for name in SUMS}
    detail = json.loads(observed.get("detail") or "{}")
    watermark = observed.get("watermark")
    dead = {reason: number for reason in REASONS if (number := counts.pop(f"dead_{reason}"))}
    panes = {timing: number for timing in _TIMINGS if (number := counts.pop(f"panes_{timing.lower()}"))}
    return BatchMetrics(
        batch=batch,
        depth=depth,
        at=int(observed.get("at") or 0),
        dead=dead,
        panes=panes,
        watermark=_known_instant(watermark),
        drained=watermark == MAX,
        watermark_key=watermark_key,
        least_origin=detail.get("least_origin"),
        origins=detail.get("origins", 0),
        idle_origins=tuple(detail.get("idle_origins", ())),
        slowest=tuple((name, time) for name, time in detail.get("slowest", ())),
        renumbered_origins=tuple(detail.get("renumbered_origins", ())),
        gaps=detail.get("gaps", 0),
        operation=detail.get("operation", "window"),
        seconds=seconds,
        previous_watermark=_known_instant(detail.get("previous_watermark")),
        commands=effects_from(detail.get("commands", ())),
        **counts,
    )


def observation(stage: Stage) -> str:
    """The name under which Spark shows what it observed of an operator; no two operators have the same.

    >>> from types import SimpleNamespace as Some
    >>> observation(Some(depth=1, name="4f2a99", plan=Some(watermark=Some(options=Some(watermark_key=7)))))
    'eventide.1.7.4f2a99'
    """
    return f"{PREFIX}.{stage.depth}.{stage.plan.watermark.options.watermark_key}.{stage.name[:8]}"


def observed_in(progress: Mapping[str, Any]) -> list[BatchMetrics]:
    """The metrics in a query's progress (``query.lastProgress``, or what a listener gets), one for each operator."""
    read = []
    seconds = (progress.get("durationMs") or {}).get("triggerExecution", 0) / 1000
    for name, counts in (progress.get("observedMetrics") or {}).items():
        if name.startswith(f"{PREFIX}."):
            _, depth, key, _ = name.split(".")
            known = _plain(counts)
            buckets = [(one["now"], _plain(one["counts"])) for one in map(_plain, known["buckets"] or ())]
            counts = summed(buckets, known["detail"])
            read.append(metrics_of(progress["batchId"], int(depth), counts, int(key), seconds=seconds))
    return sorted(read, key=lambda one: one.depth)


def observed_columns(depth: int) -> list[Column]:
    """What Spark is to observe of the pages of an operator.

    All that its buckets said goes into one list, which is summed when it is read; a few numbers are also there by
    themselves, for those who read Spark's progress without us. One for each would cost 40 ms a batch.
    """
    from pyspark.sql import functions as F  # noqa: N812

    own = F.col("kind") == page.at_depth(page.PROGRESS, depth)

    def count(name: str) -> Column:
        return F.when(own, F.element_at("counts", F.lit(name)))

    return [
        *(F.sum(count(name)).alias(name) for name in _PLAIN),
        F.max(count("watermark")).alias("watermark"),
        F.max(F.when(own, F.col("detail"))).alias("detail"),
        F.collect_list(F.when(own, F.struct("now", "counts"))).alias("buckets"),
    ]


def _known_instant(time: int | None) -> int | None:
    return time if time is not None and MIN < time < MAX else None


def _plain(row: Any) -> Mapping[str, Any]:
    """A row of Spark, or what JSON has made of it, by names."""
    found: Mapping[str, Any] = row.asDict() if hasattr(row, "asDict") else row
    return found
