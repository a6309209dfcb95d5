"""A query on Spark from its start to its end, with its progress, its history and its summary."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from eventide._addresses import Address
from eventide._jvm import is_stopped
from eventide.cli import terminal as screen
from eventide.cli.jobs import Job
from eventide.cli.shutdown import CLOSED_PIPE, PrintingSink, StopRequest, stop_on_signal
from eventide.cli.terminal import FAILED, INTERRUPTED, exit_with_error
from eventide.errors import DataError, LateRowsWarning, PlanError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

    from eventide.cli.live_progress import LiveProgress
    from eventide.sinks import Sink
    from eventide.spark.metrics import BatchMetrics

_ENDED = "The stream of this checkpoint has ended: all rows were late. Use a new --checkpoint."
_DRAINED = "Finished: the stream is drained, and every open window was emitted and closed."
_DRAINED_ROWS = "Finished: the stream is drained, and all pending rows were emitted."
_STOPPING = "Stopping after this batch. Press Ctrl-C again to abort it."


@dataclass(frozen=True)
class RunRequest:
    """A query to run, and its options."""

    job: Job
    sources: Mapping[str | None, Address]
    outputs: Mapping[str, Address]  # sink, late, dead
    checkpoint: str
    interval: str | None = None
    available_now: bool = False
    drain: bool = False
    json: bool = False
    trace: Path | None = None
    limit: int | None = None  # rows of a batch that the console prints
    state: str = "driver"  # the placement of state
    state_memory: str | None = None
    whole_rows: bool = False
    source_position: bool = False
    single_writer: bool = False
    storage: Any = None  # of commit records
    on_missing_file: str = "fail"
    dashboard: bool = False


def check_request(request: RunRequest) -> None:
    """Reject mistakes before Spark starts."""
    from eventide._paths import on_disk
    from eventide.cli.jobs import check_sources
    from eventide.plan.pipeline import check_completes, check_watermarks
    from eventide.spark.control import check_not_drained
    from eventide.spark.storage import LocalStorage

    if not request.sources and request.job.rows is None:
        raise PlanError(
            f"{request.job.path} has no source. Name one, such as parquet:/data/orders, or define in the job: "
            "def rows(spark): return spark.readStream…"
        )
    check_sources(request.job, request.sources)
    check_watermarks(request.job.pipeline.plan)
    if not (request.available_now or request.drain):
        check_completes(request.job.pipeline)
    if (local := on_disk(request.checkpoint)) is not None:  # run() checks others once there is a session
        check_not_drained(LocalStorage(local), request.checkpoint)
    if request.trace is not None:
        _open_trace(request.trace)


def _open_trace(trace: Path) -> None:
    try:
        trace.parent.mkdir(parents=True, exist_ok=True)
        trace.open("a").close()
    except OSError as cause:
        raise PlanError(
            f"--trace {str(trace)!r} cannot be written: {cause.strerror or cause}. Name a file, such as revenue.jsonl."
        ) from cause


def run_request(request: RunRequest, spark: SparkSession) -> None:
    """Run a query to its end, or until it is stopped."""
    from eventide.cli.live_progress import LiveProgress

    progress = LiveProgress(len(request.job.pipeline.plans))
    rows = _rows(request, spark)
    console = screen.stderr_console()
    with _warnings_on(console), stop_on_signal(spark, lambda: console.print(_STOPPING, soft_wrap=True)) as stop:
        try:
            with _progress_view(progress, console, stop, json=request.json) as show:
                _run(request, rows, [progress, show], stop)
        except DataError as cause:
            raise exit_with_error(cause, FAILED) from None
        except Exception:
            if not (stop.is_set() and is_stopped(spark)):
                raise
    if stop.pipe_closed:
        raise typer.Exit(CLOSED_PIPE)
    interrupted = stop.is_set() and not stop.finished
    if not request.json:
        _sum_up(request, progress, stopped=interrupted)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _run(request: RunRequest, rows: Any, listeners: list[Callable[[BatchMetrics], None]], stop: StopRequest) -> None:
    from eventide.spark.control import Control

    def report(metrics: BatchMetrics) -> None:
        for listener in listeners:
            listener(metrics)
        if metrics.drained and metrics.depth == len(request.job.pipeline.following):
            stop.finish()

    def run_once() -> None:
        if stop.is_set():
            return
        query = request.job.start(
            rows,
            **_sinks(request, stop),
            checkpoint=request.checkpoint,
            interval=request.interval,
            available_now=request.available_now,
            name=request.job.name,
            on_batch=report,
            state=request.state,
            state_memory=request.state_memory,
            whole_rows=request.whole_rows,
            source_position=request.source_position,
            single_writer=request.single_writer,
            storage=request.storage,
            on_missing_file=request.on_missing_file,
            trace=request.dashboard if request.trace is None else request.trace,
        )
        query.await_termination()

    run_once()
    # Not run(drain=True): a query that was stopped before it had read everything must not be drained.
    if request.drain and not stop.is_set():
        Control(request.checkpoint, rows_session(rows)).drain()
        run_once()


def rows_session(rows: Any) -> SparkSession:
    """Return the session of the rows: a DataFrame, or several, with or without names."""
    first = next(iter(rows.values())) if isinstance(rows, Mapping) else rows[0] if isinstance(rows, list) else rows
    session: SparkSession = first.sparkSession
    return session


def _rows(request: RunRequest, spark: SparkSession) -> Any:
    if request.sources:
        from eventide.spark.sources import sources_at

        return sources_at(spark, request.sources, fused=not request.job.computes)
    return request.job.read(spark)


def _sinks(request: RunRequest, stop: StopRequest) -> dict[str, Any]:
    sinks: dict[str, Any] = {name: sink_of(address, request.limit) for name, address in request.outputs.items()}
    for name, address in request.outputs.items():
        if address.kind == "console":
            sinks[name] = PrintingSink(sinks[name], stop.on_closed_pipe)
    return sinks


def sink_of(address: Address, limit: int | None = None) -> Sink:
    """Return the sink of an address; ``limit`` is how many rows of a batch the console prints."""
    from eventide.sinks import console
    from eventide.sinks.sink import sink_at

    return console(limit) if limit is not None and address.kind == "console" else sink_at(address)


@contextmanager
def _progress_view(
    progress: LiveProgress, console: Console, stop: StopRequest, *, json: bool
) -> Iterator[Callable[[BatchMetrics], None]]:
    """Yield a listener that prints batches: JSON, a live view on a terminal, or a line for each batch."""
    if json:
        from eventide.spark.metrics import to_json

        def print_batch(metrics: BatchMetrics) -> None:
            try:
                screen.print_json(to_json(metrics))
            except BrokenPipeError:
                stop.on_closed_pipe()

        yield print_batch
    elif console.is_terminal:
        from rich.live import Live

        with Live(progress, console=console, refresh_per_second=4):
            yield lambda metrics: None
    else:
        from eventide.cli.live_progress import ProgressLines

        yield ProgressLines(lambda line: console.print(line, soft_wrap=True, markup=False))


@contextmanager
def _warnings_on(console: Console) -> Iterator[None]:
    """Print warnings without the line of code that raised them."""

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        console.print(f"Warning: {message}", style="yellow", markup=False, soft_wrap=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", LateRowsWarning)
        warnings.showwarning = show
        yield


def _sum_up(request: RunRequest, progress: LiveProgress, *, stopped: bool) -> None:
    console = screen.stderr_console()
    console.print(progress.balance, soft_wrap=True)
    for output, name, count in (("late", "late rows", progress.late), ("dead", "dead letters", progress.dead)):
        if count and output not in request.outputs:
            console.print(f"The {name} are in {request.checkpoint.rstrip('/')}/eventide/{output}", soft_wrap=True)
    if progress.ended:
        console.print(_ENDED, soft_wrap=True)
    elif progress.drained:
        windows = request.job.pipeline.plans[-1].operation == "window"
        console.print(_DRAINED if windows else _DRAINED_ROWS, soft_wrap=True)
    if stopped:
        console.print("Stopped. The same command continues from the checkpoint.")
