"""State in the driver: the operators of a query in this process, and a commit record for each batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from eventide.operators.bundle import Output, Stamp
from eventide.operators.chain import Chain
from eventide.operators.saving import State
from eventide.spark.bodies import table_to_bytes
from eventide.spark.command_effects import CommandEffect
from eventide.spark.commit_log import BatchOffsets, CommitLog
from eventide.spark.measures import measured, progress_detail
from eventide.spark.pending_outputs import recorded_tables
from eventide.spark.record_pages import RecordPages
from eventide.spark.types import arrow_schema, to_spark
from eventide.state.paging import Ledger
from eventide.state.record import Record, RecordBuilder, Span
from eventide.watermarks import Note

_EMBEDDED = 1 << 20  # bytes of outputs up to which they are stored in the record itself
OUTPUTS = ("panes", "late", "dead")


@dataclass(frozen=True)
class Delivery:
    """What a batch emits: tables by output and depth, and what it reports of itself. It comes from a record."""

    batch: int
    tables: Mapping[tuple[str, int], pa.Table]
    operators: Sequence[Mapping[str, Any]]  # what each operator reports: counts, detail and time
    output_watermark: int  # of the last operator
    deadline: int | None = None  # the batch time at which something may happen without rows
    restored: bool = False  # delivered again, from a record that an earlier attempt wrote


@dataclass
class Commands:
    """Commands that a batch applies before its rows: the states that they leave, and what they say of time."""

    states: tuple[State, ...]
    names: list[str] = field(default_factory=list)  # of their files
    notes: list[Note] = field(default_factory=list)
    effects: list[CommandEffect] = field(default_factory=list)


@dataclass
class _Open:
    """The state after the last committed batch."""

    batch: int
    states: tuple[State, ...]
    ledgers: list[Ledger | None]
    pages: list[RecordPages]
    applied: list[str] = field(default_factory=list)  # commands


class DriverState:
    """The state of a query, opened in its first batch and kept in memory.

    Every batch is one call of ``process``: it computes and commits a record, or returns what the record holds that an
    earlier attempt has committed. After an error the state in memory is dropped; the log has the truth.
    """

    def __init__(self, chain: Chain, log: CommitLog, *, memory: int, skipped: Collection[int] = ()) -> None:
        self._chain = chain
        self._log = log
        self._memory = memory
        self._skipped = skipped
        self._open: _Open | None = None

    def begin(self, batch: int) -> Delivery | None:
        """Prepare a batch. Return what it delivers if it is committed already."""
        if self._open is None:
            self._log.take_epoch()
            record, own = self._log.find(batch, self._skipped)
            self._open = self._restore(record)
            if record is not None and own:
                self._log.check_offsets(record, self._log.offsets(batch))
                return self._delivery(record)
        return None

    @property
    def watermark(self) -> int:
        """The watermark of the first operator, as of the last batch."""
        return self._current.states[0].watermark

    @property
    def states(self) -> tuple[State, ...]:
        """The states after the last batch."""
        return self._current.states

    @property
    def applied_commands(self) -> Sequence[str]:
        """The commands that were applied, in the order of their application; the last ones only."""
        return self._current.applied

    @property
    def state_bytes(self) -> int:
        """The size of the state in memory, if none of it were evicted."""
        operators = zip(self._chain.operators, self._current.states, self._current.ledgers, strict=True)
        return sum(operator.sizes(state, ledger)["raw"] for operator, state, ledger in operators)

    def process(self, offsets: BatchOffsets, stamps: Sequence[Stamp], commands: Commands | None = None) -> Delivery:
        """Compute a batch and commit its record."""
        before = self._current
        commands = commands or Commands(before.states)
        with ExitStack() as opened:
            for ledger, pages in zip(before.ledgers, before.pages, strict=True):
                if ledger is not None:
                    opened.enter_context(ledger.open(pages))
            step = self._chain.step(commands.states, stamps, offsets.time, notes=commands.notes)
            builder = RecordBuilder()
            tables = _delivered(step.outputs)
            outputs = self._write_outputs(offsets.batch, builder, tables)
            ledgers, stages, counts = self._write_state(offsets.batch, builder, step.states)
        for depth, output in enumerate(step.outputs):
            counts[depth] |= measured(output, step.states[depth], {})
        reports = [
            {
                "counts": counts[depth],
                "detail": progress_detail(
                    state,
                    operation=self._chain.operators[depth].plan.operation,
                    before=before.states[depth].watermark,
                    commands=commands.effects if depth == 0 else (),
                ),
                "now": state.now,
            }
            for depth, state in enumerate(step.states)
        ]
        applied = [*before.applied, *commands.names][-1000:]
        output_watermark = min(step.outputs[-1].promises.values(), default=step.outputs[-1].promise)
        footer = {
            "offsets": offsets.digest,
            "at": offsets.time,
            "stages": stages,
            "outputs": outputs,
            "operators": reports,
            "output_watermark": output_watermark,
            "deadline": (deadline := self._chain.next_deadline(step.states)),
            "commands": applied,
        }
        self._log.commit(offsets.batch, builder, footer)
        for pages in before.pages:
            pages.finish()
        self._open = _Open(offsets.batch, step.states, ledgers, before.pages, applied)
        self._evict()
        return Delivery(offsets.batch, tables, reports, output_watermark, deadline)

    def recorded_deadline(self) -> int | None:
        """Return the deadline after the newest record, or that of a query which has not run yet."""
        record = self._log.newest()
        if record is None:
            return self._chain.next_deadline(self._chain.initial())
        deadline: int | None = record.footer["deadline"]
        return deadline

    def recorded_in_flight(self) -> int:
        """Return how many rows were in flight after the newest record: their calls must be made again."""
        record = self._log.newest()
        return 0 if record is None else in_flight(record.footer["operators"])

    def finish(self, batch: int) -> None:
        """Clean up after Spark has moved on: outputs of earlier batches, and records that nothing refers to."""
        self._log.drop_beside(batch - 1)
        needed = set().union(*(pages.needed() for pages in self._current.pages))
        self._log.expire(batch, needed)

    def drop(self) -> None:
        """Forget the state in memory, after an error."""
        self._open = None

    @property
    def _current(self) -> _Open:
        assert self._open is not None, "begin() opens the state"
        return self._open

    def _write_outputs(
        self, batch: int, builder: RecordBuilder, tables: Mapping[tuple[str, int], pa.Table]
    ) -> list[dict[str, Any]]:
        bodies = {place: table_to_bytes(table) for place, table in tables.items()}
        embedded = sum(map(len, bodies.values())) <= _EMBEDDED
        outputs: list[dict[str, Any]] = []
        for (name, depth), body in bodies.items():
            about = {"output": name, "depth": depth, "rows": tables[name, depth].num_rows}
            if embedded:
                about["span"] = builder.add(body).to_list()
            else:
                span = Span(0, len(body), RecordBuilder().add(body).checksum)
                about |= {"file": self._log.write_beside(batch, f"{name}.{depth}", [body]), "span": span.to_list()}
            outputs.append(about)
        return outputs

    def _write_state(
        self, batch: int, builder: RecordBuilder, states: Sequence[State]
    ) -> tuple[list[Ledger | None], list[dict[str, Any]], list[dict[str, int]]]:
        ledgers: list[Ledger | None] = []
        stages, counts = [], []
        for operator, state, pages, ledger in zip(
            self._chain.operators, states, self._current.pages, self._current.ledgers, strict=True
        ):
            pages.start(batch, builder)
            head, written = operator.write(state, pages, ledger)
            pages.compact()
            stages.append({"head": builder.add(head).to_list(), "manifest": builder.add(pages.manifest()).to_list()})
            sizes = operator.sizes(state, written)
            counts.append(
                {"pages": sizes["pages"], "state_bytes": sizes["bytes"] + len(head), "written": sizes["written"]}
            )
            ledgers.append(written)
        return ledgers, stages, counts

    def _restore(self, record: Record | None) -> _Open:
        if record is None:
            count = len(self._chain.operators)
            return _Open(-1, self._chain.initial(), [None] * count, [RecordPages(self._log) for _ in range(count)])
        batch: int = record.footer["batch"]
        states, ledgers, logs = [], [], []
        for operator, stage in zip(self._chain.operators, record.footer["stages"], strict=True):
            pages = RecordPages(self._log, record.part(Span(*stage["manifest"])), batch)
            state, ledger = operator.read(record.part(Span(*stage["head"])), pages)
            states.append(state)
            ledgers.append(ledger)
            logs.append(pages)
        return _Open(batch, tuple(states), list(ledgers), logs, list(record.footer["commands"]))

    def _delivery(self, record: Record) -> Delivery:
        tables, footer = recorded_tables(self._log, record), record.footer
        return Delivery(
            footer["batch"], tables, footer["operators"], footer["output_watermark"], footer["deadline"], restored=True
        )

    def _evict(self) -> None:
        """Keep at most about ``memory`` bytes of state in memory; the rest is read from its records on demand."""
        current = self._current
        for depth, operator in enumerate(self._chain.operators):
            ledger = current.ledgers[depth]
            if ledger is None:
                continue
            if operator.sizes(current.states[depth], ledger)["raw"] > self._memory:
                with ledger.open(current.pages[depth]):
                    slim = operator.let_go(current.states[depth], ledger, keep=self._memory)
                states = list(current.states)
                states[depth] = slim
                current.states = tuple(states)


def in_flight(operators: Sequence[Mapping[str, Any]]) -> int:
    """Return how many rows are in flight by what operators report of a batch."""
    return sum(operator["counts"].get("in_flight", 0) for operator in operators)


def _delivered(outputs: Sequence[Output]) -> dict[tuple[str, int], pa.Table]:
    """Return what sinks receive. The panes of an operator that another one follows are its rows, not an output."""
    last = len(outputs) - 1
    return {
        (name, depth): _table(getattr(output, name))
        for depth, output in enumerate(outputs)
        for name in OUTPUTS
        if getattr(output, name).height and (depth == last or name != "panes")
    }


def _table(rows: Any) -> pa.Table:
    return to_spark(rows, arrow_schema(rows.schema))
