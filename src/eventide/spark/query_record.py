"""The record of a query's last start, stored in its checkpoint and checked before the query starts again.

State holds the same facts and is checked again by the tasks that read it. Here the check costs no task, and the message
reaches the user without Spark's stack trace.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from eventide._formats import FORMATS
from eventide.errors import DataError, PlanError
from eventide.operators.chain import Chain
from eventide.plan.plan import Mode, RowGrain
from eventide.spark.control import needs_ticks
from eventide.spark.shuffle_pages import Layout, OriginTraits, Progress, traits_of
from eventide.spark.storage import Storage, read_text
from eventide.state.errors import PLACEMENTS, plan_changed, plan_changes

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from eventide.spark.shuffle_pages import Stage

Placement: TypeAlias = Literal["driver", "executors"]

FILE = "eventide/plan.json"
_COMMITS = "commits"


@dataclass(frozen=True)
class OperatorRecord:
    """One pipeline of a query."""

    plan: Mapping[str, str]  # the facts that state depends on
    buckets: int
    late: Mapping[str, str]  # the columns of late rows since the first start, and their types in Spark
    dead: Mapping[str, str]
    key: tuple[str, ...] = ()
    mode: Mode = "accumulating"
    row_grain: RowGrain = "windows"
    progress: Progress = "direct"
    origins: OriginTraits = field(default_factory=OriginTraits)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> OperatorRecord:
        """Return the record that was written."""
        return cls(**{**content, "key": tuple(content["key"]), "origins": OriginTraits(**content["origins"])})


@dataclass(frozen=True)
class QueryRecord:
    """The pipelines of a query, and the placement of its state."""

    operators: tuple[OperatorRecord, ...]
    state: Placement
    ticks: Mapping[Placement, bool] = field(default_factory=dict)  # by placement: whether it has a source of ticks

    def layout(self, depth: int) -> Layout:
        """Return the layout of an operator's state."""
        operator = self.operators[depth] if depth < len(self.operators) else None
        return Layout() if operator is None else Layout(operator.buckets, operator.progress)

    def columns(self, output: str, depth: int) -> Mapping[str, str]:
        """Return the columns that late rows or dead letters of an operator have had."""
        columns: Mapping[str, str] = getattr(self.operators[depth], output) if depth < len(self.operators) else {}
        return columns

    def to_text(self) -> str:
        """Return the record as readable JSON."""
        operators = [asdict(operator) for operator in self.operators]
        content = {"format": FORMATS["query record"], "state": self.state, "ticks": self.ticks, "operators": operators}
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_text(cls, text: str) -> QueryRecord:
        """Return the record that was written."""
        content = json.loads(text)
        if content.get("format") != FORMATS["query record"]:
            raise DataError(
                f"The query record of the checkpoint has format {content.get('format')}, but this version of Eventide "
                f"reads format {FORMATS['query record']}. Use the version that wrote it, or a new checkpoint."
            )
        operators = tuple(map(OperatorRecord.from_json, content["operators"]))
        return cls(operators, content["state"], content["ticks"])


def read_record(storage: Storage, *, has_state: bool = False) -> QueryRecord | None:
    """Return the record of a checkpoint that has state; None before a batch was committed: it may still change."""
    text = read_text(storage, FILE)
    return QueryRecord.from_text(text) if text and (has_state or storage.list(_COMMITS)) else None


def write_record(storage: Storage, record: QueryRecord) -> None:
    """Write the record of a query that is about to start."""
    storage.replace(FILE, record.to_text().encode())


def placement_of(storage: Storage) -> Placement | None:
    """Return the placement of a checkpoint's state; None if its query was never started."""
    text = read_text(storage, FILE)
    return QueryRecord.from_text(text).state if text else None


def record_of(
    stages: Sequence[Stage], last: QueryRecord | None, state: Placement, *, followed: bool = False
) -> QueryRecord:
    """Return the record of a query that is about to start. It keeps all former columns of late rows and dead letters.

    ``followed``: the sink of the panes follows the output watermark.
    """
    operators = []
    for depth, stage in enumerate(stages):
        late, dead = (
            _with_new(last.columns(output, depth) if last else {}, stage.output_schema(output))
            for output in ("late", "dead")
        )
        plan, facts = stage.plan, dict(stage.operator().state_facts)
        operators.append(
            OperatorRecord(
                facts,
                stage.buckets,
                late,
                dead,
                plan.key,
                plan.mode,
                plan.row_grain,
                stage.progress,
                traits_of(plan),
            )
        )
    ticks: dict[Placement, bool] = {
        "driver": Chain([stage.operator() for stage in stages]).moves_with_clock(followed=followed),
        "executors": any(needs_ticks(stage.plan) for stage in stages),
    }
    return QueryRecord(tuple(operators), state, ticks)


def check_placement(last: QueryRecord, state: Placement, checkpoint: str, *, can_move: bool) -> None:
    """Reject a query whose state is in the other placement. ``can_move``: ``rescale`` accepts the checkpoint."""
    if last.state == state:
        return
    target = "--buckets N" if state == "executors" else "--to driver"
    move = f"or move the state: eventide rescale {checkpoint} {target}"
    raise PlanError(
        f"The state of the checkpoint {checkpoint!r} is {PLACEMENTS[last.state]}, and the query starts with "
        f"state={state!r}. Start it with state={last.state!r}, "
        + (move if can_move else f"or drain it and start with a new checkpoint. {cannot_move()}")
    )


def cannot_move() -> str:
    """Return why the state of a checkpoint has to stay where it is."""
    return (
        "Its state cannot be moved: eventide rescale needs a checkpoint that also has the commit records, and they "
        "are in another store."
    )


def check_record(
    last: QueryRecord, record: QueryRecord, checkpoint: str, deliver: Callable[[], int | None] = lambda: None
) -> None:
    """Reject a query whose state belongs to another pipeline, and list what has changed.

    ``deliver`` is called before that: it delivers pending outputs of the old pipeline, and returns their batch.
    """
    lines = []
    if len(last.operators) != len(record.operators):
        lines.append(f"the number of pipelines changed from {len(last.operators)} to {len(record.operators)}")
    for number, (old, new) in enumerate(zip(last.operators, record.operators, strict=False), 1):
        several = f"pipeline {number}: " if len(record.operators) > 1 else ""
        lines += [f"{several}{change}" for change in plan_changes(old.plan, new.plan)]
    if lines:
        raise plan_changed(lines, where=f"checkpoint {checkpoint!r}", delivered=deliver())


def _with_new(former: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the former columns and those of a schema. Where a type has changed, the new one counts."""
    columns = {field.name: field.dataType.simpleString() for field in schema.fields}
    present = {name.lower() for name in columns}
    return {name: dtype for name, dtype in former.items() if name.lower() not in present} | columns
