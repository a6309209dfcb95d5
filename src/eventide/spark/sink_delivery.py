"""The sinks of a query, and the metrics of its batches: the same for every placement of state."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eventide import sinks
from eventide.errors import LateRowsWarning
from eventide.metrics import LateWarning
from eventide.sinks import OutputInfo, Sink
from eventide.sinks.batch import SinkBatch, with_null_fields
from eventide.sinks.sink import CollectingSink, Output, WatermarkSink
from eventide.spark.batch_history import RunHistory
from eventide.spark.control import Control, note_drained
from eventide.spark.metrics import BatchMetrics
from eventide.spark.metrics_listener import publish
from eventide.spark.query_record import QueryRecord
from eventide.spark.shuffle_pages import Stage
from eventide.spark.storage import Storage, read_text
from eventide.time import MAX, MIN, instant

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


OnBatch = Callable[[BatchMetrics], Any]


class RunOutputs:
    """The sinks of a query, and the metrics of its last batches."""

    def __init__(
        self,
        stages: Sequence[Stage],
        record: QueryRecord,
        *,
        panes: Any,
        late: Any,
        dead: Any,
        checkpoint: str,
        control: Control,
        on_batch: OnBatch | None,
        missing_files: Mapping[int, int],
        spark: SparkSession,
        history: RunHistory | None = None,
    ) -> None:
        self._stages = stages
        self._record = record
        self._control = control
        self._on_batch = on_batch
        self._spark = spark
        self._stored = RunHistory() if history is None else history
        self._query = ""
        self._closed = False
        self._opened: dict[int, Sink] = {}  # by identity
        self._drained = False
        self._when_closed: list[Callable[[], None]] = []
        self._late_warning = LateWarning()
        self._missing_files = dict(missing_files)  # by batch: source files that were deleted before it was repeated
        self.skipped_batches = frozenset(missing_files)
        self.history: list[BatchMetrics] = []
        chosen = chosen_sinks(len(stages), checkpoint, panes=panes, late=late, dead=dead)
        self._sinks: list[tuple[OutputInfo, int, Sink]] = [
            (self._info(output, depth), depth, sink) for output, depth, sink in chosen
        ]

    @property
    def followed(self) -> bool:
        """Whether the sink of the panes follows the output watermark."""
        return isinstance(self._sinks[0][2], WatermarkSink)

    def facts(self) -> list[tuple[str, str]]:
        """Return the sinks that collect each batch from the executors, for ``explain()``."""
        if self._record.state == "driver":
            return []
        text = "the driver collects each batch from the executors, and writes it"
        collecting = [sink for _, _, sink in self._sinks if isinstance(sink, CollectingSink) and sink.collects]
        return [("sink", f"{sink!r}: {text}") for sink in collecting]

    def when_closed(self, function: Callable[[], None]) -> None:
        """Call a function when the query has ended."""
        self._when_closed.append(function)

    def open(self) -> None:
        """Open all sinks before the query starts. If one rejects its output, close those that are open."""
        with self.closed_on_failure():
            self._spark.createDataFrame([], "value string")  # makes this session the active one, which sinks use
            for info, depth, sink in self._sinks:
                schema = self._stages[depth].output_schema(info.output)
                columns = {} if info.output == "panes" else self._record.columns(info.output, depth)
                self._opened[id(sink)] = sink
                sink.open(with_null_fields(schema, columns), replace(info, query=self.query_id()))

    @contextmanager
    def closed_on_failure(self) -> Iterator[None]:
        """Close the sinks if the body fails: the query has ended, and possibly no caller waits for it."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    @contextmanager
    def batch_failures(self) -> Iterator[None]:
        """Write into the history why a batch fails. Spark aborts the batch of a query that is stopped: no failure."""
        try:
            yield
        except Exception as cause:
            if self._is_active():
                self._stored.fail(cause, self._spark)
            raise

    def guarded(self, write_batch: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
        """Return the callback of ``foreachBatch``: a batch that fails closes the sinks, and the history says why."""

        def write(batch: DataFrame, batch_id: int) -> None:
            with self.closed_on_failure(), self.batch_failures():
                write_batch(batch, batch_id)

        return write

    def _is_active(self) -> bool:
        try:
            query = self._spark.streams.get(self.query_id())
            return query is not None and query.isActive
        except Exception:  # the session or its Java process has ended
            return False

    def write(self, batch_id: int, rows: Callable[[str, int], SinkBatch | None]) -> None:
        """Write a batch into all sinks. ``rows`` returns an output of an operator, or None if it has no rows."""
        for info, depth, sink in self._sinks:
            batch = rows(info.output, depth)
            if batch is None:
                continue
            if info.output != "panes":  # with the columns that they have had since the first start
                batch = batch.with_nulls(self._record.columns(info.output, depth))
            sink.write(batch, batch_id, replace(info, query=self.query_id()))
            if info.output == "panes":
                self._stored.count(batch, batch_id)

    def advance(self, output_watermark: int) -> None:
        """Pass the output watermark of the last operator on to the sink of the panes, if it follows it."""
        info, depth, sink = self._sinks[0]
        if isinstance(sink, WatermarkSink):
            lateness = getattr(self._stages[depth].plan, "lateness", 0)
            sink.advance(after_corrections(output_watermark, lateness), replace(info, query=self.query_id()))

    def report(self, metrics: Sequence[BatchMetrics]) -> None:
        """Keep the metrics of a batch, write its history, warn of late rows, and call ``on_batch``."""
        metrics = self._with_missing_files(metrics)
        publish(self.query_id(), metrics)
        self._stored.write(metrics)
        self._control.report(metrics)
        if metrics and metrics[0].drained and not self._drained:
            self._drained = True
            note_drained(self._control.storage, metrics[0].batch)
        self.history.extend(metrics)
        del self.history[:-1000]
        for operator in metrics:
            warn_of_late_rows(self._late_warning, operator)
            if self._on_batch is not None:
                self._on_batch(operator)

    def query_id(self) -> str:
        """Return Spark's id of the query, which it keeps in the checkpoint."""
        self._query = self._query or query_id(self._control.storage)
        return self._query

    def close(self, *, successor: RunOutputs | None = None) -> None:
        """Close each sink once, even if it has several outputs. A sink that fails does not keep others open.

        Sinks that the query of ``successor`` writes into, too, stay open.
        """
        if not self._closed:
            self._closed = True
            self._control.show_stopped()
            for function in self._when_closed:
                function()
            shared = set() if successor is None else set(successor._opened)
            with ExitStack() as stack:
                for identity, sink in reversed(self._opened.items()):
                    if identity not in shared:
                        stack.callback(sink.close)

    def _info(self, output: Any, depth: int) -> OutputInfo:
        plan = self._stages[depth].plan
        return OutputInfo(output, plan.key, plan.mode, plan.row_grain, state=self._record.state)

    def _with_missing_files(self, metrics: Sequence[BatchMetrics]) -> Sequence[BatchMetrics]:
        """Count missing files with the first batch that runs: Spark skips one that has lost all of its files."""
        if not metrics:
            return metrics
        skipped = [batch for batch in self._missing_files if batch <= metrics[0].batch]
        if not skipped:
            return metrics
        count = sum(self._missing_files.pop(batch) for batch in skipped)
        return [replace(metrics[0], missing_files=count), *metrics[1:]]


def warn_of_late_rows(late_warning: LateWarning, operator: BatchMetrics) -> None:
    """Warn if many rows of a batch are late."""
    watermark = operator.watermark
    message = late_warning.message(
        rows=operator.rows,
        late=operator.late,
        watermark=MAX if operator.drained else None if watermark is None else instant(watermark),
        now=instant(operator.at),
        operator=operator.depth,
    )
    if message is not None:
        warnings.warn(f"Batch {operator.batch}: {message}", LateRowsWarning, stacklevel=2)


def query_id(storage: Storage) -> str:
    """Return Spark's id of the query of a checkpoint; empty before it has started."""
    text = read_text(storage, "metadata")
    return str(json.loads(text)["id"]) if text else ""


def chosen_sinks(depths: int, checkpoint: str, *, panes: Any, late: Any, dead: Any) -> list[tuple[Output, int, Sink]]:
    """Return the name of each output, the depth of its operator, and its sink. Panes are those of the last operator.

    Late rows and dead letters for which no sink is named are written to files in the checkpoint.
    """
    directory = f"{checkpoint.rstrip('/')}/eventide"
    chosen: list[tuple[Output, int, Sink]] = [("panes", depths - 1, sinks.as_sink(panes))]
    others: dict[Output, Any] = {"late": late, "dead": dead}
    for depth in range(depths):
        for output, named in others.items():
            files = sinks.files(f"{directory}/{output}" if depth == 0 else f"{directory}/{output}.{depth}")
            sink = sinks.as_sink(named) if named is not None and depth == 0 else files
            chosen.append((output, depth, sink))
    return chosen


def after_corrections(watermark: int, lateness: int) -> int:
    """Return an output watermark that holds for late panes, too: a window is emitted again within its lateness.

    >>> after_corrections(100, 30), after_corrections(MAX, 30) == MAX
    (70, True)
    """
    return watermark if watermark in (MIN, MAX) else max(watermark - lateness, MIN)
