"""A running query: what Spark knows of it, what Eventide knows of it, and how to speak to it."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from eventide.errors import spark as errors
from eventide.spark.control import Control
from eventide.spark.exit_warning import warn_at_exit
from eventide.spark.metrics import BatchMetrics

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# Our own message, up to where the worker's or the JVM's stack begins.
_OURS = re.compile(
    r"eventide\.errors\.kinds\.(PlanError|DataError): (.*?)"
    r"(?=\n\s*\n|\n\tat |\n  File |\s+SQLSTATE: |\n=== |\Z)",
    re.DOTALL,
)

# A worker without Eventide cannot raise an error of ours: see task_function.
_NO_EVENTIDE = re.compile(r"ImportError: (The workers cannot import Eventide .* Install pyspark-eventide on them\.)")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '((?:pyspark_)?eventide[\w.]*)'")

_LOOK = 0.01  # seconds between two looks whether a batch runs
_MOMENT = 2.0  # seconds in which a pause between batches may come

_SOURCES = re.compile(r"There are \[(\d+)\] sources in the checkpoint offsets and now there are\s+\[(\d+)\]")


class Query:
    """What ``ev.run`` gives."""

    def __init__(
        self,
        query: StreamingQuery,
        control: Control,
        history: Sequence[BatchMetrics],
        close: Callable[[], None],
        explained: str = "",
    ) -> None:
        self.spark = query
        self.control = control
        self.history = history  # of the last batches, oldest first
        self._close = close
        self._explained = explained
        warn_at_exit(self)

    @property
    def label(self) -> str:
        """The query in a sentence, by its name if it has one."""
        return f"the query {self.spark.name!r}" if self.spark.name else "a query"

    @property
    def batches(self) -> int:
        """How many batches this run has finished, as far as they are remembered."""
        return len({metrics.batch for metrics in self.history})

    @property
    def metrics(self) -> BatchMetrics | None:
        """What the last batch did (of a chain: its last operator)."""
        return self.history[-1] if self.history else None

    @property
    def is_active(self) -> bool:
        """Whether it runs."""
        return self.spark.isActive

    def explain(self) -> str:
        """What the query does, in words: its pipelines, where its state is, and how rows reach it."""
        return self._explained

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for its end; raises what stopped it. False: it still runs after ``timeout`` seconds."""
        try:
            ended = self.ended(timeout)
        except Exception:
            self._close()
            raise
        if ended:
            self._close()
        return ended

    def ended(self, timeout: float | None = None) -> bool:
        """The same, but sinks stay open: more is to come for them."""
        from pyspark.errors import StreamingQueryException

        try:
            self.spark.awaitTermination(timeout)  # type: ignore[arg-type]  # it takes fractions, too
        except StreamingQueryException as failure:
            raise understood(failure) from failure
        return not self.spark.isActive

    def process_all_available(self) -> None:
        """Wait until all that is there now has been processed; raises what stopped the query."""
        from pyspark.errors import StreamingQueryException

        try:
            self.spark.processAllAvailable()
        except StreamingQueryException as failure:
            raise understood(failure) from failure

    def stop(self, wait: float | None = 10) -> None:
        """Stop it, after the batch that is running, if that ends within ``wait`` seconds; None: whenever it ends.

        A batch that is broken off is run again when the query starts from its checkpoint: nothing is lost by it, but
        its tasks end with errors in Spark's log.
        """
        self._rest(math.inf if wait is None else wait)
        self.spark.stop()
        self._close()

    def _rest(self, wait: float) -> None:
        """Wait until no batch runs. Where there is much to read, there may be no pause: once the batch that ran has
        ended, one is waited for only a moment longer.
        """
        until = time.monotonic() + wait
        before = self._last_batch()
        while self.spark.isActive and self.spark.status["isTriggerActive"] and time.monotonic() < until:
            if before != (last := self._last_batch()):
                before, until = last, min(until, time.monotonic() + _MOMENT)
            time.sleep(_LOOK)

    def _last_batch(self) -> int | None:
        told = self.spark.lastProgress
        return None if told is None else told.batchId

    def __repr__(self) -> str:
        state = "running" if self.is_active else "stopped"
        return f"<Query {self.spark.name or self.spark.id} ({state})>"


def understood(failure: Exception) -> Exception:
    """Return what stopped a query as an error of Eventide, where Eventide or its absence was the reason."""
    found = _OURS.search(str(failure))
    if (import_error := _NO_EVENTIDE.search(str(failure))) is not None:
        return errors.stopped("PlanError", import_error[1])
    if (missing := _NO_MODULE.search(str(failure))) is not None:
        return errors.workers_lack_eventide(missing[1])
    sources = _SOURCES.search(str(failure))
    if sources is not None:
        return errors.other_sources(int(sources[1]), int(sources[2]))
    return failure if found is None else errors.stopped(found.group(1), found.group(2).strip())
