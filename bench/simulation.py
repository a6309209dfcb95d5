"""``python -m bench simulation``: the progress of T tasks, B buckets and O origins in one batch, without a cluster.

The real functions run in one process: the stamp of tasks, the tracker, the step of buckets. Tasks and buckets are
sampled, and their bytes and pages are multiplied. Both ways of progress are counted: ``direct``, where every task sends
its summary to every bucket, and ``coalesced``, where one place tracks the origins of all buckets.

Bytes are bodies of pages, as they are written before Spark compresses and ships them. Processor seconds are those of
this process; they depend on the machine. A sampled bucket gets all origins in the pages of a few tasks, so its
processor time leaves out most of the cost per page.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import process_time
from typing import Any

import numpy as np
import polars as pl

import eventide as ev
from eventide.operators.redistribution import BucketSnapshot
from eventide.spark import shuffle_pages as page
from eventide.spark.coalesced_progress import TRACKED, track, tracker_stage
from eventide.spark.shuffle_pages import Progress, ShufflePage, Stage
from eventide.spark.stamp import stamp_to_pages
from eventide.spark.stateful import apply_pages, sort_pages
from eventide.state.operator_state import State
from eventide.time import MIN

PLAN = (
    ev.stream(time="ts", key="key", watermark=ev.bounded_delay("10 seconds", origin="device", idle_timeout="1 hour"))
    .window(ev.tumbling("1 minute"))
    .agg(rows=ev.count(), total=ev.sum("value"))
    .plan
)
SCHEMA = {"ts": pl.Int64(), "key": pl.Int64(), "device": pl.Int64(), "value": pl.Int64()}
NOW = 1_760_000_000_000_000
KEYS = 1_000_000
SIZES = (
    (10, 10, 1_000),
    (100, 100, 1_000),
    (100, 100, 10_000),
    (100, 100, 100_000),
    (1_000, 100, 10_000),
    (100, 1_000, 10_000),
    (1_000, 1_000, 10_000),
    (2_000, 2_000, 1_000_000),
)


@dataclass(frozen=True)
class Counted:
    """One batch of one way: pages and bytes in all exchanges, state of progress, and processor seconds."""

    tasks: int
    buckets: int
    origins: int
    progress: Progress
    pages: int
    progress_bytes: int
    row_bytes: int  # what would be sent without any progress, once for each exchange
    state_bytes: int  # of the trackers of all places
    stamp_seconds: float  # of all tasks
    tracker_seconds: float  # of the place that tracks all origins
    bucket_seconds: float  # of all buckets


def count(
    tasks: int, buckets: int, origins: int, progress: Progress, *, rows: int = 1_000, samples: int = 2
) -> Counted:
    """Run a batch, sampled, and return its costs. A task reads ``rows`` rows, at least one of each of its origins."""
    stage = Stage(f"simulation {buckets} {progress}", PLAN, (SCHEMA,), buckets, progress=progress)
    per_task = max(1, origins // tasks)
    sampled = [_task_rows(task, per_task, origins, rows) for task in range(min(samples, tasks))]
    stage.operator()
    start = process_time()
    pages = [
        entry
        for task, frame in enumerate(sampled)
        for entry in stamp_to_pages(stage, frame, NOW, page.sequence(task, 0), MIN)
    ]
    stamp_seconds = (process_time() - start) * tasks / len(sampled)
    first = [(_size(page), page.kind in TRACKED) for page in pages]
    exchanged = _Exchange(len(first), sum(size for size, _ in first)) * (tasks / len(sampled))
    plain = _row_bytes(stage, sampled) * tasks // len(sampled)
    arrived = _summaries(stage, origins, samples=10)
    tracker_seconds, state_bytes = 0.0, 0
    progress_bytes = exchanged.bytes - plain  # a page has both
    if progress == "coalesced":
        progress_bytes = round(sum(size for size, tracked in first if tracked) * tasks / len(sampled))
        passing = [size for size, tracked in first if not tracked]
        exchanged += _Exchange(len(passing), sum(passing)) * (tasks / len(sampled))
        start = process_time()
        tracked = track(tracker_stage(stage), stage.operator().initial(), sort_pages(arrived), {})
        tracker_seconds = process_time() - start
        exchanged += _Exchange(len(tracked.pages), sum(map(_size, tracked.pages)))
        progress_bytes += sum(map(_size, tracked.pages))
        state_bytes = _state_bytes(stage, tracked.state)
        arrived = [page.row() for page in tracked.pages if page.bucket == 0]
    start = process_time()
    step, _ = apply_pages(stage, stage.operator().initial(), sort_pages(arrived), {})
    bucket_seconds = (process_time() - start) * buckets
    state_bytes += _state_bytes(stage, step.state) * buckets
    plain *= 2 if progress == "coalesced" else 1
    seconds = (round(number, 3) for number in (stamp_seconds, tracker_seconds, bucket_seconds))
    return Counted(tasks, buckets, origins, progress, exchanged.pages, progress_bytes, plain, state_bytes, *seconds)


@dataclass(frozen=True)
class _Exchange:
    """Pages that are sent, and their bytes."""

    pages: int
    bytes: int

    def __mul__(self, times: float) -> _Exchange:
        return _Exchange(round(self.pages * times), round(self.bytes * times))

    def __add__(self, other: _Exchange) -> _Exchange:
        return _Exchange(self.pages + other.pages, self.bytes + other.bytes)


def _task_rows(task: int, origins: int, all_origins: int, rows: int) -> pl.DataFrame:
    """The rows of a task: its origins are no other task's, its keys are any."""
    number = np.arange(max(rows, origins))
    rng = np.random.default_rng(task)
    device = (task * origins + number % origins) % all_origins
    time = NOW - rng.integers(0, 30_000_000, len(number))
    key, value = rng.integers(0, KEYS, len(number)), rng.integers(0, 1_000, len(number))
    return pl.DataFrame({"ts": time, "key": key, "device": device, "value": value}, schema=SCHEMA)


def _summaries(stage: Stage, origins: int, samples: int) -> list[dict[str, Any]]:
    """The pages with the progress of all origins for one place, from a few tasks."""
    stage_of_one = Stage(f"{stage.name} alone", PLAN, (SCHEMA,), 1, progress=stage.progress)
    samples = min(samples, origins)
    arrived = []
    for task in range(samples):
        rows = _task_rows(task, -(-origins // samples), origins, 1)
        pages = stamp_to_pages(stage_of_one, rows, NOW, page.sequence(task, 0), MIN)
        arrived += [page.row() for page in pages if stage.progress == "direct" or page.kind in TRACKED]
    return arrived


def _row_bytes(stage: Stage, sampled: Sequence[pl.DataFrame]) -> int:
    """The bytes of the pages that have rows, without progress."""
    alone = Stage(f"{stage.name} rows", PLAN, (SCHEMA,), stage.buckets, progress="coalesced")
    pages = [page for frame in sampled for page in stamp_to_pages(alone, frame, NOW, 0, MIN)]
    return sum(_size(page) for page in pages if page.kind not in TRACKED)


def _size(one: ShufflePage) -> int:
    return len(one.body or b"") + len(one.detail or "")


def _state_bytes(stage: Stage, state: State) -> int:
    """The bytes of a tracker in state: those of a state that holds nothing else."""
    operator = stage.operator()
    empty = operator.initial()
    sizes = []
    for tracker in (state.tracker, empty.tracker):
        written = BucketSnapshot()
        head, _ = operator.write(State(tracker, MIN, MIN, empty.store, ids=empty.ids), written, None)
        sizes.append(len(head) + sum(map(len, written.bodies.values())))
    return max(sizes[0] - sizes[1], 0)


def table(results: Sequence[Counted]) -> str:
    """The results as Markdown."""
    head = "| tasks | buckets | origins | progress | pages | progress bytes | row bytes | state bytes | CPU s |"
    lines = [
        f"| {result.tasks:,} | {result.buckets:,} | {result.origins:,} | {result.progress} | {result.pages:,} "
        f"| {result.progress_bytes:,} | {result.row_bytes:,} | {result.state_bytes:,} "
        f"| {result.stamp_seconds + result.tracker_seconds + result.bucket_seconds:,.2f} |"
        for result in results
    ]
    return "\n".join([head, "|" + "---|" * 9, *lines])


def main(arguments: Sequence[str]) -> int:
    """Count the given sizes, or a series of them, and print JSON lines and a table."""
    parser = argparse.ArgumentParser(prog="python -m bench simulation")
    parser.add_argument("sizes", nargs="*", help="tasks x buckets x origins, as 2000x2000x1000000")
    parser.add_argument("--rows", type=int, default=1_000, help="rows of a task")
    options = parser.parse_args(list(arguments))
    sizes = [tuple(map(int, size.split("x"))) for size in options.sizes] or SIZES
    results = []
    for tasks, buckets, origins in sizes:
        for progress in ("direct", "coalesced"):
            results.append(count(tasks, buckets, origins, progress, rows=options.rows))
            print(json.dumps(asdict(results[-1])), flush=True)
    print(table(results))
    return 0
