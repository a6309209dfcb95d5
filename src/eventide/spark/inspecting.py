"""``eventide.inspect``: what a query holds, read from its checkpoint with Spark's own state readers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from eventide.errors import spark as errors
from eventide.operators import columns as c
from eventide.operators.binding import operator_of
from eventide.operators.call_queue import CallQueue
from eventide.operators.saving import CALLS, schemas_in
from eventide.plan.pipeline import Pipeline
from eventide.plan.process_plan import ProcessPlan
from eventide.spark.checkpoint_storage import record_storage, storage_of
from eventide.spark.commit_log import CommitLog
from eventide.spark.processor_tables import processor_tables
from eventide.spark.query_record import placement_of
from eventide.spark.stored_state import StoredOperator, read_driver_state, read_executor_state
from eventide.state import snapshot
from eventide.state.blocks import read_blocks
from eventide.state.paging import Shelf
from eventide.state.panes import DUE
from eventide.time import MAX, MIN, format_instant
from eventide.watermarks.coalescer import ABSENT, ACTIVE, DONE, IDLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STANDING = {ACTIVE: "active", IDLE: "idle", DONE: "done", ABSENT: "absent"}
_WINDOW = pl.Schema({"start": pl.Int64, "end": pl.Int64, "keys": pl.Int64, "rows": pl.Int64})


@dataclass(frozen=True)
class Origin:
    """An origin: its status and its watermark, for each watermark key."""

    name: str | None  # with several inputs: the input, a colon, and the origin
    standing: str  # active, idle, done or absent
    watermarks: Mapping[int, int]


@dataclass(frozen=True)
class Gap:
    """Sequence numbers of an origin that are missing although later ones were seen."""

    origin: str | None
    first: int
    last: int


@dataclass(frozen=True)
class OperatorState:
    """One operator of a query, after its last batch that was committed."""

    depth: int
    format: int
    plan: Mapping[str, str]  # what state depends on, in words
    buckets: int
    watermark: int  # MIN: nothing is known yet, MAX: drained
    watermarks: Mapping[int, int]  # by watermark key
    at: int  # the time of the last batch
    origins: Sequence[Origin]
    gaps: Sequence[Gap]
    pages: int
    bytes: int
    windows: pl.DataFrame | None  # open windows with keys and rows; None: give the pipeline to see them
    state: pl.DataFrame | None = None  # of a processor, by key
    timers: pl.DataFrame | None = None  # of a processor, by time
    in_flight: int = 0  # rows whose calls span batches

    @property
    def idle_origins(self) -> list[str | None]:
        """Those that are not waited for."""
        return [origin.name for origin in self.origins if origin.standing == "idle"]

    @property
    def _what(self) -> str:
        inputs = [name.removeprefix("input ") for name in self.plan if name.startswith("input ")]
        if "processor" in self.plan:
            return f"processor {self.plan['processor']}, key {self.plan.get('key') or 'none'}"
        if "window" not in self.plan:
            return f"{self.plan.get('join', '')} join of {' and '.join(inputs)}, {self.plan.get('within', '')}"
        of = f", of {' and '.join(inputs)}" if inputs else ""
        return f"{self.plan['window']}, key {self.plan.get('key') or 'none'}{of}"

    def __str__(self) -> str:
        lines = [
            f"operator {self.depth}: {self._what}",
            f"  watermark  {_instant(self.watermark)}",
            f"  state      format {self.format}, {self.buckets} buckets, {self.pages} pages, {self.bytes:,} bytes",
        ]
        if not self.origins:
            lines.append("  origins    none: there is one watermark for all rows")
        for origin in self.origins:
            times = ", ".join(_instant(time) for time in origin.watermarks.values())
            lines.append(f"  origin     {origin.name!r} {origin.standing}, at {times}")
        lines += [f"  gap        {gap.origin!r} {gap.first} to {gap.last}" for gap in self.gaps]
        if self.windows is not None:
            lines.append(f"  windows    {self.windows.height} open")
        if self.state is not None and self.timers is not None:
            lines.append(f"  processor  {self.state.height:,} keys with state, {self.timers.height:,} timers")
        if self.in_flight:
            lines.append(f"  in flight  {self.in_flight:,} rows wait for calls")
        return "\n".join(lines)


def inspect(
    checkpoint: str | Path,
    *,
    pipeline: Pipeline | Sequence[Pipeline] | None = None,
    spark: SparkSession | None = None,
    storage: Any = None,
) -> list[OperatorState]:
    """What the query of a checkpoint holds, running or stopped: one entry for each of its operators.

    With the ``pipeline`` (or the list of them) that it runs, open windows and the state of processors are shown, too.
    State in the driver is read without Spark if the checkpoint is on this machine. ``storage`` is the store that was
    given to ``run``, if any.

    >>> import eventide as ev
    >>> for operator in ev.inspect("checkpoints/revenue", pipeline=revenue):  # doctest: +SKIP
    ...     print(operator)
    """
    chain = [pipeline] if isinstance(pipeline, Pipeline) else list(pipeline or ())
    checkpoint = os.fspath(checkpoint)
    files = storage_of(checkpoint, spark)
    log = CommitLog(files, record_storage(files, storage))
    if placement_of(files) != "executors" and (record := log.newest()) is not None:
        return [_operator_state(operator, chain) for operator in read_driver_state(log, record)]
    from pyspark.sql import SparkSession

    active = spark or SparkSession.getActiveSession()
    if active is None:
        raise errors.no_session("inspect()")
    operators = read_executor_state(active, checkpoint)
    if not operators:
        raise errors.no_state(checkpoint)
    return [_operator_state(operator, chain) for operator in operators]


def _operator_state(stored: StoredOperator, chain: Sequence[Pipeline]) -> OperatorState:
    """What an operator holds, from the heads and the pages of its buckets."""
    depth, bodies, pages = stored.depth, stored.heads, stored.pages
    bucket, first = next((bucket, snapshot.load(body)) for bucket, body in bodies.items())
    calls = _blocks_of(first.get(CALLS, {}), pages[bucket])  # with them, the watermark of the source is in their part
    tracker = calls["tracker"] if calls else _blocks_of(first["tracker"], pages[bucket])
    keys = tracker["all" if "inputs" in tracker else "coalescer"]["keys"]  # of several inputs: what all have reached
    plan = _plan_of(first, pages[bucket])
    own = chain[depth] if depth < len(chain) else None
    frames = [] if own is None else _scanned(own, schemas_in(plan), bodies, pages)
    processor = own.plan if own is not None and isinstance(own.plan, ProcessPlan) else None
    state, timers = (None, None) if processor is None else processor_tables(processor, frames)
    return OperatorState(
        depth=depth,
        format=stored.format,
        plan=plan["plan"] | calls.get("facts", {}),
        buckets=stored.buckets,
        watermark=first["watermark"],
        watermarks={key: output for key, output, _ in keys},
        at=first["now"],
        origins=_origins(tracker, [name.removeprefix("input ") for name in plan["plan"] if name.startswith("input ")]),
        gaps=_gaps(tracker),
        pages=sum(map(len, pages.values())),
        bytes=sum(len(body) for own in (bodies, *pages.values()) for body in own.values()),
        windows=None if own is None or processor is not None else _windows(frames),
        state=state,
        timers=timers,
        in_flight=sum(CallQueue.restore(queue).in_flight for queue in calls.get("queues", ())),
    )


def _plan_of(head: Mapping[str, Any], pages: Mapping[int, bytes]) -> dict[str, Any]:
    number = head["plan"][1]
    return snapshot.load(pages[number]) if number in pages else {"plan": {}, "rows": pl.DataFrame()}


def _blocks_of(part: Mapping[str, Any], pages: Mapping[int, bytes]) -> dict[str, Any]:
    shelf = Shelf()
    with shelf.lend(_Read(pages)):
        content: dict[str, Any] = read_blocks(part, shelf)[0]
    return content


def _origins(tracker: Mapping[str, Any], names: Sequence[str]) -> list[Origin]:
    """The origins; the one watermark of a stream without origins is the operator's, and not repeated here."""
    if "inputs" not in tracker:
        return [origin for number, origin in _sources(tracker) if number]
    inputs = zip(names or map(str, count()), tracker["inputs"], strict=False)
    found = [(name, number, origin) for name, known in inputs for number, origin in _sources(known)]
    return [replace(origin, name=f"{name}: {origin.name}" if number else name) for name, number, origin in found]


def _sources(tracker: Mapping[str, Any]) -> list[tuple[int, Origin]]:
    """The sources of one input by their numbers: 0 is the stream as a whole, others are origins."""
    inputs = tracker["coalescer"]["inputs"]
    names = tracker["origins"].to_list()
    keys = [key for key, _, _ in tracker["coalescer"]["keys"]]
    found = []
    for number, standing in enumerate(inputs["standing"].to_list()):
        if _STANDING[standing] != "absent":
            times = {key: inputs[f"time_{key}"][number] for key in keys}
            found.append((number, Origin(None if number == 0 else names[number], _STANDING[standing], times)))
    return found


def _gaps(tracker: Mapping[str, Any]) -> list[Gap]:
    if "inputs" in tracker:
        return [gap for known in tracker["inputs"] for gap in _gaps(known)]
    runs, names = tracker["runs"].sort("origin", "start"), tracker["origins"].to_list()
    origin, start, end = (runs[name].to_numpy() for name in ("origin", "start", "end"))
    if not len(origin):
        return []
    new = np.append(True, origin[1:] != origin[:-1])
    before = np.where(new, 0, np.append(0, end[:-1]))
    return [
        Gap(names[origin[i]] if origin[i] else None, int(before[i] + 1), int(start[i] - 1))
        for i in np.flatnonzero(start > before + 1)
    ]


def _scanned(
    pipeline: Pipeline,
    schemas: Sequence[pl.Schema],
    heads: Mapping[int, bytes],
    pages: Mapping[int, Mapping[int, bytes]],
) -> list[pl.DataFrame]:
    """All that the buckets hold, as the operator shows it."""
    operator = operator_of(pipeline.plan, *schemas)
    frames: list[pl.DataFrame] = []
    for bucket, head in heads.items():
        store = _Read(pages.get(bucket, {}))
        state, ledger = operator.read(head, store)
        with ledger.open(store):
            frames += operator.scan(state)
    return frames


def _windows(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The open windows of all buckets. Cells are shown by slice: the stretch that windows share."""
    if not frames:
        return _WINDOW.to_frame()
    total = pl.concat([_counted(frame) for frame in frames]).group_by("start", "end").agg(pl.col("keys", "rows").sum())
    return total.sort("start", "end", nulls_last=True)


def _counted(frame: pl.DataFrame) -> pl.DataFrame:
    if c.ROWS not in frame.columns:  # rows that wait for others: they are shown by the time at which they go
        gone = frame.group_by(pl.lit(None, pl.Int64).alias("start"), pl.col(DUE).alias("end"))
        return gone.agg(pl.lit(0, pl.Int64).alias("keys"), pl.len().cast(pl.Int64).alias("rows"))
    start = pl.col(c.START if c.START in frame.columns else c.SLICE).alias("start")
    end = (pl.col(c.END) if c.END in frame.columns else pl.lit(None, pl.Int64)).alias("end")
    counts = pl.len().cast(pl.Int64).alias("keys"), pl.col(c.ROWS).sum().cast(pl.Int64).alias("rows")
    return frame.group_by(start, end).agg(*counts)


class _Read:
    """Pages that are only read."""

    def __init__(self, pages: Mapping[int, bytes]) -> None:
        self._pages = pages

    def get(self, page: int) -> bytes:
        return self._pages[page]

    def put(self, page: int, body: bytes) -> None:
        raise AssertionError("inspection writes nothing")

    def drop(self, page: int) -> None:
        raise AssertionError("inspection writes nothing")


def _instant(time: int) -> str:
    return "nothing known" if time == MIN else "drained" if time == MAX else format_instant(time)
