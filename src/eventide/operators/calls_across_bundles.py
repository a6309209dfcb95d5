"""Any operator behind calls that span bundles: rows in flight are state, and watermarks wait behind them.

The watermark of the source is found when rows arrive. It reaches the operator behind the calls when all rows that
arrived before it have left. So a row that is not late when it arrives is not late when its call is answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from eventide.errors import plan as plan_errors
from eventide.errors import processing as errors
from eventide.operators import columns as c
from eventide.operators.admission import admit
from eventide.operators.async_map import Answer
from eventide.operators.bundle import Bundle, Stamp, Step
from eventide.operators.call_queue import END, IDLE, INPUT, NUMBER, CallQueue
from eventide.operators.calling import schema_after, with_answers
from eventide.operators.deadlines import clock_lags, deadline
from eventide.operators.inputs import advanced, blank_letter, fresh_tracker
from eventide.operators.operator import StreamOperator
from eventide.operators.outcome import Stamped
from eventide.operators.pending_calls import CallsAtOnce, PendingCalls
from eventide.operators.repeats import without_repeats
from eventide.operators.saved_calls import Held, SavedCalls
from eventide.operators.saving import State
from eventide.operators.with_calls import failed_letters, inputs_behind, own_time_columns, without_windows
from eventide.plan.calls import AsyncMap
from eventide.time import MAX, MIN, earliest, format_instant
from eventide.watermarks import InputEnd, InputIdle, InputWatermark, Note, Trackers, Watermark


class CallsAcrossBundles(SavedCalls):
    """An operator whose rows are asked about first, while further bundles arrive. ``inner`` is built by ``binding``.

    ``maps`` has the calls that span bundles, by the number of their input; ``calls`` makes them.
    """

    def __init__(self, plan: Any, inner: StreamOperator, *schemas: Mapping[str, pl.DataType]) -> None:
        self.plan = plan
        self.inner = inner
        self.schemas = tuple(dict(schema) for schema in schemas)
        behind = zip(plan.edges, self.schemas, strict=True)
        self._inputs = inputs_behind(plan, tuple(schema_after(own.calls, schema) for own, schema in behind))
        self.maps: dict[int, AsyncMap] = {
            edge: call for edge, own in enumerate(plan.edges) for call in own.calls if call.options.across_bundles
        }
        self.calls: PendingCalls = CallsAtOnce(self.maps)  # until a host attaches its own
        for edge, own in enumerate(plan.edges):
            given = {name for call in own.calls for name in call.output}
            for column in own_time_columns(own, self.schemas[edge]):
                if column in given or column not in self.schemas[edge]:
                    raise errors.time_from_calls(column)
        if plan.offset is not None:
            raise errors.offsets_across_bundles()

    @property
    def judges_when_stamping(self) -> bool:
        """Rows travel as they are: they are judged when their calls are answered."""
        return False

    def no_rows(self, edge: int = 0) -> pl.DataFrame:
        """A bundle without rows."""
        return pl.DataFrame(schema=self.schemas[edge])

    def reads(self, edge: int = 0) -> set[str]:
        """All columns: only the function knows which it needs."""
        return set(self.schemas[edge])

    def letter(self, reason: str, detail: str, edge: int = 0) -> pl.DataFrame:
        """A dead letter without a row, for a part of an input that cannot be read."""
        return blank_letter(self._inputs, edge, reason, detail)

    def output_schemas(self) -> dict[str, dict[str, pl.DataType]]:
        """The columns of panes, late rows and dead letters."""
        return self.inner.output_schemas()

    def initial(self) -> State:
        """Nothing seen yet."""
        schemas = zip(self.schemas, self.inner.schemas, strict=True)
        queues = tuple(CallQueue.empty(before, after) for before, after in schemas)
        return State(fresh_tracker(self.plan), MIN, MIN, Held(self.inner.initial(), queues))

    def step(self, state: State, bundle: Bundle) -> Step[State]:
        """One bundle, stamped and absorbed at once."""
        frames = enumerate(bundle.frames)
        stamps = [self.stamp(rows, bundle.now, state.watermark, edge) for edge, rows in frames]
        return self.absorb(state, stamps, bundle.now, notes=bundle.notes, polled=bundle.polled)

    def stamp(self, rows: pl.DataFrame, now: int, watermark: int, edge: int = 0) -> Stamp:
        """Rows that calls can be made for, dead letters, and what all of them say of the watermark."""
        admitted = admit(without_windows(self.plan.at(edge)), rows, now)
        summary = self.plan.edges[edge].watermark.summarise(admitted.seen, c.TIME, now)
        dead = [self._letters(edge, letters) for letters in admitted.dead]
        timed = admitted.rows.select(*self.schemas[edge], c.TIME)
        return Stamp(rows.height, dead, summary, 0, Stamped(pl.DataFrame(), timed), edge)

    def absorb(
        self,
        state: State,
        stamps: Sequence[Stamp],
        now: int,
        *,
        notes: Sequence[Note] = (),
        polled: bool = True,
    ) -> Step[State]:
        """A bundle's stamps, in order: rows wait for their calls, and what is free reaches the operator behind."""
        if now < state.now:
            raise plan_errors.clock_went_back(format_instant(state.now), format_instant(now))
        held: Held = state.store
        stamps = without_repeats(
            self.plan, stamps, state.tracker, self._inputs, column=lambda _, name: pl.col(name), as_one=self._letters
        )
        tracker = advanced(state.tracker, [(stamp.edge, stamp.summary) for stamp in stamps], now, polled, notes)
        dead: list[list[pl.DataFrame]] = [[] for _ in held.queues]
        for stamp in stamps:
            dead[stamp.edge] += stamp.dead
        queues, passing = self._arrived(held.queues, stamps)
        queues = self._marked(queues, tracker, notes)
        try:
            queues = self._settled(queues, tracker, dead)
            left, given = [], []
            for edge, queue in enumerate(queues):
                call = self.maps.get(edge)
                queue, rows = queue.leave(ordered=call is not None and call.options.ordered)
                left.append(queue)
                given.append(self._stamped(held.inner, edge, passing.get(edge, rows), dead[edge], now))
            step = self.inner.absorb(held.inner, given, now, notes=self._released(left), polled=polled)
        except BaseException:
            self.calls.cancel()  # the rows of this bundle are not in state, and their numbers will be given again
            raise
        after = State(tracker, step.state.watermark, now, Held(step.state, tuple(left)), step.state.position)
        in_flight = sum(queue.in_flight for queue in left)
        return Step(after, replace(step.output, in_flight=in_flight))

    @property
    def hears_time(self) -> bool:
        """Whether every move of a watermark matters to it."""
        return self.inner.hears_time

    def next_deadline(self, state: State, lags: frozenset[int] = frozenset()) -> int | None:
        """That of the source, or of the operator behind. While rows are in flight, answers move the watermark."""
        held: Held = state.store
        free = not any(queue.in_flight for queue in held.queues)
        lags = lags | clock_lags(self.plan) if free else frozenset()
        return earliest([deadline(state, frozenset()), self.inner.next_deadline(held.inner, lags)])

    def lags(self, before: frozenset[int] = frozenset()) -> frozenset[int]:
        """The distances at which the operator's own promises follow the clock."""
        return self.inner.lags(before | clock_lags(self.plan))

    def scan(self, state: State) -> list[pl.DataFrame]:
        """What rests in the state of the operator behind the calls, for inspection."""
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
        """The queues with what is known of time behind the rows of a bundle."""
        marked = []
        for edge, queue in enumerate(queues):
            own = tracker.at(edge)
            for note in notes:
                if isinstance(note, Watermark) and (self.plan.inputs or note.key != own.key):
                    queue = queue.mark(note.key, note.time)
                if isinstance(note, InputEnd) and note.input == tracker.names[edge]:
                    queue = queue.mark(END, 1)
            queue = queue.mark(INPUT if self.plan.inputs else own.key, own.time)
            if isinstance(tracker, Trackers):
                queue = queue.mark(IDLE, int(tracker.names[edge] in tracker.silent))
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
                ends = self.calls.wait_for_all or tracker.at(edge).time == MAX
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
        given = [(int(place), answer) for place, (_, answer) in zip(places, answers, strict=True)]
        called = with_answers(call, queue.waiting, given)
        if called.failed.height:
            dead.append(self._letters(edge, failed_letters(called).drop(NUMBER)))
        return queue.settle(numbers, called.rows)

    def _stamped(self, inner: State, edge: int, rows: pl.DataFrame, dead: Sequence[pl.DataFrame], now: int) -> Stamp:
        """What the operator behind makes of the rows that leave; dead letters leave with them."""
        stamp = self.inner.stamp(rows, now, inner.watermark, edge)
        count = stamp.rows + sum(letters.height for letters in dead)
        return replace(stamp, rows=count, dead=[*stamp.dead, *dead])

    def _released(self, queues: Sequence[CallQueue]) -> list[Note]:
        """What the operator behind may know of time."""
        if not self.plan.inputs:
            return [Watermark(key, time) for key, time in queues[0].released.items()]
        notes: list[Note] = []
        for own, queue in zip(self.plan.inputs, queues, strict=True):
            if queue.released.get(END):
                notes.append(InputEnd(own.name))
            elif queue.released.get(IDLE) and not queue.in_flight:
                notes.append(InputIdle(own.name))
            notes.append(InputWatermark(own.name, queue.released.get(INPUT, MIN)))
        keys = {key for queue in queues for key in queue.released if key >= 0}
        times = {key: min(queue.released.get(key, MIN) for queue in queues) for key in sorted(keys)}
        return notes + [Watermark(key, time) for key, time in times.items() if time > MIN]

    def _letters(self, edge: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows as the operator's dead letters look: what calls would have given is null."""
        schema = self._inputs.schemas[edge]
        missing = [pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name not in rows.columns]
        ours = [name for name in rows.columns if name.startswith("__")]
        return self._inputs.as_one(edge, rows.with_columns(missing).select(*schema, *ours))
