"""The second stage: pages of one bucket meet the bucket's state. Lateness is judged, triggers fire, panes come out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from typing import Any

from pyspark.sql import Row

from eventide.operators.bundle import Stamp, Step
from eventide.operators.operator import StreamOperator, drained, ended, noted
from eventide.operators.row_order import in_row_order
from eventide.operators.saving import State
from eventide.operators.watermark_reset import reset_watermark
from eventide.spark import page, standing
from eventide.spark.bodies import table_to_bytes
from eventide.spark.command_effects import CommandEffect, command_effects, is_known
from eventide.spark.keeping import Keeper
from eventide.spark.measures import measured, progress_detail
from eventide.spark.settling import settle
from eventide.spark.stage import Stage
from eventide.spark.stamping import unstamped
from eventide.spark.tasks import this_task
from eventide.spark.types import arrow_schema, to_spark
from eventide.time import MIN
from eventide.watermarks import Cut, Note, Watermark

_PANES = 500_000  # panes in one page, so that a page stays below what a row of Spark can hold


def operated(stage: Stage, keeper: Keeper, bucket: int, rows: Iterable[Any]) -> Iterator[Row]:
    """One bucket's pages of a batch in, its results out; its state is kept."""
    settle()
    task = this_task()
    pages = in_order(rows)
    kept, hit = keeper.read(bucket, task)
    with kept.ledger.open(keeper.pages) if kept.ledger else nullcontext():
        step, promises = absorb(stage, kept.state, pages, kept.promises)
    sizes = keeper.write(bucket, task, kept, step.state, promises) | {"cache_hits": int(hit)}
    if task.batch is not None:
        standing.note(task.run, stage.name, task.batch, step.state.watermark)
    passing = (Row(**row.asDict() | {"bucket": bucket}) for row in pages if "." in row["kind"])
    effects = command_effects(pages, kept.state)
    before = kept.state.watermark
    own = (Row(**one.row()) for one in results(stage, bucket, step, sizes, before=before, commands=effects))
    return chain(own, passing)


def in_order(pages: Iterable[Any]) -> list[Any]:
    """The pages of a batch as they are absorbed; commands first, in the order in which they were given."""
    return sorted(pages, key=lambda one: (one["sequence"], one["kind"], one["detail"] or ""))


def absorb(
    stage: Stage, state: State, pages: Iterable[Any], promises: dict[str, int]
) -> tuple[Step[State], dict[str, int]]:
    """A bundle: all pages of a batch for one bucket, in order."""
    operator = stage.operator()
    stamps: list[Stamp] = []
    notes: list[Note] = []
    promises = dict(promises)
    now = MIN
    for one in pages:
        now = max(now, one["now"])
        match one["kind"]:
            case page.STAMP:
                stamps.append(page.stamp_from_bytes(one["body"]))
            case page.ROWS:
                stamps.append(unstamped(stage, one["body"], one["now"], state.watermark))
            case page.PROMISE:
                promises.update(one["counts"] or {})
            case page.CONTROL:
                state, told_ = obeyed(operator, state, json.loads(one["detail"]))
                notes += told_
    key = stage.plan.watermark.options.watermark_key
    by_key: dict[str, list[int]] = {}
    for label, time in promises.items():
        by_key.setdefault(label.partition("/")[2] or str(key), []).append(time)
    notes += [Watermark(int(of), min(times)) for of, times in by_key.items() if len(times) == stage.sources]
    if not stage.streaming:
        notes += drained(stage.plan)
    now = max(now, state.now)
    if not stamps:
        stamps = [operator.stamp(operator.no_rows(), now, state.watermark)]
    if not operator.judges_when_stamping:
        stamps = in_row_order(stamps)
    return operator.absorb(state, stamps, now, notes=notes), promises


def obeyed(operator: StreamOperator, state: State, command: dict[str, Any]) -> tuple[State, Sequence[Note]]:
    """A command of the control stream, and the watermarks that it brings."""
    if not is_known(command, state):
        return state, []
    tracker = state.tracker.copy()
    match command["do"]:
        case "drain":
            return state, drained(operator.plan)
        case "note":
            return state, [noted(operator.plan, command.get("to"), command["watermark"])]
        case "end":
            return state, [ended(operator.plan, command.get("input"))]
        case "cut":
            return state, [Cut(command["stream"], command["number"], command["time"], command["reached"])]
        case "lower_watermark":
            return reset_watermark(operator.plan, state, command["watermark"]), []
        case "skip":
            tracker.skip(command.get("origin"), up_to=command.get("up_to"))
        case "retire":
            tracker.retire(command.get("origin"))
    return replace(state, tracker=tracker), []


def results(
    stage: Stage,
    bucket: int,
    step: Step[State],
    sizes: dict[str, int],
    *,
    before: int = MIN,
    commands: Sequence[CommandEffect] = (),
) -> Iterator[page.Page]:
    """Return the output of a bundle as pages. ``before`` is the watermark at its start."""
    output, now = step.output, step.state.now
    for kind, rows in ((page.PANES, output.panes), (page.LATE, output.late), (page.DEAD, output.dead)):
        if rows.height:
            schema = arrow_schema(rows.schema)
            for start in range(0, rows.height, _PANES):
                body = table_to_bytes(to_spark(rows.slice(start, _PANES), schema))
                yield page.Page(bucket, page.at_depth(kind, stage.depth), start, now, body)
    counts = measured(output, step.state, sizes)
    progress = page.at_depth(page.PROGRESS, stage.depth)
    promises = {"promise": output.promise} | {f"promise.{key}": time for key, time in output.promises.items()}
    detail = progress_detail(step.state, operation=stage.plan.operation, before=before, commands=commands)
    yield page.Page(bucket, progress, 0, now, None, counts | promises, detail)
