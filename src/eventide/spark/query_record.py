"""What a checkpoint was started with, written next to it: checked on the driver, before a query starts again.

State carries the same facts and is checked again by the tasks that read it. Here the check costs no task, and the
message reaches the user without a stack of Spark's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from eventide.errors import state as errors
from eventide.operators.chain import Chain
from eventide.spark.storage import Storage, read_text
from eventide.spark.ticks import needs_ticks

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from eventide.spark.stage import Stage

Placement: TypeAlias = Literal["driver", "executors"]

FILE = "eventide/plan.json"
_COMMITS = "commits"


@dataclass(frozen=True)
class OperatorRecord:
    """One pipeline of a query."""

    plan: Mapping[str, str]  # what state depends on, in words
    buckets: int
    late: Mapping[str, str]  # the columns that late rows have had since the first start, and their types in Spark
    dead: Mapping[str, str]
    key: tuple[str, ...] = ()
    mode: str = "accumulating"
    tells: str = "windows"

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> OperatorRecord:
        """The record that was written."""
        return cls(**{**content, "key": tuple(content["key"])})


@dataclass(frozen=True)
class QueryRecord:
    """What a query was started with."""

    operators: tuple[OperatorRecord, ...]
    state: Placement
    ticks: Mapping[Placement, bool] = field(default_factory=dict)  # by placement: whether it has a source of ticks

    def buckets(self, depth: int) -> int | None:
        """The number of buckets of an operator; None if there was none at that depth."""
        return self.operators[depth].buckets if depth < len(self.operators) else None

    def columns(self, output: str, depth: int) -> Mapping[str, str]:
        """The columns that late rows or dead letters of an operator have had."""
        columns: Mapping[str, str] = getattr(self.operators[depth], output) if depth < len(self.operators) else {}
        return columns

    def to_text(self) -> str:
        """The record as a file that people can read."""
        operators = [asdict(operator) for operator in self.operators]
        content = {"version": 1, "state": self.state, "ticks": self.ticks, "operators": operators}
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_text(cls, text: str) -> QueryRecord:
        """The record that was written."""
        content = json.loads(text)
        operators = tuple(map(OperatorRecord.from_json, content["operators"]))
        return cls(operators, content["state"], content["ticks"])


def read_record(storage: Storage, *, has_state: bool = False) -> QueryRecord | None:
    """The record of a checkpoint that has state; None before a batch was committed: anything may still change."""
    text = read_text(storage, FILE)
    return QueryRecord.from_text(text) if text and (has_state or storage.list(_COMMITS)) else None


def write_record(storage: Storage, record: QueryRecord) -> None:
    """Write the record of a query that is about to start."""
    storage.replace(FILE, record.to_text().encode())


def placement_of(storage: Storage) -> Placement | None:
    """Where the query of a checkpoint has its state; None if it was never started."""
    text = read_text(storage, FILE)
    return QueryRecord.from_text(text).state if text else None


def record_of(
    stages: Sequence[Stage], before: QueryRecord | None, state: Placement, *, followed: bool = False
) -> QueryRecord:
    """The record of a query that is about to start. Columns of late rows and dead letters are never forgotten.

    ``followed``: the sink of the panes goes by the output watermark.
    """
    operators = []
    for depth, stage in enumerate(stages):
        late, dead = (
            _with_new(before.columns(output, depth) if before else {}, stage.output_schema(output))
            for output in ("late", "dead")
        )
        plan, facts = stage.plan, dict(stage.operator().state_facts)
        operators.append(OperatorRecord(facts, stage.buckets, late, dead, plan.key, plan.mode, plan.tells))
    ticks: dict[Placement, bool] = {
        "driver": Chain([stage.operator() for stage in stages]).moves_with_clock(followed=followed),
        "executors": any(needs_ticks(stage.plan) for stage in stages),
    }
    return QueryRecord(tuple(operators), state, ticks)


def check_placement(before: QueryRecord, state: Placement, checkpoint: str) -> None:
    """Reject a query whose state is elsewhere."""
    if before.state != state:
        raise errors.placement_changed(checkpoint, before.state, state)


def check_record(
    before: QueryRecord, now: QueryRecord, checkpoint: str, deliver: Callable[[], int | None] = lambda: None
) -> None:
    """Reject a query whose state belongs to another pipeline, with what has changed.

    ``deliver`` is called before that: it delivers outputs of the old pipeline, and returns their batch.
    """
    lines = []
    if len(before.operators) != len(now.operators):
        lines.append(f"the number of pipelines changed from {len(before.operators)} to {len(now.operators)}")
    for number, (old, new) in enumerate(zip(before.operators, now.operators, strict=False), 1):
        several = f"pipeline {number}: " if len(now.operators) > 1 else ""
        lines += [f"{several}{change}" for change in errors.changes(old.plan, new.plan)]
    if lines:
        raise errors.plan_changed(lines, where=f"checkpoint {checkpoint!r}", delivered=deliver())


def _with_new(former: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """The columns of before and of now. Where a type has changed, the new one counts."""
    columns = {field.name: field.dataType.simpleString() for field in schema.fields}
    present = {name.lower() for name in columns}
    return {name: dtype for name, dtype in former.items() if name.lower() not in present} | columns
