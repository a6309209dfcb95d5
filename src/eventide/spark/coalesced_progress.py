"""Progress coalesced in one place: where it is used, and the stage that tracks all origins of an operator.

If each bucket tracks all origins, every task sends its summary to every bucket, and every bucket stores every origin:
tasks x buckets x origins. With coalesced progress, summaries go to one group of a stateful stage before the buckets.
It tracks the origins and sends each bucket what they have reached, in the same batch. Pages with rows pass through.
Every bucket gets the same values as if it had tracked the origins itself, so outputs have the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, get_args

import polars as pl
from pyspark.sql import Row

from eventide.errors import PlanError
from eventide.operators.inputs import advanced
from eventide.plan.plan import Plan
from eventide.spark import shuffle_pages as page
from eventide.spark.buckets import bucket_labels
from eventide.spark.metrics import command_effects, progress_detail
from eventide.spark.shuffle_pages import OriginTraits, Progress, Stage, freeze_gc, this_task, traits_of
from eventide.spark.state_store import BucketStateStore
from eventide.spark.stateful import apply_command, input_watermarks, sort_pages
from eventide.state.operator_state import State
from eventide.time import MIN
from eventide.watermarks import Note

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRESS = "spark.eventide.progress"

COALESCED_FROM = 32
"""The number of buckets from which progress is coalesced by default.

The additional stateful stage costs every batch time, and rows are shuffled twice, so fewer buckets stay direct.
"""

TRACKED = (page.SUMMARY, page.OUTPUT_WATERMARK, page.CONTROL, page.TICK)
"""The kinds of pages that are sent to the place that tracks progress."""


def progress_of(plan: Plan, buckets: int, sources: int, spark: SparkSession, recorded: Progress | None) -> Progress:
    """Return how the progress of origins reaches the buckets of an operator of a stream.

    ``sources`` is the number of buckets of the previous operator in a chain. ``recorded`` is what the checkpoint was
    started with: it decides the layout of state.
    """
    chosen = _chosen(spark)
    traits = traits_of(plan)
    _check(chosen, traits)
    if recorded is not None:
        if chosen not in (None, recorded):
            raise PlanError(
                f"The checkpoint was started with {PROGRESS} = {recorded!r}, and now it is {chosen!r}. Unset it, or "
                "use a new checkpoint."
            )
        return recorded
    return chosen or default_progress(traits, buckets, sources)


def progress_after_rescale(traits: OriginTraits, buckets: int, sources: int, spark: SparkSession) -> Progress:
    """Return how progress reaches so many buckets of an operator whose state moves: as in a new query."""
    chosen = _chosen(spark)
    _check(chosen, traits)
    return chosen or default_progress(traits, buckets, sources)


def default_progress(traits: OriginTraits, buckets: int, sources: int = 0) -> Progress:
    """Return how progress reaches the buckets, unless the session or a checkpoint says otherwise.

    Without origins a summary is one row, which costs little in each of the pages that are sent anyway.
    """
    has_many = sources > 0 or traits.has_origins
    return "coalesced" if has_many and buckets >= COALESCED_FROM and not traits.looks_up_origins else "direct"


def describe_progress(stage: Stage) -> str:
    """Return a line for ``explain``."""
    if stage.progress == "coalesced":
        return "coalesced: tasks send it to one place, which sends watermarks to every bucket in the same batch"
    return "direct: tasks send it to every bucket"


def tracker_stage(stage: Stage) -> Stage:
    """Return the stage that tracks progress for the buckets of ``stage``. Its state is cached under another name."""
    return replace(stage, name=f"{stage.name}.progress")


def _check(chosen: Progress | None, traits: OriginTraits) -> None:
    """Reject a setting that the operator cannot follow."""
    if chosen == "coalesced" and traits.looks_up_origins:
        raise PlanError(
            f"{PROGRESS} is 'coalesced', but this pipeline looks up single origins in every bucket (.deduplicate() by "
            "sequence, or windows by offset). Set it to 'direct', or unset it."
        )


@dataclass(frozen=True)
class Tracked:
    """A batch of summaries: the state after it, the output watermarks of the previous operator, and pages."""

    state: State  # only its tracker, its watermark and its time are used
    output_watermarks: dict[str, int]
    pages: Sequence[page.ShufflePage]


def process_summaries(stage: Stage, store: BucketStateStore, bucket: int, rows: Iterable[Any]) -> Iterator[Row]:
    """Track the progress that arrived at a bucket, if any did, and pass on all other pages."""
    freeze_gc()
    tracked: list[Any] = []
    others: list[Any] = []
    for row in rows:
        (tracked if row["kind"] in TRACKED else others).append(row)
    passing = (Row(**row.asDict() | {"bucket": bucket}) for row in others)
    if not tracked:
        return passing
    task = this_task()
    stored, _ = store.read(bucket, task)
    after = track(stage, stored.state, sort_pages(tracked), stored.output_watermarks)
    store.write(bucket, task, stored, after.state, after.output_watermarks)
    return chain((Row(**output.row()) for output in after.pages), passing)


def track(stage: Stage, state: State, pages: Sequence[Any], output_watermarks: dict[str, int]) -> Tracked:
    """Apply all summaries, output watermarks and commands of a batch to the tracker, as one bundle."""
    operator, before, now = stage.operator(), state, MIN
    summaries: list[tuple[int, pl.DataFrame]] = []
    notes: list[Note] = []
    resets: list[str] = []
    output_watermarks = dict(output_watermarks)
    for row in pages:
        now = max(now, row["now"])
        match row["kind"]:
            case page.SUMMARY:
                summaries.append(page.summary_from_bytes(row["body"]))
            case page.OUTPUT_WATERMARK:
                output_watermarks.update(row["counts"] or {})
            case page.CONTROL:
                command = json.loads(row["detail"])
                state, command_notes = apply_command(operator, state, command)
                notes += command_notes
                resets += [row["detail"]] if command["do"] == "lower_watermark" else []
    notes += input_watermarks(stage, output_watermarks)
    now = max(now, state.now)
    if not summaries:
        summaries = [(0, operator.stamp(operator.no_rows(), now, state.watermark).summary)]
    tracker = advanced(state.tracker, summaries, now, True, notes)
    after = replace(state, tracker=tracker, watermark=max(state.watermark, tracker.time), now=now)
    effects = command_effects(pages, before)
    detail = progress_detail(after, operation=stage.plan.operation, before=before.watermark, commands=effects)
    body = page.reached_to_bytes(tracker, notes)
    sent: list[page.ShufflePage] = []
    for number, label in enumerate(bucket_labels(stage.buckets)):
        # Rows are late or not by the watermark that a command has lowered, so every bucket lowers its own.
        sent += [page.ShufflePage(label, page.CONTROL, -1, now, detail=reset) for reset in resets]
        sent.append(page.ShufflePage(label, page.REACHED, -1, now, body, detail=detail if number == 0 else None))
    return Tracked(after, output_watermarks, sent)


def _chosen(spark: SparkSession) -> Progress | None:
    setting = spark.conf.get(PROGRESS, None)
    for known in get_args(Progress):
        if setting == known:
            progress: Progress = known
            return progress
    if setting is None:
        return None
    raise PlanError(f"{PROGRESS} is {setting!r}. Set it to 'direct' or 'coalesced', or unset it.")
