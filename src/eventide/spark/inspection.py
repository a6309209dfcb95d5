"""``eventide.inspect``: the state of a query, read from its checkpoint.

State in the driver is in commit records. State on the executors is in Spark's state store.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from eventide import _columns as c
from eventide._formats import FORMATS
from eventide._hints import with_option_hints
from eventide._jvm import arrow_batches
from eventide.errors import DataError
from eventide.metrics import Gap, instant_text
from eventide.operators.call_queue import CallQueue
from eventide.operators.factory import operator_of
from eventide.operators.redistribution import BucketSnapshot
from eventide.panes import WINDOW, WINDOW_END, WINDOW_START, window_bound
from eventide.plan.pipeline import Pipeline
from eventide.plan.plan import Plan
from eventide.plan.process_plan import ProcessPlan
from eventide.processors.keyed_state import AT, ON_CLOCK, TIMER
from eventide.spark.buckets import changed_settings
from eventide.spark.checkpoint_storage import record_storage, storage_of
from eventide.spark.commit_log import CommitLog, RecordPages
from eventide.spark.errors import no_session, no_state
from eventide.spark.key_sizes import KeySizes, key_sizes
from eventide.spark.query_record import placement_of
from eventide.spark.replacement import check_settled
from eventide.spark.state_processor import HEADER, PAGES
from eventide.spark.storage import DirectoryStorage
from eventide.spark.stored_progress import Origin, stored_gaps, stored_origins
from eventide.state import format as snapshot
from eventide.state.block_codec import read_blocks
from eventide.state.commit_record import Record, Span
from eventide.state.format import StateHeader
from eventide.state.operator_state import CALLS, schemas_in
from eventide.state.pages import PageReader
from eventide.state.pane_table import DUE
from eventide.time import MAX, MIN, as_datetime, known_datetime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_PAGES_PER_BATCH = 64  # of about a megabyte: Spark's default of 10,000 rows would be more than Arrow's columns hold


@dataclass(frozen=True)
class StoredOperator:
    """The header and the pages of an operator, by bucket. In the driver there is one bucket."""

    depth: int
    format: int
    buckets: int
    heads: Mapping[int, bytes]
    pages: dict[int, dict[int, bytes]]
    tracker: BucketSnapshot | None = None  # tracks progress for all buckets, if these do not


def read_driver_state(log: CommitLog, record: Record) -> Iterator[StoredOperator]:
    """Yield the operators of a query whose state is in the driver."""
    for depth, stage in enumerate(record.footer["stages"]):
        pages = RecordPages(log, record.part(Span(*stage["manifest"]))).bodies()
        head = record.part(Span(*stage["head"]))
        yield StoredOperator(depth, FORMATS["commit record"], 1, {0: head}, {0: pages})


def read_executor_state(spark: SparkSession, checkpoint: str, batch: int | None = None) -> Iterator[StoredOperator]:
    """Yield the operators of a query whose state is on the executors, after ``batch`` (default: the last one)."""
    metadata = spark.read.format("state-metadata").load(checkpoint).where("operatorName LIKE 'transformWithState%'")
    rows = metadata.selectExpr("operatorId", "maxBatchId").distinct().orderBy("operatorId").collect()
    if batch is None:
        batch = min((row["maxBatchId"] for row in rows), default=0)  # the same for all, even if the query is running
    headers = {row["operatorId"]: _headers(spark, checkpoint, batch, row["operatorId"]) for row in rows}
    facts = {number: json.loads(header[0]["value"]["facts"]) for number, header in headers.items() if header}
    tracker: BucketSnapshot | None = None
    for number in sorted(facts, key=lambda number: (facts[number]["depth"], not facts[number].get("tracks_all"))):
        operator = _executor_operator(spark, checkpoint, batch, number, headers.pop(number))
        if facts[number].get("tracks_all"):  # for the buckets, which follow
            tracker = BucketSnapshot(operator.heads[0], operator.pages[0])
        else:
            yield replace(operator, tracker=tracker)
            tracker = None


def _executor_operator(
    spark: SparkSession, checkpoint: str, batch: int, number: int, rows: Sequence[Any]
) -> StoredOperator:
    """Return what an operator of Spark holds: the buckets of an operator, or the tracker of all buckets."""
    heads = {row["key"]["bucket"]: StateHeader.from_bytes(bytes(row["value"]["body"])) for row in rows}
    pages = {bucket: dict(head.inline_pages) for bucket, head in heads.items()}
    if any(head.stored_pages for head in heads.values()):
        for bucket, page, body in _pages(spark, checkpoint, batch, number):
            pages[bucket][page] = body
    facts = json.loads(rows[0]["value"]["facts"])
    bodies = {bucket: head.body for bucket, head in heads.items()}
    return StoredOperator(facts["depth"], FORMATS["state"], facts["buckets"], bodies, pages)


def _variable(spark: SparkSession, checkpoint: str, batch: int, operator: int, name: str) -> DataFrame:
    reader = spark.read.format("statestore").option("operatorId", operator).option("stateVarName", name)
    return reader.option("batchId", batch).option("flattenCollectionTypes", "true").load(checkpoint)


def _headers(spark: SparkSession, checkpoint: str, batch: int, operator: int) -> list[Any]:
    """Return the header of each bucket: one short row."""
    return _variable(spark, checkpoint, batch, operator, HEADER).collect()


def _pages(spark: SparkSession, checkpoint: str, batch: int, operator: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield the pages in the map, one state partition after the other: bucket, number and body."""
    rows = _variable(spark, checkpoint, batch, operator, PAGES)
    rows = rows.selectExpr("key.bucket", "user_map_key.page", "user_map_value.body")
    with changed_settings(spark, {_ROWS_PER_BATCH: str(_PAGES_PER_BATCH)}):
        batches = arrow_batches(rows)
    for pages in batches:
        yield from zip(*(column.to_pylist() for column in pages.columns), strict=True)


_INSTANT = pl.Datetime("us", "UTC")


def processor_tables(plan: ProcessPlan, frames: Iterable[pl.DataFrame]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the state by key, and the timers by time: key columns, ``timer``, ``at`` and ``clock``.

    ``frames`` are the results of ``ProcessOperator.scan`` for each bucket.
    """
    tables = list(frames)
    state = [frame.select(*plan.key, *plan.state) for frame in tables if TIMER not in frame.columns]
    timers = [frame.select(*plan.key, TIMER, AT, ON_CLOCK) for frame in tables if TIMER in frame.columns]
    return _sorted_state(plan, state), _sorted_timers(plan, timers)


def _sorted_state(plan: ProcessPlan, frames: list[pl.DataFrame]) -> pl.DataFrame:
    if not frames:
        return pl.DataFrame(schema=[*plan.key, *plan.state])
    state = pl.concat(frames)
    return state.sort(*plan.key, nulls_last=True) if plan.key else state


def _sorted_timers(plan: ProcessPlan, frames: list[pl.DataFrame]) -> pl.DataFrame:
    if not frames:
        return pl.DataFrame(schema=[*plan.key, TIMER, AT, ON_CLOCK])
    return pl.concat(frames).with_columns(pl.col(AT).cast(_INSTANT)).sort(AT, TIMER, *plan.key, nulls_last=True)


_OPEN = pl.Schema({WINDOW_START: pl.Int64, WINDOW_END: pl.Int64, "keys": pl.Int64, "rows": pl.Int64})


@dataclass(frozen=True, repr=False)
class OperatorState:
    """The state of an operator after the last committed batch."""

    depth: int
    format: int
    plan: Mapping[str, str]  # the fingerprint
    buckets: int
    watermark_us: int  # MIN: not known yet, MAX: drained
    watermarks: Mapping[int, datetime | None]  # by watermark key
    at: datetime  # the time of the last batch
    origins: Sequence[Origin]
    gaps: Sequence[Gap]
    pages: int
    bytes: int
    windows: pl.DataFrame | None  # open windows with keys and rows; None without the pipeline
    state: pl.DataFrame | None = None  # of a processor, by key
    timers: pl.DataFrame | None = None  # of a processor, by time
    forgotten_origins: int = 0  # since the query was started first
    in_flight: int = 0  # rows whose calls span batches
    keys: KeySizes | None = None  # the largest keys, and the windows that .limit_state closes next, if asked for

    @property
    def watermark(self) -> datetime | None:
        """The watermark; None if it is not known yet, or if the stream is drained."""
        return known_datetime(self.watermark_us)

    @property
    def drained(self) -> bool:
        """Whether the stream has ended."""
        return self.watermark_us == MAX

    @property
    def idle_origins(self) -> list[str | None]:
        """The origins that the watermark does not wait for."""
        return [origin.name for origin in self.origins if origin.status == "idle"]

    @property
    def _what(self) -> str:
        inputs = [name.removeprefix("input ") for name in self.plan if name.startswith("input ")]
        if "processor" in self.plan:
            return f"processor {self.plan['processor']}, key {self.plan.get('key') or 'none'}"
        if "window" not in self.plan:
            return f"{self.plan.get('join', '')} join of {' and '.join(inputs)}, {self.plan.get('within', '')}"
        of = f", of {' and '.join(inputs)}" if inputs else ""
        return f"{self.plan['window']}, key {self.plan.get('key') or 'none'}{of}"

    def __repr__(self) -> str:
        return f"<OperatorState: {self._what}, watermark {self._instant(self.watermark)}, {self.bytes:,} bytes>"

    def __str__(self) -> str:
        lines = [
            f"operator {self.depth}: {self._what}",
            f"  watermark  {self._instant(self.watermark)}",
            f"  state      format {self.format}, {self.buckets} buckets, {self.pages} pages, {self.bytes:,} bytes",
        ]
        if not self.origins:
            lines.append("  origins    none: there is one watermark for all rows")
        for origin in self.origins:
            times = ", ".join(self._instant(time) for time in origin.watermarks.values())
            lines.append(f"  origin     {origin.name!r} {origin.status}, at {times}")
        if self.forgotten_origins:
            lines.append(f"  forgotten  {self.forgotten_origins:,} origins")
        lines += [f"  gap        {gap.origin!r} {gap.first} to {gap.last}" for gap in self.gaps]
        if self.windows is not None:
            lines.append(f"  windows    {self.windows.height} open")
        if self.state is not None and self.timers is not None:
            lines.append(f"  processor  {self.state.height:,} keys with state, {self.timers.height:,} timers")
        if self.in_flight:
            lines.append(f"  in flight  {self.in_flight:,} rows wait for calls")
        lines += [] if self.keys is None else [f"  {line}" for line in self.keys.lines()]
        return "\n".join(lines)

    def _instant(self, time: datetime | None) -> str:
        return instant_text(time) if time is not None else "drained" if self.drained else "nothing known"


@with_option_hints
def inspect(
    checkpoint: str | Path,
    *,
    pipeline: Pipeline | None = None,
    keys: bool = False,
    spark: SparkSession | None = None,
    storage: Any = None,
) -> list[OperatorState]:
    """Return the state of a running or stopped query, with one entry for each of its operators.

    With the ``pipeline`` of the query, the entries have open windows and the state of processors. With ``keys``, they
    have the largest keys and, for ``.limit_state``, the windows that are closed next: this reads all of the state.
    State in the driver is read without Spark if the checkpoint is on this machine. ``storage`` is the store that was
    passed to ``run``, if any.

    >>> import eventide as ev
    >>> for operator in ev.inspect("checkpoints/revenue", pipeline=revenue):  # doctest: +SKIP
    ...     print(operator)
    """
    chain = () if pipeline is None else pipeline.plans
    checkpoint = os.fspath(checkpoint)
    in_driver = inspect_driver(storage_of(checkpoint, spark), chain, keys=keys, storage=storage)
    if in_driver is not None:
        return in_driver
    from pyspark.sql import SparkSession

    active = spark or SparkSession.getActiveSession()
    if active is None:
        raise no_session("inspect()")
    operators = list(read_executor_state(active, checkpoint))
    if not operators:
        raise no_state(checkpoint)
    return [_operator_state(operator, chain, keys=keys) for operator in operators]


def inspect_driver(
    files: DirectoryStorage,
    chain: Sequence[Plan] = (),
    *,
    keys: bool = False,
    storage: Any = None,
    max_bytes: int | None = None,
) -> list[OperatorState] | None:
    """Return the state of a query whose state is in the driver, without Spark; None if there is none.

    More than ``max_bytes`` in pages are not read, but an error.
    """
    check_settled(files)
    log = CommitLog(files, record_storage(files, storage))
    record = None if placement_of(files) == "executors" else log.newest()
    if record is None:
        return None
    if max_bytes is not None and (stored := _stored_bytes(log, record)) > max_bytes:
        raise DataError(
            f"The state has {stored:,} bytes, and at most {max_bytes:,} are read here. Read it in a process of its "
            f"own: eventide inspect --keys {files.location}."
        )
    return [_operator_state(operator, chain, keys=keys) for operator in read_driver_state(log, record)]


def _stored_bytes(log: CommitLog, record: Record) -> int:
    manifests = [record.part(Span(*stage["manifest"])) for stage in record.footer["stages"]]
    return sum(RecordPages(log, manifest).live_bytes for manifest in manifests)


def _operator_state(stored: StoredOperator, chain: Sequence[Plan], *, keys: bool) -> OperatorState:
    """Return the state of an operator from the headers and the pages of its buckets."""
    depth, bodies, pages = stored.depth, stored.heads, stored.pages
    bucket, first = next((bucket, snapshot.load(body)) for bucket, body in bodies.items())
    calls = _blocks_of(first.get(CALLS, {}), pages[bucket])  # with them, the watermark of the source is in their part
    if stored.tracker is not None:
        tracker = stored.tracker.tracker()
    else:
        tracker = calls["tracker"] if calls else _blocks_of(first["tracker"], pages[bucket])
    watermarks = tracker["all" if "inputs" in tracker else "coalescer"]["keys"]  # of several inputs: of all
    plan = _plan_of(first, pages[bucket])
    current = chain[depth] if depth < len(chain) else None
    frames = [] if current is None else _scanned(current, schemas_in(plan), bodies, pages)
    processor = current if isinstance(current, ProcessPlan) else None
    state, timers = (None, None) if processor is None else processor_tables(processor, frames)
    headers = ((snapshot.load(body), _ReadOnlyPages(pages.get(bucket, {}))) for bucket, body in bodies.items())
    return OperatorState(
        depth=depth,
        format=stored.format,
        plan=plan["plan"] | calls.get("facts", {}),
        buckets=stored.buckets,
        watermark_us=first["watermark"],
        watermarks={key: known_datetime(output) for key, output, _ in watermarks},
        at=as_datetime(first["now"]),
        origins=stored_origins(tracker, plan["plan"]),
        gaps=stored_gaps(tracker, plan["plan"] | calls.get("facts", {})),
        pages=sum(map(len, pages.values())),
        bytes=sum(len(body) for parts in (bodies, *pages.values()) for body in parts.values()),
        windows=None if current is None or processor else _windows(frames, by_row=_counts_rows(current)),
        state=state,
        timers=timers,
        forgotten_origins=sum(known.get("forgotten", 0) for known in tracker.get("inputs", [tracker])),
        in_flight=sum(CallQueue.restore(queue).in_flight for queue in calls.get("queues", ())),
        keys=key_sizes(plan, headers) if keys else None,
    )


def _plan_of(head: Mapping[str, Any], pages: Mapping[int, bytes]) -> dict[str, Any]:
    number = head["plan"][1]
    return snapshot.load(pages[number]) if number in pages else {"plan": {}, "rows": pl.DataFrame()}


def _blocks_of(part: Mapping[str, Any], pages: Mapping[int, bytes]) -> dict[str, Any]:
    reader = PageReader()
    with reader.attach(_ReadOnlyPages(pages)):
        content: dict[str, Any] = read_blocks(part, reader)[0]
    return content


def _scanned(
    plan: Plan,
    schemas: Sequence[pl.Schema],
    heads: Mapping[int, bytes],
    pages: Mapping[int, Mapping[int, bytes]],
) -> list[pl.DataFrame]:
    """Return the rows of all buckets, as the operator shows them."""
    operator = operator_of(plan, *schemas)
    frames: list[pl.DataFrame] = []
    for bucket, head in heads.items():
        store = _ReadOnlyPages(pages.get(bucket, {}))
        state, manifest = operator.read(head, store)
        with manifest.open(store):
            frames += operator.scan(state)
    return frames


def _counts_rows(plan: Plan) -> bool:
    return getattr(getattr(plan, "window", None), "axis", "time") == "rows"


def _windows(frames: Sequence[pl.DataFrame], *, by_row: bool) -> pl.DataFrame:
    """Return the open windows of all buckets. Cells are shown by slice."""
    counted = pl.concat([_OPEN.to_frame(), *(_counted(frame) for frame in frames)])
    total = counted.group_by(WINDOW).agg(pl.col("keys", "rows").sum()).sort(WINDOW, nulls_last=True)
    return total.with_columns(
        window_bound(pl.col(WINDOW_START), MIN, by_row=by_row), window_bound(pl.col(WINDOW_END), MAX, by_row=by_row)
    )


def _counted(frame: pl.DataFrame) -> pl.DataFrame:
    if c.ROWS not in frame.columns:  # rows that wait for partners: shown by the time at which they are purged
        groups = frame.group_by(pl.lit(None, pl.Int64).alias(WINDOW_START), pl.col(DUE).alias(WINDOW_END))
        return groups.agg(pl.lit(0, pl.Int64).alias("keys"), pl.len().cast(pl.Int64).alias("rows"))
    start = pl.col(c.START if c.START in frame.columns else c.SLICE).alias(WINDOW_START)
    end = (pl.col(c.END) if c.END in frame.columns else pl.lit(None, pl.Int64)).alias(WINDOW_END)
    counts = pl.len().cast(pl.Int64).alias("keys"), pl.col(c.ROWS).sum().cast(pl.Int64).alias("rows")
    return frame.group_by(start, end).agg(*counts)


class _ReadOnlyPages:
    """Pages that are only read."""

    def __init__(self, pages: Mapping[int, bytes]) -> None:
        self._pages = pages

    def get(self, page: int) -> bytes:
        return self._pages[page]

    def put(self, page: int, body: bytes) -> None:
        raise AssertionError("inspection writes nothing")

    def drop(self, page: int) -> None:
        raise AssertionError("inspection writes nothing")
