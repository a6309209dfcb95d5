"""The second stage, stateful: the pages of a bucket update its state and fire triggers. The third stage, unpack.

``process_bucket`` runs in Spark's stateful tasks. ``unpack`` turns the output pages into ordinary rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from eventide.operators.operator import Stamp, Step, StreamOperator, drained, ended, noted
from eventide.operators.row_order import in_row_order
from eventide.operators.watermark_reset import reset_watermark
from eventide.spark import shuffle_pages as page
from eventide.spark.metrics import CommandEffect, bucket_counts, command_effects, has_target, progress_detail
from eventide.spark.shuffle_pages import Stage, freeze_gc, read_batches, table_to_bytes, this_task
from eventide.spark.stamp import publish_watermark, stamp_raw_rows
from eventide.spark.state_store import BucketStateStore
from eventide.spark.types import arrow_schema, to_spark
from eventide.state.operator_state import State
from eventide.time import MIN
from eventide.watermarks import Cut, Note, Reached, Watermark

_MAX_ROWS = 500_000  # of one output page, which must fit into a row of Spark


def process_bucket(stage: Stage, store: BucketStateStore, bucket: int, rows: Iterable[Any]) -> Iterator[Row]:
    """Apply a bucket's pages of a batch to its state, write the state, and return the output pages."""
    freeze_gc()
    task = this_task()
    pages = sort_pages(rows)
    stored, hit = store.read(bucket, task)
    with stored.manifest.open(store.pages) if stored.manifest else nullcontext():
        step, output_watermarks = apply_pages(stage, stored.state, pages, stored.output_watermarks)
    sizes = store.write(bucket, task, stored, step.state, output_watermarks) | {"cache_hits": int(hit)}
    if task.batch is not None:
        publish_watermark(task.run, stage.name, task.batch, step.state.watermark)
    effects = command_effects(pages, stored.state)
    detail = next((row["detail"] for row in pages if row["kind"] == page.REACHED), None)
    outputs = output_pages(
        stage, bucket, step, sizes, before=stored.state.watermark, commands=effects, tracked_detail=detail
    )
    forwarded = (Row(**row.asDict() | {"bucket": bucket}) for row in pages if "." in row["kind"])
    return chain((Row(**output.row()) for output in outputs), forwarded)


def sort_pages(pages: Iterable[Any]) -> list[Any]:
    """Return the pages of a batch in the order in which they are applied: commands first, in the order of their ids."""
    return sorted(pages, key=lambda row: (row["sequence"], row["kind"], row["detail"] or ""))


def apply_pages(
    stage: Stage, state: State, pages: Iterable[Any], output_watermarks: dict[str, int]
) -> tuple[Step[State], dict[str, int]]:
    """Apply all pages of a batch for one bucket as one bundle.

    ``output_watermarks`` are those of the previous operator, by bucket; the new ones are returned.
    """
    operator = stage.operator()
    stamps: list[Stamp] = []
    notes: list[Note] = [] if stage.progress == "direct" else [Reached(state.tracker.reached())]
    output_watermarks = dict(output_watermarks)
    now = MIN
    for row in pages:
        now = max(now, row["now"])
        match row["kind"]:
            case page.STAMP:
                stamps.append(page.stamp_from_bytes(row["body"]))
            case page.ROWS:
                stamps.append(stamp_raw_rows(stage, row["body"], row["now"], state.watermark))
            case page.OUTPUT_WATERMARK:
                output_watermarks.update(row["counts"] or {})
            case page.CONTROL:
                state, command_notes = apply_command(operator, state, json.loads(row["detail"]))
                notes += command_notes
            case page.REACHED:
                notes = page.reached_from_bytes(row["body"])
    notes += input_watermarks(stage, output_watermarks)
    if not stage.streaming:
        notes += drained(stage.plan)
    now = max(now, state.now)
    if not stamps:
        stamps = [operator.stamp(operator.no_rows(), now, state.watermark)]
    if not operator.judges_when_stamping:
        stamps = in_row_order(stamps)
    return operator.apply(state, stamps, now, notes=notes), output_watermarks


def input_watermarks(stage: Stage, output_watermarks: dict[str, int]) -> list[Note]:
    """Return the least output watermark for each watermark key that every bucket of the previous operator has sent."""
    default = str(stage.plan.watermark.options.watermark_key)
    by_key: dict[str, list[int]] = {}
    for label, time in output_watermarks.items():
        by_key.setdefault(label.partition("/")[2] or default, []).append(time)
    return [Watermark(int(key), min(times)) for key, times in by_key.items() if len(times) == stage.sources]


def apply_command(operator: StreamOperator, state: State, command: dict[str, Any]) -> tuple[State, Sequence[Note]]:
    """Apply a command of the control stream. Return the new state and the watermarks that the command declares."""
    if not has_target(command, state):
        return state, []
    tracker = state.tracker.copy()
    match command["do"]:
        case "drain":
            return state, drained(operator.plan)
        case "advance_watermark":
            return state, [noted(operator.plan, command.get("to"), command["watermark"])]
        case "end":
            return state, [ended(operator.plan, command.get("input"))]
        case "cut":
            return state, [Cut(command["stream"], command["number"], command["time"], command["reached"])]
        case "lower_watermark":
            return reset_watermark(operator.plan, state, command["watermark"]), []
        case "skip_gap":
            tracker.skip_gap(command.get("origin"), up_to=command.get("up_to"))
        case "retire":
            tracker.retire(command.get("origin"))
    return replace(state, tracker=tracker), []


def output_pages(
    stage: Stage,
    bucket: int,
    step: Step[State],
    sizes: dict[str, int],
    *,
    before: int = MIN,
    commands: Sequence[CommandEffect] = (),
    tracked_detail: str | None = None,
) -> Iterator[page.ShufflePage]:
    """Yield the output of a bundle as pages. ``before`` is the watermark at its start.

    ``tracked_detail`` is what the place that tracks progress for all buckets reports; it sends it to one of them.
    """
    output, now = step.output, step.state.now
    for kind, rows in ((page.PANES, output.panes), (page.LATE, output.late), (page.DEAD, output.dead)):
        if rows.height:
            schema = arrow_schema(rows.schema)
            for start in range(0, rows.height, _MAX_ROWS):
                body = table_to_bytes(to_spark(rows.slice(start, _MAX_ROWS), schema))
                yield page.ShufflePage(bucket, page.at_depth(kind, stage.depth), start, now, body)
    counts = bucket_counts(output, step.state, sizes)
    counts[page.OUTPUT_WATERMARK] = output.promise
    counts |= {f"{page.OUTPUT_WATERMARK}.{key}": time for key, time in output.promises.items()}
    detail = None if tracked_detail is None else json.dumps(json.loads(tracked_detail) | {"previous_watermark": before})
    if stage.progress == "direct":
        detail = progress_detail(step.state, operation=stage.plan.operation, before=before, commands=commands)
    yield page.ShufflePage(bucket, page.at_depth(page.PROGRESS, stage.depth), 0, now, None, counts, detail)


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of pages that are a single column of bodies."""
    freeze_gc()
    for batch in batches:
        for body in batch.column(0):
            yield from read_batches(body.as_buffer())
