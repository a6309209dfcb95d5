"""The plan of a processor: an operator that the user writes."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import polars as pl

from eventide.errors import PlanError, cause_text, did_you_mean, shown
from eventide.plan.plan import Mode, Operation, RowGrain, StreamPlan, summary_of
from eventide.processors import Processor, RowProcessor
from eventide.processors.declared_columns import declared
from eventide.processors.errors import no_output
from eventide.processors.keyed_state import COLUMNS
from eventide.triggers import Trigger, on_update
from eventide.windows import global_window
from eventide.windows.global_window import GlobalWindow

OnError = Literal["raise", "dead"]
Late = Literal["process", "divert"]


@dataclass(frozen=True)
class ProcessPlan(StreamPlan):
    """A processor over one stream, over a union, or over ``sides`` whose rows differ."""

    processor: Processor
    state: Mapping[str, pl.DataType]
    output: Mapping[str, pl.DataType]
    name: str
    on_error: OnError = "raise"
    late: Late = "process"

    operation: ClassVar[Operation] = "processor"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    def summary(self) -> str:
        """What the plan does, and for which key, in one line."""
        return summary_of(self.name, self.key, self.output)

    row_grain: ClassVar[RowGrain] = "rows"
    mode: ClassVar[Mode] = "discarding"
    applies_diff = False
    offset = None
    counts_all_keys = False

    @property
    def window(self) -> GlobalWindow:
        """A processor has no windows."""
        return global_window()

    @property
    def trigger(self) -> Trigger:
        """Rows are emitted with their bundle."""
        return on_update()

    @property
    def has_clock_timers(self) -> bool:
        """Whether timers can be on the batch clock, too."""
        return self.processor.clock

    @property
    def row_by_row(self) -> bool:
        """Whether Python runs for each row."""
        return isinstance(self.processor, RowProcessor)


def process_plan(
    processor: Any,
    *,
    output: Any,
    name: str | None,
    on_error: Any,
    late: Any,
    **stream: Any,
) -> ProcessPlan:
    """Return the checked plan of a processor; ``stream`` holds its time, key, watermark and inputs."""
    if not isinstance(processor, Processor):
        raise _not_a_processor(processor)
    name = name or type(processor).__name__
    method, base = ("process_row", RowProcessor) if isinstance(processor, RowProcessor) else ("process", Processor)
    if getattr(type(processor), method) is getattr(base, method):
        raise PlanError(f"{name} has no method {method}, which processes the rows. Define it.")
    if output is None:
        raise no_output(".process()")
    for option, value, choices in (("on_error", on_error, get_args(OnError)), ("late", late, get_args(Late))):
        if value not in choices:
            raise PlanError(f".process({option}={shown(value)}): {did_you_mean(str(value), choices)}")
    if on_error == "dead" and not isinstance(processor, RowProcessor):
        raise PlanError(
            f".process(on_error='dead'): {name} processes many rows at once, so the row that failed is not known. "
            "Derive it from ev.RowProcessor, or call self.dead(rows, why) in process()."
        )
    state = declared(f"{name}.state_schema", processor.state_schema, empty=True)
    for column in stream["key"]:
        if column in state:
            raise PlanError(f"{name}.state_schema: {column!r} is a key column, which state always has. Remove it.")
        if column in COLUMNS:
            raise PlanError(f"key: {column!r} is a column of timers. Rename it before it becomes a key.")
    try:
        processor = deepcopy(processor)  # later changes to the caller's object have no effect
    except Exception as cause:
        raise PlanError(
            f"{name} cannot be copied, and each bundle gets a fresh copy: {cause_text(cause)}. Create "
            "connections and locks in open(), or in a function under functools.cache."
        ) from cause
    return ProcessPlan(
        processor=processor,
        state=state,
        output=declared("output", output),
        name=name,
        on_error=on_error,
        late=late,
        **stream,
    )


def _not_a_processor(value: object) -> PlanError:
    if isinstance(value, type):
        return PlanError(f".process({value.__name__}): pass a processor, not its class: {value.__name__}(…).")
    return PlanError(
        f".process({shown(value)}) is not a processor. Derive a class from ev.Processor (by columns) or "
        "ev.RowProcessor (row by row), and pass an instance of it."
    )
