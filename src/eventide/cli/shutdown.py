"""How a command ends: signals that stop its queries, a closed output pipe, and the Java process that it started."""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from eventide.sinks.batch import SinkBatch
    from eventide.sinks.sink import OutputInfo, Sink


CLOSED_PIPE = 141  # the exit code that shells report for a program that a closed pipe has ended
_GRACE = 5  # seconds in which Java may remove its temporary files
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_POLL = 0.1  # seconds between two checks whether to stop


def is_stdout_closed() -> bool:
    """Return whether the reader of stdout has closed the pipe (``| head -1``). Other pipes may be closed, too."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    except (AttributeError, OSError, ValueError):  # a system without poll, or stdout is not a file
        return False


def silence_stdout() -> None:
    """Send stdout to the null device: Python flushes it at exit, and would fail again."""
    with suppress(OSError, ValueError):  # stdout is not a file, as in tests
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


@dataclass(frozen=True)
class PrintingSink:
    """A sink that prints; ``on_closed_pipe`` is called when the reader of stdout has closed the pipe."""

    sink: Sink
    on_closed_pipe: Callable[[], None]

    @property
    def as_selected(self) -> bool:
        """Whether the sink needs only the columns that a query selects."""
        return getattr(self.sink, "as_selected", False)

    def open(self, schema: StructType, info: OutputInfo) -> None:
        """Delegate to the sink."""
        self.sink.open(schema, info)

    def write(self, batch: SinkBatch, batch_id: int, info: OutputInfo) -> None:
        """Print the batch, unless the pipe is closed."""
        try:
            self.sink.write(batch, batch_id, info)
        except (BrokenPipeError, SystemExit):  # rich raises SystemExit, which would end a thread of Spark
            self.on_closed_pipe()

    def close(self) -> None:
        """Delegate to the sink."""
        self.sink.close()


class JavaProcesses:
    """The Java processes that this command starts. A signal during a start waits for the process id."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[Any]] = []
        self._starting = self._interrupted = False

    def start(self, *words: Any, **options: Any) -> subprocess.Popen[Any]:
        """Start a process, as ``Popen`` does, in a new process group.

        A signal of a terminal or of ``timeout`` to this group would end Java in the middle of a batch. Here it stops
        the command, which stops Java.
        """
        self._starting = True
        try:
            group = {"process_group": 0} if os.name == "posix" else {}
            self._processes.append(subprocess.Popen(*words, **{**group, **options}))
        finally:
            self._starting = False
        if self._interrupted:
            raise KeyboardInterrupt
        return self._processes[-1]

    def interrupt(self, number: int, frame: Any) -> None:
        """Handle a signal before any query runs."""
        self._interrupted = True
        if not self._starting:
            raise KeyboardInterrupt

    def end(self) -> None:
        """End the processes without a call to Spark, because another call may be interrupted in the middle."""
        logging.getLogger("py4j").propagate = False  # it would log that Java does not answer
        for process in self._processes:
            _send(process, signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(_GRACE)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                _send(process, getattr(signal, "SIGKILL", signal.SIGTERM))
                process.wait()


@contextmanager
def managed_java() -> Iterator[JavaProcesses]:
    """Start Spark's Java from this command, so that a signal ends both.

    Spark's own handler of Ctrl-C calls Java in the middle of another call and may then never return. It is not
    installed.
    """
    java = JavaProcesses()
    handlers = {number: signal.signal(number, java.interrupt) for number in _SIGNALS}
    try:
        with _patched_spark(java), _without_py4j_log():
            try:
                yield java
            except KeyboardInterrupt:
                java.end()
                raise
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def _patched_spark(java: JavaProcesses) -> Iterator[None]:
    try:
        context: Any = import_module("pyspark.core.context")
        gateway: Any = import_module("pyspark.java_gateway")
        counters: Any = import_module("pyspark.accumulators")
    except ImportError:  # reported where a session is created
        yield
        return
    signals = SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda number, handler: None)
    patches = [
        (gateway, "Popen", java.start),
        (context, "signal", signals),
        (counters.UpdateRequestHandler, "handle", _without_end(counters.UpdateRequestHandler.handle)),
    ]
    patches = [patch for patch in patches if hasattr(patch[0], patch[1])]  # a Spark may lack one of them
    originals = [getattr(owner, name) for owner, name, _ in patches]
    for owner, name, value in patches:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for (owner, name, _), value in zip(patches, originals, strict=True):
            setattr(owner, name, value)


@contextmanager
def _without_py4j_log() -> Iterator[None]:
    """Hide the log of py4j, which reports an interrupted call as an error of the program."""

    def is_shown(record: logging.LogRecord) -> bool:
        return "py4j" not in Path(record.pathname).parts

    logging.root.addFilter(is_shown)
    try:
        yield
    finally:
        logging.root.removeFilter(is_shown)


def _without_end(handle: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return Spark's handler of counts from Java without the stack trace that it prints when Java has ended."""

    def quiet(self: Any) -> None:
        with suppress(EOFError, ConnectionError):
            handle(self)

    return quiet


def _send(process: subprocess.Popen[Any], number: int) -> None:
    if process.poll() is not None:
        return
    if os.name == "posix":
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)


class StopRequest(threading.Event):
    """Set once the queries are to stop."""

    pipe_closed = False  # the reason: the reader of stdout has closed the pipe
    finished = False  # the reason: the stream has ended

    def finish(self) -> None:
        """Stop because no row can follow, unless a stop was requested before."""
        if not self.is_set():
            self.finished = True
            self.set()

    def on_closed_pipe(self) -> None:
        """Stop, and print nothing more."""
        self.pipe_closed = True
        silence_stdout()
        self.set()


@contextmanager
def stop_on_signal(spark: SparkSession, report: Callable[[], None]) -> Iterator[StopRequest]:
    """Stop all queries after their batch at the first signal, and abort everything at the second.

    ``report`` is called at the first signal. The handler only sets the event, so that no call to Spark is interrupted.
    """
    stop, ended = StopRequest(), threading.Event()

    def handle(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    handlers = {number: signal.signal(number, handle) for number in _SIGNALS}
    watcher = threading.Thread(target=_watch, args=(spark, stop, ended, report), daemon=True)
    watcher.start()
    try:
        yield stop
        ended.set()
        watcher.join(timeout=15)
    finally:  # an abort does not wait for the watcher, which may wait for a batch
        ended.set()
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _watch(spark: SparkSession, stop: StopRequest, ended: threading.Event, report: Callable[[], None]) -> None:
    from eventide.spark.control import Control
    from eventide.spark.query import Query

    reported = False
    while not ended.wait(_POLL):
        if not stop.is_set():
            continue
        if not reported and not stop.pipe_closed and not stop.finished:
            report()
            reported = True
        try:
            for query in spark.streams.active:
                Query(query, Control(""), (), lambda: None).stop(wait=None)
        except Exception:  # Spark has ended, or the query has failed: the waiting thread raises the reason
            continue
