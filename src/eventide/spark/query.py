"""A running query: its metrics, its control commands, and how to wait for it, stop it and understand its failure."""

from __future__ import annotations

import atexit
import math
import re
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from eventide._display import facts_html
from eventide._hints import with_attribute_hints
from eventide.errors import DataError, PlanError
from eventide.spark.control import Control
from eventide.spark.metrics import BatchMetrics

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# A message of Eventide, up to where the stack of the worker or of the JVM begins.
_MESSAGE = re.compile(
    r"eventide\.errors\.(PlanError|DataError): (.*?)"
    r"(?=\n\s*\n|\n\tat |\n  File |\s+SQLSTATE: |\n=== |\Z)",
    re.DOTALL,
)
# A worker without Eventide cannot raise its errors: see task_function.
_NO_EVENTIDE = re.compile(r"ImportError: (The workers cannot import Eventide .* Install pyspark-eventide on them\.)")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '((?:pyspark_)?eventide[\w.]*)'")
_SOURCES = re.compile(r"There are \[(\d+)\] sources in the checkpoint offsets and now there are\s+\[(\d+)\]")

_POLL = 0.01  # seconds between two checks whether a batch runs
_PAUSE = 2.0  # seconds to wait for a pause between batches, once the batch that ran has ended

_queries: weakref.WeakSet[Query] = weakref.WeakSet()


@with_attribute_hints
class Query:
    """A running query, as ``pipeline.run`` returns it.

    >>> query = revenue.run(orders, sink="out", checkpoint="checkpoints/revenue")  # doctest: +SKIP
    >>> query.await_termination(timeout=0.1)  # doctest: +SKIP
    False
    """

    def __init__(
        self,
        query: StreamingQuery,
        control: Control,
        history: Sequence[BatchMetrics],
        close: Callable[[], None],
        explanation: str = "",
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        self.spark = query
        self.control = control
        self.history = history  # of the last batches, oldest first
        self._close = close
        self._explanation = explanation
        self._on_failure = on_failure
        _warn_at_exit(self)

    @property
    def label(self) -> str:
        """The query in a message, by its name if it has one.

        >>> query.label  # doctest: +SKIP
        "the query 'revenue'"
        """
        return f"the query {self.spark.name!r}" if self.spark.name else "a query"

    @property
    def batches(self) -> int:
        """The number of batches of this run in ``history``.

        >>> query.batches  # doctest: +SKIP
        1
        """
        return len({metrics.batch for metrics in self.history})

    @property
    def metrics(self) -> BatchMetrics | None:
        """The metrics of the last batch (of a chain: of its last operator).

        >>> query.metrics.batch, query.metrics.watermark  # doctest: +SKIP
        (0, datetime.datetime(2026, 3, 1, 12, 1, 10, tzinfo=datetime.timezone.utc))
        """
        return self.history[-1] if self.history else None

    @property
    def is_active(self) -> bool:
        """Whether the query runs.

        >>> query.is_active  # doctest: +SKIP
        True
        """
        return self.spark.isActive

    def explain(self) -> str:
        """Return what the query does, in words: its pipelines, where its state is, and how rows reach it.

        >>> print(query.explain())  # doctest: +SKIP
           time  column 'ts'
            key  'shop'
        ...
        """
        return self._explanation

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end of the query, and raise what stopped it. False: it still runs after ``timeout`` seconds.

        >>> query.await_termination(timeout=0.1)  # doctest: +SKIP
        False
        """
        try:
            ended = self.ended(timeout)
        except Exception:
            self._close()
            raise
        if ended:
            self._close()
        return ended

    def ended(self, timeout: float | None = None) -> bool:
        """Wait as ``await_termination`` does, but leave the sinks open for another start.

        >>> query.ended(timeout=0.1)  # doctest: +SKIP
        False
        """
        from pyspark.errors import StreamingQueryException

        try:
            self.spark.awaitTermination(timeout)  # type: ignore[arg-type]  # it takes fractions, too
        except StreamingQueryException as failure:
            raise self._noted(failure) from failure
        return not self.spark.isActive

    def process_all_available(self) -> None:
        """Wait until all data that is available now is processed, and raise what stopped the query.

        >>> query.process_all_available()  # doctest: +SKIP
        >>> query.metrics.kept  # doctest: +SKIP
        3
        """
        from pyspark.errors import StreamingQueryException

        try:
            self.spark.processAllAvailable()
        except StreamingQueryException as failure:
            raise self._noted(failure) from failure

    def _noted(self, failure: Exception) -> Exception:
        if self._on_failure is not None:
            self._on_failure(failure)
        return understood(failure)

    def stop(self, wait: float | None = 10) -> None:
        """Stop the query after the current batch, if that ends within ``wait`` seconds; None: however long it takes.

        An aborted batch is run again when the query starts from its checkpoint. Nothing is lost, but its tasks end
        with errors in Spark's log.

        >>> query.stop()  # doctest: +SKIP
        >>> query.is_active  # doctest: +SKIP
        False
        """
        self._await_pause(math.inf if wait is None else wait)
        self.spark.stop()
        self._close()

    def _await_pause(self, wait: float) -> None:
        """Wait until no batch runs. With a backlog there may be no pause, so the wait ends soon after the batch."""
        until = time.monotonic() + wait
        before = self._last_batch()
        while self.spark.isActive and self.spark.status["isTriggerActive"] and time.monotonic() < until:
            if before != (last := self._last_batch()):
                before, until = last, min(until, time.monotonic() + _PAUSE)
            time.sleep(_POLL)

    def _last_batch(self) -> int | None:
        progress = self.spark.lastProgress
        return None if progress is None else progress.batchId

    def __repr__(self) -> str:
        return f"<Query {self.spark.name or self.spark.id} ({self._status})>"

    def _repr_html_(self) -> str:
        """Return the status of the query and the metrics of its last batch, for notebooks."""
        state = [("query", str(self.spark.name or self.spark.id)), ("status", self._status)]
        return facts_html("Query", state) + ("" if self.metrics is None else self.metrics._repr_html_())

    @property
    def _status(self) -> str:
        return "running" if self.is_active else "stopped"


def understood(failure: Exception) -> Exception:
    """Return what stopped a query as an error of Eventide, where Eventide or its absence was the reason."""
    text = str(failure)
    if (missing := _NO_EVENTIDE.search(text)) is not None:
        return PlanError(missing[1])
    if (missing := _NO_MODULE.search(text)) is not None:
        return PlanError(
            f"The workers cannot import Eventide ({missing[1]}): it is not installed there, or the module eventide is "
            "another project. Install pyspark-eventide on them."
        )
    if (sources := _SOURCES.search(text)) is not None:
        return PlanError(
            f"The query of this checkpoint had {sources[1]} sources, and now it has {sources[2]}: an input was added "
            "or removed, or an option that needs the clock (idle_timeout, a processing-time trigger), which is another "
            "source. Run the previous pipeline, or use a new checkpoint."
        )
    if (message := _MESSAGE.search(text)) is not None:
        return (PlanError if message[1] == "PlanError" else DataError)(message[2].strip())
    return failure


def is_interactive() -> bool:
    """Return whether a person types into this process: a shell or a notebook."""
    if hasattr(sys, "ps1") or sys.flags.interactive:
        return True
    shell = sys.modules.get("IPython")
    return shell is not None and shell.get_ipython() is not None


def _warn_at_exit(query: Query) -> None:
    """Warn when the program ends while this query is running: Spark stops with the program."""
    if not _queries:
        atexit.unregister(_warn)
        atexit.register(_warn)  # registered after Spark's handlers, so called before them: the Java process still runs
    _queries.add(query)


def _warn() -> None:
    if is_interactive():
        return
    for query in list(_queries):
        if _is_running(query):
            print(
                f"Warning: the program ended while {query.label} was running, which stopped it after "
                f"{query.batches} {'batch' if query.batches == 1 else 'batches'}. "
                "Wait for it with pipeline.run(..., wait=True) or query.await_termination().",
                file=sys.stderr,
            )


def _is_running(query: Query) -> bool:
    try:
        return query.is_active
    except Exception:  # the Java process has ended, and the query with it
        return False
