"""Any operator behind calls that span bundles: rows in flight are state, and watermarks wait behind them.

The watermark of the source is found when rows arrive. It reaches the operator behind the calls when all rows that
arrived before it have left. So a row that is not late when it arrives is not late when its call is answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import polars as pl

from eventide.errors import plan as plan_errors
from eventide.errors import processing as errors
from eventide.errors import state as state_errors
from eventide.operators import columns as c
from eventide.operators.admission import admit
from eventide.operators.async_map import Answer
from eventide.operators.background_calls import BackgroundCalls
from eventide.operators.bundle import Bundle, Stamp, Step
from eventide.operators.call_queue import END, IDLE, INPUT, NUMBER, CallQueue
from eventide.operators.calling import schema_after, with_answers
from eventide.operators.deadlines import clock_lags, deadline
from eventide.operators.inputs import advanced, blank_letter, fresh_tracker, restored_tracker
from eventide.operators.operator import StreamOperator
from eventide.operators.outcome import Stamped
from eventide.operators.repeats import without_repeats
from eventide.operators.saving import CALLS, State, check
from eventide.operators.with_calls import failed_letters, inputs_behind, own_time_columns, without_windows
from eventide.plan.calls import AsyncMap
from eventide.plan.fingerprint import fingerprint
from eventide.state import snapshot
from eventide.state.blocks import KnownBlocks, read_blocks, write_blocks
from eventide.state.paging import Ledger, Pages, Writer
from eventide.time import MAX, MIN, earliest, format_instant
from eventide.watermarks import InputEnd, InputIdle, InputWatermark, Note, Options, Strategy, Trackers, Watermark
from eventide.watermarks.rules import NoWatermark


@dataclass(frozen=True)
class Held:
    """The state of the operator behind the calls, and the rows of each input that have not reached it."""

    inner: State
    queues: tuple[CallQueue, ...]


class CallsAcrossBundles:
    """An operator whose rows are asked about first, while further bundles arrive. ``inner`` is built by ``binding``."""

    def __init__(self, plan: Any, inner: StreamOperator, *schemas: Mapping[str, pl.DataType]) -> None:
        self.plan = plan
        self.inner = inner
        self.schemas = tuple(dict(schema) for schema in schemas)
        behind = zip(plan.edges, self.schemas, strict=True)
        self._inputs = inputs_behind(plan, tuple(schema_after(own.calls, schema) for own, schema in behind))
        self._maps: dict[int, AsyncMap] = {
            edge: call for edge, own in enumerate(plan.edges) for call in own.calls if call.options.across_bundles
        }
        self.calls = BackgroundCalls(self._maps)
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

    @property
    def state_facts(self) -> Mapping[str, str]:
        """What a state in pages depends on, in words."""
        return {**self.inner.state_facts, **self._facts}

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
                call = self._maps.get(edge)
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

    def save(self, state: State) -> bytes:
        """The state as bytes: that of the operator behind, with the rows in flight beside it."""
        content = snapshot.load(self.inner.save(state.store.inner))
        rows = [pl.DataFrame(schema=schema) for schema in self.schemas]
        return snapshot.dump(content | {CALLS: self._saved(state) | {"rows": rows}})

    @staticmethod
    def schemas_in(saved: bytes) -> list[pl.Schema]:
        """The columns of the rows of each input, as they were when the state was saved."""
        content = snapshot.load(saved)
        if content.get("kind") == "head":
            raise state_errors.not_whole()
        if CALLS not in content:
            raise state_errors.spanning_changed(added=True)
        return [frame.schema for frame in content[CALLS]["rows"]]

    def load(self, saved: bytes) -> tuple[Self, State]:
        """The operator and the state that were saved."""
        content = snapshot.load(saved)
        calls = content.pop(CALLS)
        loaded: Any = type(self.inner)
        if hasattr(self.inner, "inner"):
            self.inner, inner = loaded.load(self.inner.plan, type(self.inner.inner), snapshot.dump(content))
        else:
            self.inner, inner = loaded.load(self.inner.plan, snapshot.dump(content))
        return self, self._state(calls, inner)

    def write(self, state: State, pages: Pages, ledger: Ledger | None) -> tuple[bytes, Ledger]:
        """Put what is new since ``ledger`` into pages; gives the head and the new ledger."""
        head, inner = self.inner.write(state.store.inner, pages, ledger)
        writer = Writer(pages, inner.next)
        before: KnownBlocks | None = None if ledger is None else ledger.tables.get(CALLS)
        calls, known = write_blocks(self._saved(state), before, writer)
        writer.finish()
        head = snapshot.dump(snapshot.load(head) | {CALLS: calls, "next": writer.next}, compression="lz4")
        return head, replace(
            inner, next=writer.next, tables={**inner.tables, CALLS: known}, written=inner.written + writer.written
        )

    def read(self, head: bytes, pages: Pages, near: tuple[State, Ledger] | None = None) -> tuple[State, Ledger]:
        """The state that was written."""
        content = snapshot.load(head)
        if CALLS not in content:
            raise state_errors.spanning_changed(added=True)
        blocks = content.pop(CALLS)
        before = None if near is None else (near[0].store.inner, near[1])
        inner, ledger = self.inner.read(snapshot.dump(content), pages, before)
        with ledger.open(pages):
            calls, known = read_blocks(blocks, ledger.shelf)
        return self._state(calls, inner), replace(ledger, tables={**ledger.tables, CALLS: known})

    def let_go(self, state: State, ledger: Ledger, *, keep: int = 0) -> State:
        """The state with about ``keep`` bytes in memory of what can be fetched again. Rows in flight stay."""
        held: Held = state.store
        return replace(state, store=replace(held, inner=self.inner.let_go(held.inner, ledger, keep=keep)))

    def sizes(self, state: State, ledger: Ledger | None = None) -> dict[str, int]:
        """How large the state is."""
        held: Held = state.store
        sizes = self.inner.sizes(held.inner, ledger)
        in_flight = [frame for queue in held.queues for frame in (queue.waiting, queue.answered)]
        known: KnownBlocks = (Ledger() if ledger is None else ledger).tables.get(CALLS, KnownBlocks())
        return sizes | {
            "rows": sizes["rows"] + sum(frame.height for frame in in_flight),
            "raw": sizes["raw"] + sum(int(frame.estimated_size()) for frame in in_flight),
            "pages": sizes["pages"] + len(known.all()),
            "bytes": sizes["bytes"] + sum(page.size for page in known.all()),
        }

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
            if edge in self._maps:
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
        taken = dict.fromkeys(self._maps, 0)
        for edge in self._maps:
            self.calls.begin(edge, queues[edge].waiting)
        while True:
            arrived = self.calls.arrived
            missing = []
            for edge, call in self._maps.items():
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

    @property
    def _facts(self) -> dict[str, str]:
        given = [f"{name}: {dtype}" for call in self._maps.values() for name, dtype in call.output.items()]
        return {**fingerprint(self.plan), "calls": f"across bundles, for {', '.join(given)}"}

    def _saved(self, state: State) -> dict[str, Any]:
        queues = [queue.saved() for queue in state.store.queues]
        return {"facts": self._facts, "tracker": state.tracker.snapshot(), "now": state.now, "queues": queues}

    def _state(self, saved: Mapping[str, Any], inner: State) -> State:
        check(saved["facts"], self._facts)
        tracker = restored_tracker(self.plan, saved["tracker"])
        schemas = zip(saved["queues"], self.schemas, self.inner.schemas, strict=True)
        queues = tuple(CallQueue.restore(queue).bound_to(before, after) for queue, before, after in schemas)
        return State(tracker, inner.watermark, saved["now"], Held(inner, queues), inner.position)


def plan_behind(plan: Any) -> Any:
    """The plan of the operator behind the calls: its watermarks come from the queue only."""
    if plan.inputs:
        inputs = tuple(
            replace(own, watermark=_from_queue(own.watermark), calls=_within_bundles(own.calls)) for own in plan.inputs
        )
        names = {"inputs": inputs}
        if "watermark" in type(plan).__dataclass_fields__:
            names["watermark"] = inputs[0].watermark
        return replace(plan, **names)
    return replace(plan, watermark=_from_queue(plan.watermark), calls=_within_bundles(plan.calls))


def schemas_behind(plan: Any, schemas: Sequence[Mapping[str, pl.DataType]]) -> list[Mapping[str, pl.DataType]]:
    """The columns of rows behind the calls that span bundles."""
    behind = list(schemas)
    for edge, own in enumerate(plan.edges):
        for call in own.calls:
            if call.options.across_bundles:
                behind[edge] = call.after(behind[edge])
    return behind


def _from_queue(strategy: Strategy) -> Strategy:
    key = strategy.options.watermark_key
    return Strategy(NoWatermark(), Options(watermark_key=key, max_future_skew=None))


def _within_bundles(calls: Sequence[AsyncMap]) -> tuple[AsyncMap, ...]:
    return tuple(call for call in calls if not call.options.across_bundles)
