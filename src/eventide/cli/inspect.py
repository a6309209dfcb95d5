"""``eventide inspect`` and ``eventide outputs``: the state and the pending outputs of a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventide.cli import terminal as screen
from eventide.cli.spark_options import Conf, check_checkpoint, no_checkpoint, session_for
from eventide.errors import PlanError

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

    from eventide.spark.inspection import OperatorState
    from eventide.spark.stored_progress import Origin


INSPECT_EXAMPLES = """Examples:

eventide inspect checkpoints/revenue

eventide inspect checkpoints/revenue --job job.py     (open windows, or the state and timers of a processor, too)

eventide inspect checkpoints/revenue --job job.py --limit 100

eventide inspect checkpoints/revenue --keys           (the largest keys, too)

eventide inspect checkpoints/revenue --json
"""
_LIMIT = 20  # rows of a table


def inspect(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint of a query, running or stopped.")],
    job: Annotated[str | None, typer.Option(help="The job of the query, to list windows, state and timers.")] = None,
    limit: Annotated[
        int | None, typer.Option(help=f"Rows of each table. Default: {_LIMIT}; all with --json.", min=1)
    ] = None,
    keys: Annotated[
        bool, typer.Option("--keys", help="Show the largest keys, too. This reads all of the state.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each operator on stdout.")] = False,
    conf: Conf = None,
) -> None:
    """Show the watermark, origins, gaps, state, open windows and timers of a query."""
    from eventide._paths import on_disk
    from eventide.cli.jobs import load
    from eventide.cli.spark_options import open_session
    from eventide.spark.inspection import inspect as read_operators

    local = on_disk(checkpoint)
    if local is not None and not Path(local).is_dir():
        raise no_checkpoint(checkpoint)
    pipeline = None if job is None else load(job).pipeline
    with open_session("inspect", conf=conf, quiet=json) as spark:
        with screen.busy("Reading the state …", quiet=json):
            operators = read_operators(checkpoint, pipeline=pipeline, keys=keys, spark=spark)
        for operator in operators:
            if json:
                screen.print_json(as_json(operator, limit))
            else:
                show(screen.stdout_console(), operator, limit or _LIMIT)


def as_json(operator: OperatorState, limit: int | None = None) -> dict[str, Any]:
    """Return an operator as JSON; at most ``limit`` entries of each list."""
    return {
        "operator": operator.depth,
        "plan": dict(operator.plan),
        "format": operator.format,
        "buckets": operator.buckets,
        "watermark": _instant(operator, operator.watermark),
        "watermarks": {str(key): _instant(operator, time) for key, time in operator.watermarks.items()},
        "at": format_value(operator.at),
        "origins": [
            {
                "name": origin.name,
                "status": _status(operator, origin),
                "watermarks": {str(key): _instant(operator, time) for key, time in origin.watermarks.items()},
            }
            for origin in operator.origins[:limit]
        ],
        "forgotten_origins": operator.forgotten_origins,
        "gaps": [{"origin": gap.origin, "first": gap.first, "last": gap.last} for gap in operator.gaps[:limit]],
        "pages": operator.pages,
        "bytes": operator.bytes,
        "windows": _rows(operator.windows, limit),
        "in_flight": operator.in_flight,
        "state": _rows(operator.state, limit),
        "timers": _rows(operator.timers, limit),
        "keys": None if operator.keys is None else operator.keys.count,
        "largest_keys": None if operator.keys is None else _rows(operator.keys.largest, limit),
        "closes_next": None if operator.keys is None else _rows(operator.keys.closes_next, limit),
    }


def show(console: Console, operator: OperatorState, limit: int = _LIMIT) -> None:
    """Print an operator; at most ``limit`` rows of each table."""
    from eventide.spark.key_sizes import key_text

    head, *rest = str(operator).splitlines()
    console.print(head, style="bold", markup=False)
    for line in rest:
        if not line.lstrip().startswith(("origin ", "gap ", "windows ", "key ", "next ")):
            console.print(line, markup=False)
    origins = [
        (
            str(origin.name),
            _status(operator, origin),
            ", ".join(_instant(operator, time) or "" for time in origin.watermarks.values()),
        )
        for origin in operator.origins
    ]
    _print(console, ("origin", "status", "watermark"), origins, limit)
    gaps = [(str(gap.origin), gap.first, gap.last) for gap in operator.gaps]
    _print(console, ("gap of", "first", "last"), gaps, limit)
    if operator.windows is not None and operator.windows.is_empty():
        console.print("  windows    none are open")
    elif operator.windows is not None:
        windows = [["" if value is None else value for value in row] for row in operator.windows.rows()]
        _print(console, tuple(operator.windows.columns), windows, limit)
    if operator.keys is not None:
        keys = [(key_text(key), *sizes) for key, *sizes in operator.keys.largest.rows()]
        _print(console, ("largest keys", *operator.keys.largest.columns[1:]), keys, limit)
    if operator.keys is not None and operator.keys.closes_next is not None:
        closing = [(key_text(key), *window) for key, *window in operator.keys.closes_next.rows()]
        _print(console, ("closes next", *operator.keys.closes_next.columns[1:]), closing, limit)
    for table in (operator.state, operator.timers):
        if table is not None:
            _print(console, tuple(table.columns), table.rows(), limit)


def _print(console: Console, columns: tuple[str, ...], rows: Sequence[Sequence[Any]], limit: int) -> None:
    if rows:
        shown = [[format_value(value) for value in row] for row in rows[:limit]]
        console.print(screen.table(*columns, rows=shown))
    if len(rows) > limit:
        console.print(f"and {len(rows) - limit:,} more (--limit)")


def format_value(value: Any) -> Any:
    """Return a value as tables show it; instants are in UTC.

    >>> from datetime import UTC, datetime
    >>> format_value(datetime(2026, 3, 1, 12, tzinfo=UTC)), format_value(5)
    ('2026-03-01T12:00:00Z', 5)
    """
    if isinstance(value, dict):
        return {name: format_value(part) for name, part in value.items()}
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


def _rows(frame: pl.DataFrame | None, limit: int | None) -> list[dict[str, Any]] | None:
    if frame is None:
        return None
    rows = frame.head(frame.height if limit is None else limit).to_dicts()
    return [{name: format_value(value) for name, value in row.items()} for row in rows]


def _status(operator: OperatorState, origin: Origin) -> str:
    """Return the status of an origin. Once the stream is drained, no origin is waited for."""
    return "drained" if operator.drained else origin.status


def _instant(operator: OperatorState, time: datetime | None) -> str | None:
    from eventide.metrics import instant_text

    return instant_text(time) if time is not None else "drained" if operator.drained else None


OUTPUTS_EXAMPLES = """Examples:

eventide outputs checkpoints/revenue

eventide outputs checkpoints/revenue --export pending

eventide outputs checkpoints/revenue --export pending --discard     (the query continues without them)

Without --discard nothing changes: the next run of the query delivers them. For a checkpoint that is not on this
machine, Spark is started. Whether its query runs is unknown there: stop it before you discard outputs.
"""


def outputs(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint of a query with state in the driver.")],
    export: Annotated[str | None, typer.Option(help="Write the outputs to this directory, as Parquet files.")] = None,
    discard: Annotated[
        bool,
        typer.Option("--discard", help="After the export, confirm the batch without delivering it."),
    ] = False,
    storage: Annotated[
        str | None, typer.Option(help="The store of the commit records, if the query runs with --storage.")
    ] = None,
    single_writer: Annotated[
        bool,
        typer.Option(
            "--single-writer",
            help="Discard in a store that overwrites existing files: you ensure that nothing else uses the checkpoint.",
        ),
    ] = False,
    conf: Conf = None,
) -> None:
    """List, export or discard the outputs of the last batch that its sinks have not confirmed."""
    from eventide.cli.run import open_storage
    from eventide.spark.pending_outputs import discard_outputs, export_outputs, pending_outputs

    if discard and export is None:
        raise PlanError("--discard needs --export DIR: outputs are discarded only after they are written to files.")
    check_checkpoint(checkpoint)
    store = None if storage is None else open_storage(storage)
    with session_for(checkpoint, "outputs", conf=conf) as spark:
        pending = pending_outputs(checkpoint, storage=store, spark=spark)
        if pending:
            table = [(output.batch, output.output, output.depth, f"{output.table.num_rows:,}") for output in pending]
            screen.stdout_console().print(screen.table("batch", "output", "operator", "rows", rows=table))
            for path in export_outputs(pending, Path(export)) if export is not None else []:
                typer.echo(f"written: {path}")
        else:
            typer.echo("No outputs are pending.")
        if not discard:
            return
        batch = discard_outputs(checkpoint, storage=store, spark=spark, single_writer=single_writer)
        if batch is not None:
            typer.echo(f"Batch {batch} is confirmed. The query continues with batch {batch + 1}.")
