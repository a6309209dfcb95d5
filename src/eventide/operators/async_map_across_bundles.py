"""An operator behind async calls that span bundles: rows in flight are state, and watermarks wait behind them.

The watermark advances when rows arrive. It reaches the operator behind the calls when all rows that arrived before it
have left. So a row that is not late when it arrives is not late when its call is answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from eventide import _columns as c
from eventide.errors import PlanError
from eventide.operators.admission import admit
from eventide.operators.async_calls import Answer
from eventide.operators.async_map import (
    failed_letters,
    inputs_behind,
    own_time_columns,
    schema_after,
    with_answers,
    without_windows,
)
from eventide.operators.call_queue import END, IDLE, INPUT, NUMBER, CallQueue, CallsAtOnce, PendingCalls
from eventide.operators.deadlines import clock_lags, deadline
from eventide.operators.deduplication import Deduplication
from eventide.operators.inputs import advanced, fresh_tracker, restored_tracker
from eventide.operators.operator import BoundOperator, Stamp, Step, StreamOperator, check_clock
from eventide.operators.window_logic import Stamped
from eventide.plan.async_call import AsyncMap
from eventide.plan.fingerprint import fingerprint
from eventide.plan.plan import Plan
from eventide.state import format as snapshot
from eventide.state.block_codec import StoredBlocks, read_blocks, write_blocks
from eventide.state.errors import not_whole, spanning_changed
from eventide.state.operator_state import CALLS, State, check_plan
from eventide.state.pages import Manifest, PageStore, PageWriter
from eventide.time import MAX, MIN, earliest
from eventide.watermarks import InputEnd, InputIdle, InputWatermark, Note, OperatorTracker, Options, Strategy, Watermark
from eventide.watermarks.generators import NoWatermark


@dataclass(frozen=True)
class HeldRows:
    """The state of the inner operator, and the rows of each input that wait for their calls."""

    inner: State
    queues: tuple[CallQueue, ...]


class SavedCalls:
    """Saves and restores the state of calls that span bundles. ``inner`` is the operator that receives their rows."""

    plan: Plan
    inner: StreamOperator
    schemas: tuple[dict[str, pl.DataType], ...]

    @property
    def state_facts(self) -> Mapping[str, str]:
        return {**self.inner.state_facts, **self._facts}

    def save(self, state: State) -> bytes:
        """The state as bytes, with the columns of the rows as they arrive."""
        content = snapshot.load(self.inner.save(state.store.inner))
        rows = [pl.DataFrame(schema=schema) for schema in self.schemas]
        return snapshot.dump(content | {CALLS: self._saved(state) | {"rows": rows}})

    def restored(self, calls: Mapping[str, Any], inner: State) -> State:
        """The state of these calls and of the inner operator. Another plan is rejected, with what has changed."""
        check_plan(calls["facts"], self._facts)
        tracker = restored_tracker(self.plan, calls["tracker"])
        saved = zip(calls["queues"], self.schemas, self.inner.schemas, strict=True)
        queues = tuple(CallQueue.restore(queue).bound_to(before, after) for queue, before, after in saved)
        return State(tracker, inner.watermark, calls["now"], HeldRows(inner, queues), inner.position)

    def write(self, state: State, pages: PageStore, manifest: Manifest | None) -> tuple[bytes, Manifest]:
        head, inner = self.inner.write(state.store.inner, pages, manifest)
        writer = PageWriter(pages, inner.next_page)
        before: StoredBlocks | None = None if manifest is None else manifest.tables.get(CALLS)
        calls, known = write_blocks(self._saved(state), before, writer)
        writer.finish()
        head = snapshot.dump(snapshot.load(head) | {CALLS: calls, "next": writer.next_page}, compression="lz4")
        written = inner.written + writer.written
        return head, replace(inner, next_page=writer.next_page, tables={**inner.tables, CALLS: known}, written=written)

    def read(
        self, header: bytes, pages: PageStore, cached: tuple[State, Manifest] | None = None
    ) -> tuple[State, Manifest]:
        blocks, rest = divided(header)
        before = None if cached is None else (cached[0].store.inner, cached[1])
        inner, manifest = self.inner.read(rest, pages, before)
        with manifest.open(pages):
            calls, known = read_blocks(blocks, manifest.reader)
        return self.restored(calls, inner), replace(manifest, tables={**manifest.tables, CALLS: known})

    def evict(self, state: State, manifest: Manifest, *, keep: int = 0) -> State:
        """The state with about ``keep`` bytes in memory of what can be fetched again. Rows in flight stay."""
        held: HeldRows = state.store
        return replace(state, store=replace(held, inner=self.inner.evict(held.inner, manifest, keep=keep)))

    def sizes(self, state: State, manifest: Manifest | None = None) -> dict[str, int]:
        held: HeldRows = state.store
        sizes = self.inner.sizes(held.inner, manifest)
        in_flight = [frame for queue in held.queues for frame in (queue.waiting, queue.answered)]
        known: StoredBlocks = (manifest or Manifest()).tables.get(CALLS, StoredBlocks())
        return sizes | {
            "rows": sizes["rows"] + sum(frame.height for frame in in_flight),
            "raw": sizes["raw"] + sum(int(frame.estimated_size()) for frame in in_flight),
            "pages": sizes["pages"] + len(known.all()),
            "bytes": sizes["bytes"] + sum(page.size for page in known.all()),
        }

    @property
    def _facts(self) -> dict[str, str]:
        calls = [call for edge in self.plan.edges for call in edge.calls if call.options.across_bundles]
        columns = [f"{name}: {dtype}" for call in calls for name, dtype in call.output.items()]
        return {**fingerprint(self.plan), "calls": f"across bundles, for {', '.join(columns)}"}

    def _saved(self, state: State) -> dict[str, Any]:
        queues = [queue.saved() for queue in state.store.queues]
        return {"facts": self._facts, "tracker": state.tracker.snapshot(), "now": state.now, "queues": queues}


def plan_behind(plan: Plan) -> Plan:
    """The plan of the inner operator: only the queue of rows in flight advances its watermarks."""
    return plan.with_inputs(
        tuple(
            replace(
                source,
                watermark=_queue_watermark(source.watermark),
                calls=tuple(call for call in source.calls if not call.options.across_bundles),
            )
            for source in plan.edges
        )
    )


def schemas_behind(plan: Plan, schemas: Sequence[Mapping[str, pl.DataType]]) -> list[Mapping[str, pl.DataType]]:
    """The columns of rows after the calls that span bundles."""
    columns = list(schemas)
    for edge, source in enumerate(plan.edges):
        for call in source.calls:
            if call.options.across_bundles:
                columns[edge] = call.schema_after(columns[edge])
    return columns


def _queue_watermark(strategy: Strategy) -> Strategy:
    options = strategy.options
    options_behind = Options(
        max_future_skew=None,
        watermark_key=options.watermark_key,
        ids=options.ids,
        ids_within=options.ids_within,
    )
    return Strategy(NoWatermark(), options_behind)


def divided(saved: bytes) -> tuple[dict[str, Any], bytes]:
    """Divide a state, or the header of one in pages, into the part of the calls and that of the inner operator."""
    content = snapshot.load(saved)
    if CALLS not in content:
        raise spanning_changed(added=True)
    calls = content.pop(CALLS)
    return calls, snapshot.dump(content)


def schemas_of(calls: Mapping[str, Any]) -> list[pl.Schema]:
    """The columns of the rows of each input, as they were when the state was saved as a whole."""
    if "rows" not in calls:
        raise not_whole()
    return [frame.schema for frame in calls["rows"]]


class CallsAcrossBundles(BoundOperator, SavedCalls):
    """Makes calls that continue while further bundles arrive, and passes answered rows to an inner operator.

    ``maps`` has the calls that span bundles, by the number of their input; ``calls`` makes them.
    """

    def __init__(self, plan: Plan, inner: StreamOperator, *schemas: Mapping[str, pl.DataType]) -> None:
        self.plan = plan
        self.inner = inner
        self.schemas = tuple(dict(schema) for schema in schemas)
        sources = zip(plan.edges, self.schemas, strict=True)
        self._inputs = inputs_behind(plan, tuple(schema_after(source.calls, schema) for source, schema in sources))
        self._repeats = Deduplication(plan, self._inputs, column=lambda _, name: pl.col(name), widen=self._letters)
        self.maps: dict[int, AsyncMap] = {
            edge: call for edge, source in enumerate(plan.edges) for call in source.calls if call.options.across_bundles
        }
        self.calls: PendingCalls = CallsAtOnce(self.maps)  # until a host attaches its own
        for edge, source in enumerate(plan.edges):
            outputs = {name for call in source.calls for name in call.output}
            for column in own_time_columns(source, self.schemas[edge]):
                if column in outputs or column not in self.schemas[edge]:
                    raise PlanError(
                        f".map_async(across_bundles=True): the time or the watermark reads {column!r}, "
                        "which the calls give. "
                        "Watermarks are known when rows arrive: use columns of the rows, or leave out "
                        "across_bundles=True."
                    )
        if plan.offset is not None:
            raise PlanError(
                ".map_async(across_bundles=True): windows by= an offset need all rows of a bundle at once. Leave out "
                "across_bundles=True, or window by time."
            )

    def output_schemas(self) -> dict[str, dict[str, pl.DataType]]:
        return self.inner.output_schemas()

    def initial(self) -> State:
        schemas = zip(self.schemas, self.inner.schemas, strict=True)
        queues = tuple(CallQueue.empty(before, after) for before, after in schemas)
        return State(fresh_tracker(self.plan), MIN, MIN, HeldRows(self.inner.initial(), queues))

    def stamp(self, rows: pl.DataFrame, now: int, watermark: int, edge: int = 0) -> Stamp:
        """Rows that calls can be made for, dead letters, and what all of them say of the watermark."""
        admitted = admit(without_windows(self.plan.at(edge)), rows, now)
        summary = self.plan.edges[edge].watermark.summarise(admitted.seen, c.TIME, now)
        dead = [self._letters(edge, letters) for letters in admitted.dead]
        timed = admitted.rows.select(*self.schemas[edge], c.TIME)
        return Stamp(rows.height, dead, summary, 0, Stamped(pl.DataFrame(), timed), edge)

    def apply(
        self, state: State, stamps: Sequence[Stamp], now: int, *, notes: Sequence[Note] = (), polled: bool = True
    ) -> Step[State]:
        """Apply a bundle's stamps in order: rows wait for their calls, and released rows reach the inner operator."""
        check_clock(state, now)
        held: HeldRows = state.store
        stamps = self._repeats.by_number(stamps, state.tracker)
        tracker = advanced(state.tracker, [(stamp.edge, stamp.summary) for stamp in stamps], now, polled, notes)
        dead: list[list[pl.DataFrame]] = [[] for _ in held.queues]
        for stamp in stamps:
            dead[stamp.edge] += stamp.dead
        queues, passing = self._arrived(held.queues, stamps)
        queues = self._marked(queues, tracker, notes)
        try:
            queues = self._settled(queues, tracker, dead)
            left, stamped = [], []
            for edge, queue in enumerate(queues):
                call = self.maps.get(edge)
                queue, rows = queue.leave(ordered=call is not None and call.options.ordered)
                left.append(queue)
                stamped.append(self._stamped(held.inner, edge, passing.get(edge, rows), dead[edge], now))
            step = self.inner.apply(held.inner, stamped, now, notes=self._released(left), polled=polled)
        except BaseException:
            self.calls.cancel()  # the rows of this bundle are not in state, and their numbers will be given again
            raise
        after = State(tracker, step.state.watermark, now, HeldRows(step.state, tuple(left)), step.state.position)
        in_flight = sum(queue.in_flight for queue in left)
        return Step(after, replace(step.output, in_flight=in_flight))

    @property
    def hears_time(self) -> bool:
        return self.inner.hears_time

    def next_deadline(self, state: State, lags: frozenset[int] = frozenset()) -> int | None:
        """The deadline of the source or the inner operator. While rows are in flight, answers move the watermark."""
        held: HeldRows = state.store
        free = not any(queue.in_flight for queue in held.queues)
        lags = lags | clock_lags(self.plan) if free else frozenset()
        return earliest([deadline(state, frozenset()), self.inner.next_deadline(held.inner, lags)])

    def lags(self, before: frozenset[int] = frozenset()) -> frozenset[int]:
        return self.inner.lags(before | clock_lags(self.plan))

    def scan(self, state: State) -> list[pl.DataFrame]:
        return self.inner.scan(state.store.inner)

    def _arrived(
        self, queues: Sequence[CallQueue], stamps: Sequence[Stamp]
    ) -> tuple[list[CallQueue], dict[int, pl.DataFrame]]:
        """The queues with the rows of a bundle, and the rows of inputs that no calls span."""
        arrived, passing = [], {}
        for edge, queue in enumerate(queues):
            frames = [stamp.stamped.rows.drop(c.TIME) for stamp in stamps if stamp.edge == edge]
            rows = pl.concat([self.no_rows(edge), *frames])
            if edge in self.maps:
                queue = queue.arrive(rows)
            else:
                passing[edge] = rows
            arrived.append(queue)
        return arrived, passing

    def _marked(self, queues: Sequence[CallQueue], tracker: Any, notes: Sequence[Note]) -> list[CallQueue]:
        """The queues with the watermarks that follow the rows of a bundle."""
        marked = []
        for edge, queue in enumerate(queues):
            input_tracker = tracker.input(edge)
            for note in notes:
                if isinstance(note, Watermark) and (self.plan.inputs or note.key != input_tracker.key):
                    queue = queue.mark(note.key, note.time)
                if isinstance(note, InputEnd) and note.input == tracker.names[edge]:
                    queue = queue.mark(END, 1)
            queue = queue.mark(INPUT if self.plan.inputs else input_tracker.key, input_tracker.time)
            if isinstance(tracker, OperatorTracker):
                queue = queue.mark(IDLE, int(tracker.names[edge] in tracker.idle_inputs))
            marked.append(queue)
        return marked

    def _settled(
        self, queues: Sequence[CallQueue], tracker: Any, dead: Sequence[list[pl.DataFrame]]
    ) -> list[CallQueue]:
        """The queues with the answers that have arrived. Waits while more rows are in flight than may be."""
        settled = list(queues)
        taken = dict.fromkeys(self.maps, 0)
        for edge in self.maps:
            self.calls.begin(edge, queues[edge].waiting)
        while True:
            arrived = self.calls.arrived
            missing = []
            for edge, call in self.maps.items():
                answers = self.calls.answers(edge, taken[edge])
                taken[edge] += len(answers)
                settled[edge] = self._answered(edge, call, settled[edge], answers, dead[edge])
                queue, _ = settled[edge].leave(ordered=call.options.ordered)
                ends = self.calls.wait_for_all or tracker.input(edge).time == MAX
                if excess := max(0, queue.in_flight - (0 if ends else call.options.capacity)):
                    missing.append(min(excess, queue.waiting.height))
            if not missing:
                self.calls.taken = arrived
                return settled
            self.calls.wait(arrived + min(missing))

    def _answered(
        self,
        edge: int,
        call: AsyncMap,
        queue: CallQueue,
        answers: Sequence[tuple[int, Answer]],
        dead: list[pl.DataFrame],
    ) -> CallQueue:
        if not answers:
            return queue
        numbers = [number for number, _ in answers]
        places = np.searchsorted(queue.waiting[NUMBER].to_numpy(), numbers)
        by_place = [(int(place), answer) for place, (_, answer) in zip(places, answers, strict=True)]
        called = with_answers(call, queue.waiting, by_place)
        if called.failed.height:
            dead.append(self._letters(edge, failed_letters(called).drop(NUMBER)))
        return queue.settle(numbers, called.rows)

    def _stamped(self, inner: State, edge: int, rows: pl.DataFrame, dead: Sequence[pl.DataFrame], now: int) -> Stamp:
        """The stamps of the inner operator for the released rows, with their dead letters."""
        stamp = self.inner.stamp(rows, now, inner.watermark, edge)
        count = stamp.rows + sum(letters.height for letters in dead)
        return replace(stamp, rows=count, dead=[*stamp.dead, *dead])

    def _released(self, queues: Sequence[CallQueue]) -> list[Note]:
        """The watermarks that the inner operator may receive."""
        if not self.plan.inputs:
            return [Watermark(key, time) for key, time in queues[0].released.items()]
        notes: list[Note] = []
        for source, queue in zip(self.plan.inputs, queues, strict=True):
            if queue.released.get(END):
                notes.append(InputEnd(source.name))
            elif queue.released.get(IDLE) and not queue.in_flight:
                notes.append(InputIdle(source.name))
            notes.append(InputWatermark(source.name, queue.released.get(INPUT, MIN)))
        keys = {key for queue in queues for key in queue.released if key >= 0}
        times = {key: min(queue.released.get(key, MIN) for queue in queues) for key in sorted(keys)}
        return notes + [Watermark(key, time) for key, time in times.items() if time > MIN]

    def _letters(self, edge: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows as the operator's dead letters look: what calls would have given is null."""
        schema = self._inputs.schemas[edge]
        missing = [pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name not in rows.columns]
        ours = [name for name in rows.columns if name.startswith("__")]
        return self._inputs.widen(edge, rows.with_columns(missing).select(*schema, *ours))
