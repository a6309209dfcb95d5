"""The contract of operators: what goes into a step, what comes out of it, and what hosts call.

The rows of a bundle are stamped, input by input and perhaps in several tasks, and then applied together. Stamps need
no state; applying them is a pure step from one state to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, Protocol, TypeVar

import polars as pl

from eventide import _columns as c
from eventide._display import short_repr
from eventide.errors import DataError, PlanError, did_you_mean, shown
from eventide.operators.inputs import Inputs, blank_letter
from eventide.operators.window_logic import Stamped
from eventide.panes import dead_rows, late_rows
from eventide.plan.plan import Plan
from eventide.state.operator_state import State
from eventide.state.pages import Manifest, PageStore
from eventide.time import MAX, MIN, format_instant, known_datetime
from eventide.watermarks import InputEnd, InputWatermark, Note, Watermark

S = TypeVar("S")


@dataclass(frozen=True)
class Bundle:
    """A micro-batch: its rows, its batch time, and watermarks from outside."""

    rows: pl.DataFrame | Sequence[pl.DataFrame]  # of several inputs: one frame each
    now: int
    notes: Sequence[Note] = ()  # watermarks that reach the operator in band
    polled: bool = True  # whether the source was asked for rows: idleness counts only then

    @property
    def frames(self) -> Sequence[pl.DataFrame]:
        """The rows of each input."""
        return [self.rows] if isinstance(self.rows, pl.DataFrame) else self.rows


@dataclass(frozen=True)
class Counts:
    """What became of the rows. ``rows = kept + late + dead``, always."""

    rows: int = 0
    kept: int = 0  # in a window, in the join, or processed
    late: int = 0
    dead: dict[str, int] = field(default_factory=dict)
    refined: int = 0  # of those kept: behind the watermark, but within the lateness
    unemitted: int = 0  # of those kept: arrived after their trigger had finished (only with may_lose_data)
    panes: dict[str, int] = field(default_factory=dict)
    retractions: int = 0
    forgotten_keys: int = 0  # of windows counted in rows, and of joins with the last rows

    def __repr__(self) -> str:
        return short_repr(self)

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.rows + other.rows,
            self.kept + other.kept,
            self.late + other.late,
            _sum(self.dead, other.dead),
            self.refined + other.refined,
            self.unemitted + other.unemitted,
            _sum(self.panes, other.panes),
            self.retractions + other.retractions,
            self.forgotten_keys + other.forgotten_keys,
        )

    @property
    def balanced(self) -> bool:
        """Whether every row is accounted for."""
        return is_balanced(self.rows, self.kept, self.late, self.dead)


def is_balanced(rows: int, kept: int, late: int, dead: Mapping[str, int]) -> bool:
    """Whether every row is in a window, late or a dead letter.

    >>> is_balanced(4, 2, 1, {"null_time": 1})
    True
    """
    return rows == kept + late + sum(dead.values())


@dataclass(frozen=True)
class Stamp:
    """Some rows of a bundle, prepared without state; the operator applies the stamps of all tasks."""

    rows: int
    dead: Sequence[pl.DataFrame]
    summary: pl.DataFrame  # the progress of each origin
    late_rows: int  # rows that were behind the watermark
    stamped: Stamped
    edge: int = 0  # the input of the rows


@dataclass(frozen=True, repr=False)
class Output:
    """The output of one bundle. ``promise`` is the output watermark: no earlier output time will follow."""

    panes: pl.DataFrame
    late: pl.DataFrame
    dead: pl.DataFrame
    watermark_us: int  # after the bundle
    promise: int
    counts: Counts
    open_panes: int
    promises: Mapping[int, int] = field(default_factory=dict)  # of each watermark key, where several are forwarded
    in_flight: int = 0  # rows whose calls span bundles: they have arrived, and are not in ``counts`` yet

    @property
    def watermark(self) -> datetime | None:
        """The watermark after the bundle; None: nothing is known yet, or the stream is drained."""
        return known_datetime(self.watermark_us)

    @property
    def drained(self) -> bool:
        """Whether the stream has ended."""
        return self.watermark_us == MAX

    def __repr__(self) -> str:
        frames = ((self.panes, "pane"), (self.late, "late row"), (self.dead, "dead letter"))
        counts = ", ".join(f"{frame.height:,} {noun}{'s' * (frame.height != 1)}" for frame, noun in frames)
        watermark = "drained" if self.drained else f"watermark {format_instant(self.watermark_us)}"
        return f"<Output: {counts}, {watermark}>"

    def promise_of(self, key: int) -> int:
        """The output watermark with a key; the lowest one where that key is not forwarded."""
        return self.promises.get(key, MIN) if self.promises else self.promise

    def notes_for(self, key: int) -> list[Watermark]:
        """The watermarks for a following operator: that of its key, and others that it may forward."""
        others = [Watermark(other, time) for other, time in self.promises.items() if other != key]
        return [Watermark(key, self.promise_of(key)), *others]


@dataclass(frozen=True)
class Step(Generic[S]):
    """A bundle's output, and the state for the next one."""

    state: S
    output: Output


class StreamOperator(Protocol):
    """A plan bound to the columns of its inputs."""

    @property
    def plan(self) -> Plan:
        """The plan that the operator runs."""
        ...

    @property
    def schemas(self) -> tuple[dict[str, pl.DataType], ...]:
        """The columns of the rows of each input."""
        ...

    @property
    def judges_when_stamping(self) -> bool:
        """Whether a stamp depends on the watermark before the bundle."""
        ...

    @property
    def hears_time(self) -> bool:
        """Whether every advance of a watermark matters to it, not only one that reaches a time it waits for."""
        ...

    @property
    def state_facts(self) -> Mapping[str, str]:
        """What a state in pages depends on, as text."""
        ...

    def no_rows(self, edge: int = 0) -> pl.DataFrame:
        """An input's part of a bundle without rows."""
        ...

    def reads(self, edge: int = 0) -> set[str]:
        """The columns of an input that the plan reads."""
        ...

    def letter(self, reason: str, detail: str, edge: int = 0) -> pl.DataFrame:
        """A dead letter without a row, for a part of an input that cannot be read."""
        ...

    def output_schemas(self) -> dict[str, dict[str, pl.DataType]]:
        """The columns of panes, late rows and dead letters."""
        ...

    def initial(self) -> State:
        """The state before the first bundle."""
        ...

    def step(self, state: State, bundle: Bundle) -> Step[State]:
        """Stamp and apply one bundle."""
        ...

    def stamp(self, rows: pl.DataFrame, now: int, watermark: int, edge: int = 0) -> Stamp:
        """Prepare rows of one input, as far as that needs no state. ``watermark`` is the one before the bundle."""
        ...

    def apply(
        self, state: State, stamps: Sequence[Stamp], now: int, *, notes: Sequence[Note] = (), polled: bool = True
    ) -> Step[State]:
        """Apply the stamps of a bundle, in order."""
        ...

    def next_deadline(self, state: State, lags: frozenset[int] = frozenset()) -> int | None:
        """The earliest batch time at which something can happen without rows; None: nothing can.

        MIN: the first batch starts the clocks. ``lags`` are the distances at which the output watermarks of the
        operator before follow the clock.
        """
        ...

    def lags(self, before: frozenset[int] = frozenset()) -> frozenset[int]:
        """The distances at which the output watermarks follow the clock."""
        ...

    def save(self, state: State) -> bytes:
        """The state as bytes."""
        ...

    def write(self, state: State, pages: PageStore, manifest: Manifest | None) -> tuple[bytes, Manifest]:
        """Write what is new since the last manifest into pages; returns the header and the new manifest."""
        ...

    def read(
        self, header: bytes, pages: PageStore, cached: tuple[State, Manifest] | None = None
    ) -> tuple[State, Manifest]:
        """The state that was written."""
        ...

    def evict(self, state: State, manifest: Manifest, *, keep: int = 0) -> State:
        """The state with about ``keep`` bytes in memory of what can be fetched again."""
        ...

    def sizes(self, state: State, manifest: Manifest | None = None) -> dict[str, int]:
        """How large the state is."""
        ...

    def scan(self, state: State) -> list[pl.DataFrame]:
        """The rows in state, for inspection."""
        ...


class BoundOperator:
    """What operators share: a plan bound to the columns of its inputs."""

    _inputs: Inputs
    schemas: tuple[dict[str, pl.DataType], ...]

    @property
    def judges_when_stamping(self) -> bool:
        """Rows travel as they are, and are judged when they are applied."""
        return False

    def no_rows(self, edge: int = 0) -> pl.DataFrame:
        return pl.DataFrame(schema=self.schemas[edge])

    def reads(self, edge: int = 0) -> set[str]:
        """All columns: joins emit them, and only user functions know which they need."""
        return set(self.schemas[edge])

    def letter(self, reason: str, detail: str, edge: int = 0) -> pl.DataFrame:
        return blank_letter(self._inputs, edge, reason, detail)

    def step(self: StreamOperator, state: State, bundle: Bundle) -> Step[State]:
        frames = enumerate(bundle.frames)
        stamps = [self.stamp(rows, bundle.now, state.watermark, edge) for edge, rows in frames]
        return self.apply(state, stamps, bundle.now, notes=bundle.notes, polled=bundle.polled)


class EmptyOutputs:
    """Late rows and dead letters of a bundle that has none, as an operator over ``inputs`` emits them."""

    def __init__(self, inputs: Inputs) -> None:
        self.columns = [*inputs.schema, c.TIME]
        self.letters = pl.DataFrame(
            schema=inputs.schema | {c.TIME: pl.Int64(), c.REASON: pl.String(), c.DETAIL: pl.String()}
        )
        self.rows = self.letters.select(self.columns)
        self.late = late_rows(self.rows, watermark=0, now=0)
        self.dead = dead_rows(self.letters, watermark=0, now=0)

    def schemas(self, panes: Mapping[str, pl.DataType]) -> dict[str, dict[str, pl.DataType]]:
        """The columns of all outputs."""
        return {"panes": dict(panes), "late": dict(self.late.schema), "dead": dict(self.dead.schema)}


def check_clock(state: State, now: int) -> None:
    """Reject a batch time before that of the last bundle."""
    if now < state.now:
        raise DataError(
            f"The batch clock went back from {format_instant(state.now)} to {format_instant(now)}. "
            "Give bundles in the order of their time."
        )


def noted(plan: Plan, to: int | str | None, time: int) -> Note:
    """A watermark from outside: for a watermark key, an input by its name, or (None) the key of the plan."""
    if isinstance(to, str):
        if to not in (names := [source.name for source in plan.inputs]):
            raise _no_such_input(to, names)
        return InputWatermark(to, time)
    key = plan.watermark.options.watermark_key
    if to not in (None, *(keys := [source.watermark_key for source in plan.edges])):
        known = ", ".join(map(str, sorted(set(keys))))
        raise PlanError(f"no input of this pipeline has watermark key {shown(to)}. Known keys: {known}.")
    return Watermark(key if to is None else to, time)


def ended(plan: Plan, name: str | None) -> Note:
    """The end of an input: the only one, or one of several by its name."""
    names = [source.name for source in plan.inputs]
    if (name is None and names) or (name is not None and name not in names):
        raise _no_such_input(name, names)
    return Watermark(plan.watermark.options.watermark_key, MAX) if name is None else InputEnd(name)


def drained(plan: Plan) -> list[Watermark]:
    """The watermarks that end the streams of all inputs."""
    keys = dict.fromkeys(source.watermark_key for source in plan.edges)
    return [Watermark(key, MAX) for key in keys]


def _no_such_input(name: str | None, inputs: Sequence[str]) -> PlanError:
    if not inputs:
        return PlanError(f"this pipeline has one input, which has no name, so {name!r} cannot be meant. Name no input.")
    if name is None:
        return PlanError(f"this pipeline has the inputs {list(inputs)}. Name the one that is meant.")
    return PlanError(f"there is no input {name!r}. {did_you_mean(name, inputs)}")


def _sum(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return {name: left.get(name, 0) + right.get(name, 0) for name in (left | right)}
