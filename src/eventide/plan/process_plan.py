"""The plan of a processor: an immutable description, complete and checked."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import polars as pl

from eventide.errors import processing as errors
from eventide.plan.calls import AsyncMap
from eventide.plan.losses import losses
from eventide.plan.plan import IngestionTime, Input, Mode, Sides
from eventide.processors import Processor, RowProcessor
from eventide.processors.fitting import declared
from eventide.processors.timers import COLUMNS
from eventide.triggers import Trigger, on_update
from eventide.watermarks import Strategy
from eventide.windows import global_window
from eventide.windows.everything import Everything

OnError = Literal["raise", "dead"]
Late = Literal["process", "divert"]


@dataclass(frozen=True)
class ProcessPlan:
    """Everything that a host needs to know to run a processor.

    With several ``inputs`` the time, the key and the watermark are those of the first one. Their rows are alike, unless
    they are ``sides``.
    """

    time: str | IngestionTime
    key: tuple[str, ...]
    watermark: Strategy
    processor: Processor
    state: Mapping[str, pl.DataType]
    output: Mapping[str, pl.DataType]
    name: str
    on_error: OnError = "raise"
    late: Late = "process"
    inputs: tuple[Input, ...] = ()
    sides: Sides | None = None
    calls: tuple[AsyncMap, ...] = ()

    operation = "processor"
    """What the plan does with rows, as metrics name it."""
    tells = "rows"
    """What is emitted is told once, and there are no windows."""
    offset = None
    counts_all_keys = False
    """Rows of one key have nothing to do with those of another."""

    @property
    def edges(self) -> tuple[Input, ...]:
        """The inputs; a plan of one stream has one."""
        return self.inputs or (Input("rows", self.time, self.key, self.watermark, self.calls),)

    def at(self, edge: int) -> ProcessPlan:
        """The plan as the rows of one input see it."""
        if not self.inputs:
            return self
        own = self.inputs[edge]
        return replace(self, time=own.time, key=own.key, watermark=own.watermark, inputs=())

    @property
    def window(self) -> Everything:
        """There are none: the processor has its own ways."""
        return global_window()

    @property
    def trigger(self) -> Trigger:
        """What is emitted is told with its bundle."""
        return on_update()

    @property
    def mode(self) -> Mode:
        """What was told is not told again, nor taken back."""
        return "discarding"

    @property
    def clocked(self) -> bool:
        """Whether something happens because the clock of the batches goes on."""
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
    """Check what a user says of a processor."""
    if not isinstance(processor, Processor):
        raise errors.not_a_processor(processor)
    own = name or type(processor).__name__
    method, base = ("process_row", RowProcessor) if isinstance(processor, RowProcessor) else ("process", Processor)
    if getattr(type(processor), method) is getattr(base, method):
        raise errors.nothing_processed(own, method)
    if output is None:
        raise errors.no_output(".process()")
    for option, given, known in (("on_error", on_error, get_args(OnError)), ("late", late, get_args(Late))):
        if given not in known:
            raise errors.unknown_choice(option, given, known)
    if on_error == "dead" and not isinstance(processor, RowProcessor):
        raise errors.only_row_by_row(own)
    state = declared(f"{own}.state_schema", processor.state_schema, empty=True)
    for column in stream["key"]:
        if column in state:
            raise errors.state_is_key(own, column)
        if column in COLUMNS:
            raise errors.key_is_of_timers(column)
    try:
        processor = deepcopy(processor)  # what the caller does to theirs afterwards changes nothing here
    except Exception as cause:
        raise errors.cannot_copy(own, cause) from cause
    return ProcessPlan(
        processor=processor,
        state=state,
        output=declared("output", output),
        name=own,
        on_error=on_error,
        late=late,
        **stream,
    )


def facts_of(plan: ProcessPlan) -> list[tuple[str, str]]:
    """Lines for ``explain()``."""
    columns = ", ".join(f"{name}: {dtype}" for name, dtype in plan.state.items())
    python = "runs Python for each row" if plan.row_by_row else "runs Python for each bundle, on columns"
    late = "come to the processor, marked" if plan.late == "process" else "go to the late output"
    failing = "go to the dead letters" if plan.on_error == "dead" else "stop the query"
    return [
        ("processor", f"{plan.name} ({python})"),
        ("state", f"one row per key: {columns}" if columns else "none but timers"),
        ("timers", "on event time and the batch clock" if plan.clocked else "on event time"),
        ("gives", ", ".join(f"{name}: {dtype}" for name, dtype in plan.output.items())),
        ("late rows", late),
        ("rows that fail", failing),
        *losses("nothing: unusable rows go to the dead letters"),
    ]
