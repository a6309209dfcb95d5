"""State in the driver: the operators of a query in this process, and a commit record for each batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from eventide.operators.chain import Chain, ChainStep
from eventide.operators.event_times import event_histogram, late_times
from eventide.operators.operator import Output, Stamp
from eventide.spark.commit_log import BatchOffsets, CommitLog, RecordPages
from eventide.spark.metrics import CommandEffect, bucket_counts, progress_detail
from eventide.spark.pending_outputs import recorded_tables
from eventide.spark.shuffle_pages import table_to_bytes
from eventide.spark.types import arrow_schema, to_spark
from eventide.state.commit_record import Record, RecordBuilder, Span
from eventide.state.operator_state import State
from eventide.state.pages import Manifest
from eventide.watermarks import Note

_EMBEDDED = 1 << 20  # bytes of outputs up to which they are stored in the record itself
_REMEMBERED = 1000  # deleted commands at least, in case a store repeats the request that has created one
_OUTPUTS = ("panes", "late", "dead")


@dataclass(frozen=True)
class Delivery:
    """What a batch emits, as its commit record holds it: tables by output and depth, and a report of each operator."""

    batch: int
    tables: Mapping[tuple[str, int], pa.Table]
    operators: Sequence[Mapping[str, Any]]  # the report of each operator: counts, detail and time
    output_watermark: int  # of the last operator
    deadline: int | None = None  # the batch time at which something may happen without rows
    restored: bool = False  # delivered again, from a record that an earlier attempt wrote


@dataclass
class Commands:
    """Commands that a batch applies before its rows: the states after them, and the notes that they make of time."""

    states: tuple[State, ...]
    names: list[str] = field(default_factory=list)  # of their files
    present: Collection[str] = ()  # names of all files that exist, those of applied commands too
    notes: list[Note] = field(default_factory=list)
    effects: list[CommandEffect] = field(default_factory=list)


@dataclass
class _Committed:
    """The state after the last committed batch."""

    batch: int
    states: tuple[State, ...]
    manifests: list[Manifest | None]
    pages: list[RecordPages]
    commands: list[str] = field(default_factory=list)  # that were applied, oldest first


class DriverState:
    """The state of a query, opened in its first batch and kept in memory.

    ``begin`` returns what an earlier attempt of the batch has committed. Otherwise ``process`` computes the batch and
    commits its record. After an error the state in memory is dropped, and restored from the log.
    """

    def __init__(self, chain: Chain, log: CommitLog, *, memory: int, skipped: Collection[int] = ()) -> None:
        self._chain = chain
        self._log = log
        self._memory = memory
        self._skipped = skipped
        self._committed: _Committed | None = None

    def begin(self, batch: int) -> Delivery | None:
        """Prepare a batch. Return what it delivers if it is committed already."""
        if self._committed is not None and self._committed.batch >= batch:  # another start repeats the batch
            self.drop()
        if self._committed is None:
            self._log.take_epoch()
            record, is_repeated = self._log.find(batch, self._skipped)
            self._committed = self._restore(record)
            if record is not None and is_repeated:
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
        """The commands that were applied, in order: all whose files may exist, and the last ones."""
        return self._current.commands

    @property
    def pinned_bytes(self) -> int:
        """The size of the state that has to stay in memory: panes, waiting rows and the state of processors."""
        return sum(map(_pinned, self._sizes()))

    def process(self, offsets: BatchOffsets, stamps: Sequence[Stamp], commands: Commands | None = None) -> Delivery:
        """Compute a batch and commit its record."""
        before = self._current
        commands = commands or Commands(before.states)
        builder = RecordBuilder()
        with ExitStack() as opened:
            for manifest, pages in zip(before.manifests, before.pages, strict=True):
                if manifest is not None:
                    opened.enter_context(manifest.open(pages))
            step = self._chain.step(commands.states, stamps, offsets.time, notes=commands.notes)
            tables = _delivered(step.outputs)
            outputs = self._write_outputs(offsets.batch, builder, tables)
            manifests, stages, sizes = self._write_state(offsets.batch, builder, step.states)
        times = event_histogram(self._chain.operators[0].plan, stamps)
        operators = self._reports(step, sizes, commands, times, late_times(stamps))
        applied = _remembered([*before.commands, *commands.names], commands.present)
        output_watermark = min(step.outputs[-1].promises.values(), default=step.outputs[-1].promise)
        deadline = self._chain.next_deadline(step.states)
        footer = {
            "offsets": offsets.digest,
            "at": offsets.time,
            "stages": stages,
            "outputs": outputs,
            "operators": operators,
            "output_watermark": output_watermark,
            "deadline": deadline,
            "commands": applied,
        }
        self._log.commit(offsets.batch, builder, footer)
        for pages in before.pages:
            pages.finish()
        self._committed = _Committed(offsets.batch, step.states, manifests, before.pages, applied)
        self._evict()
        return Delivery(offsets.batch, tables, operators, output_watermark, deadline)

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
        self._log.delete_outputs(batch - 1)
        needed = set().union(*(pages.needed() for pages in self._current.pages))
        self._log.expire(batch, needed)

    def drop(self) -> None:
        """Forget the state in memory, after an error."""
        self._committed = None

    @property
    def _current(self) -> _Committed:
        assert self._committed is not None, "begin() opens the state"
        return self._committed

    def _sizes(self) -> list[Mapping[str, int]]:
        """Return the size of the state of each operator."""
        current = self._current
        operators = zip(self._chain.operators, current.states, current.manifests, strict=True)
        return [operator.sizes(state, manifest) for operator, state, manifest in operators]

    def _reports(
        self,
        step: ChainStep,
        sizes: Sequence[Mapping[str, int]],
        commands: Commands,
        event_times: Mapping[str, Any] | None,
        late: Sequence[tuple[int, int]],
    ) -> list[dict[str, Any]]:
        return [
            {
                "counts": {**sizes[depth], **bucket_counts(step.outputs[depth], state, {})},
                "detail": progress_detail(
                    state,
                    operation=self._chain.operators[depth].plan.operation,
                    before=self._current.states[depth].watermark,
                    commands=commands.effects if depth == 0 else (),
                    event_times=event_times if depth == 0 else None,
                    late_times=late if depth == 0 else (),
                ),
                "now": state.now,
            }
            for depth, state in enumerate(step.states)
        ]

    def _write_outputs(
        self, batch: int, builder: RecordBuilder, tables: Mapping[tuple[str, int], pa.Table]
    ) -> list[dict[str, Any]]:
        bodies = {place: table_to_bytes(table) for place, table in tables.items()}
        embedded = sum(map(len, bodies.values())) <= _EMBEDDED
        outputs: list[dict[str, Any]] = []
        for (name, depth), body in bodies.items():
            entry = {"output": name, "depth": depth, "rows": tables[name, depth].num_rows}
            if embedded:
                entry["span"] = builder.add(body).to_list()
            else:
                span = Span(0, len(body), RecordBuilder().add(body).checksum)
                entry |= {"file": self._log.write_output(batch, f"{name}.{depth}", [body]), "span": span.to_list()}
            outputs.append(entry)
        return outputs

    def _write_state(
        self, batch: int, builder: RecordBuilder, states: Sequence[State]
    ) -> tuple[list[Manifest | None], list[dict[str, Any]], list[dict[str, int]]]:
        """Return the new manifests, where each operator's state is in the record, and its sizes."""
        manifests: list[Manifest | None] = []
        stages, counts = [], []
        for operator, state, pages, manifest in zip(
            self._chain.operators, states, self._current.pages, self._current.manifests, strict=True
        ):
            pages.start(batch, builder)
            header, written = operator.write(state, pages, manifest)
            pages.compact()
            stages.append({"head": builder.add(header).to_list(), "manifest": builder.add(pages.manifest()).to_list()})
            sizes = operator.sizes(state, written)
            counts.append(
                {"pages": sizes["pages"], "state_bytes": sizes["bytes"] + len(header), "written": sizes["written"]}
            )
            manifests.append(written)
        return manifests, stages, counts

    def _restore(self, record: Record | None) -> _Committed:
        if record is None:
            count = len(self._chain.operators)
            return _Committed(-1, self._chain.initial(), [None] * count, [RecordPages(self._log) for _ in range(count)])
        batch: int = record.footer["batch"]
        states, manifests, logs = [], [], []
        for operator, stage in zip(self._chain.operators, record.footer["stages"], strict=True):
            pages = RecordPages(self._log, record.part(Span(*stage["manifest"])), batch)
            state, manifest = operator.read(record.part(Span(*stage["head"])), pages)
            states.append(state)
            manifests.append(manifest)
            logs.append(pages)
        return _Committed(batch, tuple(states), list(manifests), logs, list(record.footer["commands"]))

    def _delivery(self, record: Record) -> Delivery:
        tables, footer = recorded_tables(self._log, record), record.footer
        return Delivery(
            footer["batch"], tables, footer["operators"], footer["output_watermark"], footer["deadline"], restored=True
        )

    def _evict(self) -> None:
        """Keep at most about ``memory`` bytes of state in memory; the rest is read from its records on demand.

        Operators of a chain share what pinned state leaves of it, in proportion to the state that can be evicted.
        """
        current, sizes = self._current, self._sizes()
        evictable = [size["evictable"] for size in sizes]
        left = max(self._memory - sum(map(_pinned, sizes)), 0)
        if (total := sum(evictable)) <= left:
            return
        states = list(current.states)
        for depth, operator in enumerate(self._chain.operators):
            manifest = current.manifests[depth]
            if manifest is not None:
                with manifest.open(current.pages[depth]):
                    states[depth] = operator.evict(states[depth], manifest, keep=left * evictable[depth] // total)
        current.states = tuple(states)


def _remembered(applied: Sequence[str], present: Collection[str]) -> list[str]:
    """Return the commands that must not be applied again: those whose files exist, and the last ones."""
    older, last = applied[:-_REMEMBERED], applied[-_REMEMBERED:]
    existing = set(present) if older else set()
    return [*(name for name in older if name in existing), *last]


def _pinned(sizes: Mapping[str, int]) -> int:
    return sizes["raw"] - sizes["evictable"]


def in_flight(operators: Sequence[Mapping[str, Any]]) -> int:
    """Return how many rows are in flight after a batch, from the reports of its operators."""
    return sum(operator["counts"].get("in_flight", 0) for operator in operators)


def _delivered(outputs: Sequence[Output]) -> dict[tuple[str, int], pa.Table]:
    """Return what sinks receive. The panes of an operator that another one follows are its rows, not an output."""
    last = len(outputs) - 1
    return {
        (name, depth): to_spark(rows, arrow_schema(rows.schema))
        for depth, output in enumerate(outputs)
        for name in _OUTPUTS
        if (rows := getattr(output, name)).height and (depth == last or name != "panes")
    }
