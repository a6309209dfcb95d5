"""One query from its start to its end, with all that is shown meanwhile."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from eventide.cli import screen
from eventide.cli.addresses import Address
from eventide.cli.failing import FAILED, INTERRUPTED, failed
from eventide.cli.jobs import Job
from eventide.cli.stopping import Stop, gone, stopping
from eventide.cli.unheard import UNHEARD, Printed
from eventide.errors import DataError, LateRowsWarning
from eventide.errors import cli as errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

    from eventide.cli.progress import Progress
    from eventide.spark.metrics import BatchMetrics

AVAILABLE_NOW = "available_now"
_ENDED = "The stream of this checkpoint has ended: all rows were late. Name another --checkpoint."
_DRAINED = "Finished: the stream is drained, and every open window was emitted and closed."
_DRAINED_ROWS = "Finished: the stream is drained, and everything that was pending was emitted."
_STOPPING = "Stopping after this batch; Ctrl-C again aborts it."


@dataclass(frozen=True)
class Order:
    """What to run, and how."""

    job: Job
    sources: Mapping[str | None, Address]
    outputs: Mapping[str, Address]  # panes, late, dead
    checkpoint: str
    trigger: str | None = None
    drain: bool = False
    json: bool = False
    trace: Path | None = None
    state: str = "driver"  # where state is kept


def check(order: Order) -> None:
    """Reject what is known to go wrong, before Spark starts."""
    from eventide.cli.preflight import check_sources
    from eventide.plan.stream_check import check_watermarks
    from eventide.spark.addresses import on_disk
    from eventide.spark.drained import check_not_drained
    from eventide.spark.storage import LocalStorage

    if not order.sources and order.job.rows is None:
        raise errors.no_rows(order.job.path)
    check_sources(order.job, order.sources)
    if order.job.pipelines:
        check_watermarks(order.job.pipelines[0].plan)
    if (local := on_disk(order.checkpoint)) is not None:  # elsewhere, run() looks once there is a session
        check_not_drained(LocalStorage(local), order.checkpoint)
    if order.trace is not None:
        _open_trace(order.trace)


def _open_trace(trace: Path) -> None:
    try:
        trace.parent.mkdir(parents=True, exist_ok=True)
        trace.open("a").close()
    except OSError as cause:
        raise errors.no_trace(str(trace), cause.strerror or str(cause)) from cause


def execute(order: Order, spark: SparkSession) -> None:
    """Run it to its end, or until it is stopped."""
    from eventide.cli.progress import Progress

    progress = Progress(len(order.job.pipelines))
    rows = _rows(order, spark)
    console = screen.remarks()
    with _warnings_on(console), stopping(spark, lambda: console.print(_STOPPING, soft_wrap=True)) as asked:
        try:
            with _shown(progress, console, asked, json=order.json) as shown:
                _run(order, rows, [progress, *_writers(order), shown], asked)
        except DataError as cause:
            raise failed(cause, FAILED) from None
        except Exception:
            if not (asked.is_set() and gone(spark)):
                raise
    if asked.unheard:
        raise typer.Exit(UNHEARD)
    interrupted = asked.is_set() and not asked.finished
    if not order.json:
        _sum_up(order, progress, stopped=interrupted)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _run(order: Order, rows: Any, listeners: list[Callable[[BatchMetrics], None]], asked: Stop) -> None:
    from eventide.spark.control import Control

    def tell(one: BatchMetrics) -> None:
        for listener in listeners:
            listener(one)
        if one.drained and one.depth == len(order.job.pipelines) - 1:
            asked.finish()

    def once() -> None:
        if asked.is_set():
            return
        query = order.job.start(
            rows,
            **_sinks(order, asked),
            checkpoint=order.checkpoint,
            trigger=order.trigger,
            name=order.job.name,
            on_batch=tell,
            state=order.state,
        )
        query.await_termination()

    once()
    # Not run(drain=True): a query that was stopped before it had read everything must not be drained.
    if order.drain and not asked.is_set():
        Control(order.checkpoint, rows_session(rows)).drain()
        once()


def rows_session(rows: Any) -> SparkSession:
    """The session of what is read."""
    one = next(iter(rows.values())) if isinstance(rows, Mapping) else rows[0] if isinstance(rows, list) else rows
    found: SparkSession = one.sparkSession
    return found


def _rows(order: Order, spark: SparkSession) -> Any:
    if order.sources:
        from eventide.cli.places import by_input

        return by_input(spark, order.sources, fused=not order.job.computes)
    return order.job.read(spark)


def _sinks(order: Order, asked: Stop) -> dict[str, Any]:
    from eventide.cli.history import History
    from eventide.cli.places import sink
    from eventide.cli.tracing import Traced

    found: dict[str, Any] = {name: sink(address) for name, address in order.outputs.items()}
    for name, address in order.outputs.items():
        if address.kind == "console":
            found[name] = Printed(found[name], asked.nobody_reads)
    if order.trace is not None:
        found["panes"] = Traced(found["panes"], History(order.trace, most=1 << 40))
    return found


def _writers(order: Order) -> list[Callable[[BatchMetrics], None]]:
    from eventide.cli.history import History, beside

    own = beside(order.checkpoint)
    found: list[Callable[[BatchMetrics], None]] = [] if own is None else [History(own)]
    return found if order.trace is None else [*found, History(order.trace, most=1 << 40)]


@contextmanager
def _shown(
    progress: Progress, console: Console, asked: Stop, *, json: bool
) -> Iterator[Callable[[BatchMetrics], None]]:
    """JSON for machines, a picture on a terminal, a line a batch elsewhere."""
    if json:
        from eventide.spark.metrics_json import to_json

        def tell(one: BatchMetrics) -> None:
            try:
                screen.tell_json(to_json(one))
            except BrokenPipeError:
                asked.nobody_reads()

        yield tell
    elif console.is_terminal:
        from rich.live import Live

        with Live(progress, console=console, refresh_per_second=4):
            yield lambda one: None
    else:
        from eventide.cli.progress_lines import ProgressLines

        yield ProgressLines(lambda line: console.print(line, soft_wrap=True, markup=False))


@contextmanager
def _warnings_on(console: Console) -> Iterator[None]:
    """Print warnings as remarks of the command, without the line of code that raised them."""

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        console.print(f"Warning: {message}", style="yellow", markup=False, soft_wrap=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", LateRowsWarning)
        warnings.showwarning = show
        yield


def _sum_up(order: Order, progress: Progress, *, stopped: bool) -> None:
    console = screen.remarks()
    console.print(progress.balance, soft_wrap=True)
    for output, what, some in (("late", "late rows", progress.late), ("dead", "dead letters", progress.dead)):
        if some and output not in order.outputs:
            console.print(f"The {what} are in {order.checkpoint.rstrip('/')}/eventide/{output}", soft_wrap=True)
    if progress.ended:
        console.print(_ENDED, soft_wrap=True)
    elif progress.drained:
        windows = order.job.pipelines[-1].plan.operation == "window"
        console.print(_DRAINED if windows else _DRAINED_ROWS, soft_wrap=True)
    if stopped:
        console.print("Stopped. The same command continues from the checkpoint.")
