"""The stages of the Spark host without Spark: the same functions, called in the order in which Spark calls them.

What only Spark can show (checkpoints, retries, types on their way through the JVM) is tested on Spark; whether
stamping in several tasks, buckets, pages and state on pages change a result is tested here, on many histories.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from eventide.operators.operator import Counts
from eventide.operators.redistribution import BucketSnapshot
from eventide.operators.windowed_aggregate import State
from eventide.plan.pipeline import Pipeline
from eventide.spark import shuffle_pages as page
from eventide.spark.buckets import bucket_labels
from eventide.spark.coalesced_progress import TRACKED, Tracked, track
from eventide.spark.metrics import command_effects
from eventide.spark.shuffle_pages import Progress, Stage, read_batches, traits_of
from eventide.spark.stamp import forward_pages, split_rows, stamp_to_pages
from eventide.spark.stateful import apply_pages, output_pages, sort_pages
from eventide.spark.types import arrow_schema, from_spark
from eventide.testing.hosts import BundleResult
from eventide.time import MAX
from tests.pages.divided_state import DividedState, redistribute

_serial = itertools.count()


@dataclass
class Buckets:
    """One operator: its stage, and the state of its buckets."""

    stage: Stage
    states: dict[int, State] = field(default_factory=dict)
    promises: dict[int, dict[int, int]] = field(default_factory=dict)
    watermark: int | None = None  # as the stamps know it; None: they do not
    opened: ExitStack = field(default_factory=ExitStack)
    tracker: Tracked | None = None  # where progress is coalesced

    def coalesced(self, pages: Sequence[page.ShufflePage]) -> list[page.ShufflePage]:
        """The stage before the buckets: what is tracked becomes what it has reached, and other pages pass."""
        tracked = [page.row() for page in pages if page.kind in TRACKED]
        assert {item["bucket"] for item in tracked} <= {0}, "one place tracks progress"
        others = [page for page in pages if page.kind not in TRACKED]
        if not tracked:
            return others
        state = self.tracker.state if self.tracker else self.stage.operator().initial()
        known = self.tracker.output_watermarks if self.tracker else {}
        self.tracker = track(self.stage, state, sort_pages(tracked), known)
        return [*others, *self.tracker.pages]

    def step(self, pages: Sequence[page.ShufflePage]) -> list[page.ShufflePage]:
        """A batch: every bucket takes its pages and gives its own."""
        if self.stage.progress == "coalesced":
            pages = self.coalesced(pages)
        emitted: list[page.ShufflePage] = []
        for label in bucket_labels(self.stage.buckets):
            rows = sort_pages([page.row() for page in pages if page.bucket == label])
            if not rows:
                continue
            state = self.states.get(label) or self.stage.operator().initial()
            step, promises = apply_pages(self.stage, state, rows, self.promises.get(label, {}))
            self.states[label], self.promises[label] = step.state, promises
            detail = next((row["detail"] for row in rows if row["kind"] == page.REACHED), None)
            before, effects = state.watermark, command_effects(rows, state)
            emitted += output_pages(self.stage, label, step, {}, before=before, commands=effects, tracked_detail=detail)
            emitted += [page.ShufflePage(**row) for row in rows if "." in row["kind"]]
        return emitted

    def stored(self) -> list[tuple[bytes, BucketSnapshot]]:
        """The state of each bucket, written anew."""
        written = []
        for state in self.states.values():
            pages = BucketSnapshot()
            head, _ = self.stage.operator().write(state, pages, None)
            written.append((head, pages))
        return written

    def stored_tracker(self) -> BucketSnapshot | None:
        """The state of the tracker, where progress is coalesced."""
        if self.tracker is None:
            return None
        pages = BucketSnapshot()
        pages.head, _ = self.stage.operator().write(self.tracker.state, pages, None)
        return pages

    def restored(self, state: DividedState, sources: int) -> Buckets:
        """The same operator with the state of other buckets."""
        stage = replace(self.stage, name=f"stage {next(_serial)}", buckets=len(state.buckets), sources=sources)
        stage = replace(stage, progress="direct" if state.tracker is None else "coalesced")
        restored = Buckets(stage)
        if state.tracker is not None:
            restored.tracker = Tracked(stage.operator().read(state.tracker.head, state.tracker)[0], {}, [])
        for label, part in zip(bucket_labels(len(state.buckets)), state.buckets, strict=True):
            restored.states[label], ledger = stage.operator().read(part.head, part)
            restored.opened.enter_context(ledger.open(part))  # cells stay in their pages until they are read
        return restored


class PagesHost:
    """Pipelines over pages, as on Spark. ``knows=False``: stamps never know the watermark that stood.

    ``moves`` is called before each bundle. State moves into as many buckets as it returns; None: it stays.
    ``progress_after`` is called for each move, and returns how progress reaches the buckets from then on.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        schema: Mapping[str, pl.DataType] | Sequence[Mapping[str, pl.DataType]],
        *,
        buckets: int = 3,
        tasks: int = 2,
        knows: bool = True,
        progress: Progress = "direct",
        moves: Callable[[], int | None] | None = None,
        progress_after: Callable[[], Progress] = lambda: "direct",
    ) -> None:
        self._tasks, self._knows, self._moves, self._progress_after = tasks, knows, moves, progress_after
        self.command: dict[str, Any] | None = None  # of the control stream, for the next bundle
        self.details: list[Any] = []  # what the operators reported of the last bundle
        self._operators: list[Buckets] = []
        schemas = (schema,) if isinstance(schema, Mapping) else tuple(schema)
        for depth, plan in enumerate(pipeline.plans):
            count = 1 if not plan.key or plan.counts_all_keys else buckets
            sources = self._operators[-1].stage.buckets if depth else 0
            stage = Stage(f"stage {next(_serial)}", plan, schemas, count, depth, sources)
            stage = replace(stage, progress="direct" if traits_of(plan).looks_up_origins else progress)
            self._operators.append(Buckets(stage))
            panes = stage.operator().output_schemas()["panes"]
            schemas = (dict(pl.DataFrame(pl.from_arrow(arrow_schema(panes).empty_table())).schema),)

    def bundle(
        self,
        rows: pl.DataFrame | Sequence[pl.DataFrame],
        *,
        now: int,
        watermark: int | None,
        polled: bool,
        key: int | str | None = None,
    ) -> BundleResult:
        if self._moves:
            self.move(self._moves())
        first = self._operators[0]
        inputs = [rows] if isinstance(rows, pl.DataFrame) else rows
        parts = [(edge, part) for edge, frame in enumerate(inputs) for part in _parts(frame, self._tasks)]
        pages: list[page.ShufflePage] = []
        for task, (edge, part) in enumerate(parts):
            pages += stamp_to_pages(first.stage, part, now, page.sequence(task, 0), self._was(first), edge)
        if watermark is not None:
            command: dict[str, Any] = {"do": "advance_watermark", "watermark": watermark, "to": key}
            if watermark == MAX:
                command = {"do": "drain"} if key is None else {"do": "end", "input": key}
            detail = json.dumps(command)
            pages += [page.ShufflePage(b, page.CONTROL, -1, now, detail=detail) for b in first.stage.tracking_labels]
        if self.command is not None:
            detail, self.command = json.dumps({"id": "command", **self.command}), None
            pages += [page.ShufflePage(b, page.CONTROL, -1, now, detail=detail) for b in first.stage.tracking_labels]
        pages += [page.ShufflePage(b, page.TICK, -1, now) for b in first.stage.tracking_labels]
        emitted = first.step(pages)
        for operator in self._operators[1:]:
            taken = [page.row() for page in emitted]
            emitted = operator.step(list(forward_pages(operator.stage, taken, 0, self._was(operator))))
        self.details = [
            {page.detail for page in emitted if page.kind == f"progress.{depth}" and page.detail} for depth in (0, 1)
        ]
        return self._came(emitted)

    def move(self, buckets: int | None) -> None:
        """Move the state into another number of buckets, once there is some."""
        if buckets is not None and all(operator.states for operator in self._operators):
            self.restore(self.stored(buckets))

    def stored(self, buckets: int) -> list[DividedState]:
        """The state of each operator in so many buckets."""
        return [self._divided(operator, buckets) for operator in self._operators]

    def restore(self, operators: Sequence[DividedState]) -> None:
        """Go on from the state of another host."""
        for depth, state in enumerate(operators):
            sources = self._operators[depth - 1].stage.buckets if depth else 0
            self._operators[depth] = self._operators[depth].restored(state, sources)

    def _divided(self, operator: Buckets, buckets: int) -> DividedState:
        def coalesces(count: int) -> bool:
            return self._progress_after() == "coalesced" and not traits_of(operator.stage.plan).looks_up_origins

        tracker = operator.stored_tracker()
        return redistribute(operator.stored(), buckets, split_rows, tracker=tracker, coalesces=coalesces)

    def _was(self, operator: Buckets) -> int | None:
        states = list(operator.states.values())
        assert len({state.watermark for state in states}) <= 1, "all buckets agree on the watermark"
        if not self._knows:
            return None
        return states[0].watermark if states else operator.stage.operator().initial().watermark

    def _came(self, pages: Sequence[page.ShufflePage]) -> BundleResult:
        def rows(kind: str, stage: Stage) -> pl.DataFrame:
            schema = stage.operator().output_schemas()[kind]
            rows = [entry for entry in pages if entry.kind == page.at_depth(kind, stage.depth)]
            frames = [_unpacked(run, schema) for run in rows]
            return pl.concat([pl.DataFrame(schema=schema), *frames])

        stages = [operator.stage for operator in self._operators]
        panes = rows("panes", stages[-1])
        key = stages[-1].plan.key
        windowed = panes.height and "window_start" in panes.columns
        order = panes.sort("diff", "window_end", "window_start", *key, maintain_order=True) if windowed else panes
        first = next(iter(self._operators[0].states.values()))
        return BundleResult(
            order,
            [rows("late", stage) for stage in stages],
            [rows("dead", stage) for stage in stages],
            first.watermark,
            _counts(pages),
        )


def _unpacked(sent: page.ShufflePage, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    assert sent.body is not None
    return from_spark(list(read_batches(sent.body)), schema)


def _parts(rows: pl.DataFrame, tasks: int) -> list[pl.DataFrame]:
    size = -(-rows.height // tasks) or 1
    return [rows.slice(start, size) for start in range(0, rows.height, size)]


def _counts(pages: Sequence[page.ShufflePage]) -> Counts:
    total: dict[str, Any] = {}
    for entry in pages:
        if entry.kind == "progress.0":
            for name, number in (entry.counts or {}).items():
                total[name] = total.get(name, 0) + number
    return Counts(
        rows=total.get("rows", 0),
        kept=total.get("kept", 0),
        late=total.get("late", 0),
        dead={name[5:]: number for name, number in total.items() if name.startswith("dead_")},
        refined=total.get("refined", 0),
        unemitted=total.get("unemitted", 0),
        panes={name[6:].upper(): number for name, number in total.items() if name.startswith("panes_")},
        retractions=total.get("retractions", 0),
        forgotten_keys=total.get("forgotten_keys", 0),
    )
