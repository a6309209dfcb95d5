"""``eventide inspect``: what a query holds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventide.cli import screen
from eventide.cli.sessions import Conf

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

    from eventide.spark.inspecting import OperatorState, Origin

EXAMPLES = """Examples:

eventide inspect checkpoints/revenue

eventide inspect checkpoints/revenue --job job.py     (open windows, or the state and timers of a processor, too)

eventide inspect checkpoints/revenue --job job.py --limit 100

eventide inspect checkpoints/revenue --json
"""
_LIMIT = 20  # rows of a table


def inspect(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint of a query, running or stopped.")],
    job: Annotated[str | None, typer.Option(help="The job that it runs, to see windows or state, too.")] = None,
    limit: Annotated[
        int | None, typer.Option(help=f"Rows of each list. Default: {_LIMIT}; with --json all.", min=1)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON object for each operator on stdout.")] = False,
    conf: Conf = None,
) -> None:
    """Show what a query holds: its watermark, origins, gaps, state, open windows, timers."""
    from pathlib import Path

    from eventide.cli.jobs import load
    from eventide.cli.sessions import started
    from eventide.errors import cli as errors
    from eventide.spark.addresses import on_disk
    from eventide.spark.inspecting import inspect as look

    local = on_disk(checkpoint)
    if local is not None and not Path(local).is_dir():
        raise errors.no_checkpoint(checkpoint)
    pipelines = None if job is None else load(job).pipelines
    with started("inspect", conf=conf, quiet=json) as spark:
        with screen.busy("Reading the state …", quiet=json):
            found = look(checkpoint, pipeline=pipelines, spark=spark)
        for operator in found:
            if json:
                screen.tell_json(as_json(operator, limit))
            else:
                show(screen.results(), operator, limit or _LIMIT)


def as_json(one: OperatorState, limit: int | None = None) -> dict[str, Any]:
    """Return an operator for machines; at most ``limit`` entries of each list."""
    windows = None if one.windows is None else [_window(one, row) for row in _head(one.windows, limit).iter_rows()]
    return {
        "operator": one.depth,
        "plan": dict(one.plan),
        "format": one.format,
        "buckets": one.buckets,
        "watermark": _instant(one.watermark),
        "watermarks": {str(key): _instant(time) for key, time in one.watermarks.items()},
        "at": _instant(one.at),
        "origins": [
            {
                "name": origin.name,
                "standing": _standing(one, origin),
                "watermarks": {str(key): _instant(time) for key, time in origin.watermarks.items()},
            }
            for origin in one.origins[:limit]
        ],
        "gaps": [{"origin": gap.origin, "first": gap.first, "last": gap.last} for gap in one.gaps[:limit]],
        "pages": one.pages,
        "bytes": one.bytes,
        "windows": windows,
        "in_flight": one.in_flight,
        "state": None if one.state is None else [_plain(row) for row in _head(one.state, limit).to_dicts()],
        "timers": None if one.timers is None else [_plain(row) for row in _head(one.timers, limit).to_dicts()],
    }


def show(console: Console, one: OperatorState, limit: int = _LIMIT) -> None:
    """Print an operator for people; at most ``limit`` rows of each table."""
    head, *rest = str(one).splitlines()
    console.print(head, style="bold", markup=False)
    for line in rest:
        if not line.lstrip().startswith(("origin ", "gap ", "windows ")):
            console.print(line, markup=False)
    origins = [(str(o.name), _standing(one, o), ", ".join(map(_text, o.watermarks.values()))) for o in one.origins]
    _print(console, ("origin", "status", "watermark"), origins, limit)
    gaps = [(str(gap.origin), gap.first, gap.last) for gap in one.gaps]
    _print(console, ("gap of", "first", "last"), gaps, limit)
    if one.windows is not None and one.windows.is_empty():
        console.print("  windows    none are open")
    elif one.windows is not None:
        windows = [(_bound(one, a), _bound(one, b), keys, rows) for a, b, keys, rows in one.windows.rows()]
        _print(console, ("from", "to", "keys", "rows"), windows, limit)
    for table in (one.state, one.timers):
        if table is not None:
            _print(console, tuple(table.columns), table.rows(), limit)


def _print(console: Console, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]], limit: int) -> None:
    if rows:
        shown = [[format_value(value) for value in row] for row in rows[:limit]]
        console.print(screen.table(*columns, rows=shown))
    if len(rows) > limit:
        console.print(f"and {len(rows) - limit:,} more (--limit)")


def format_value(value: Any) -> Any:
    """Return a value as tables show it: an instant in UTC as elsewhere.

    >>> from datetime import UTC, datetime
    >>> format_value(datetime(2026, 3, 1, 12, tzinfo=UTC)), format_value(5)
    ('2026-03-01T12:00:00Z', 5)
    """
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


def _head(frame: pl.DataFrame, limit: int | None) -> pl.DataFrame:
    return frame if limit is None else frame.head(limit)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: format_value(value) for name, value in row.items()}


def _standing(one: OperatorState, origin: Origin) -> str:
    """The status of an origin; once the stream has ended, nothing is waited for."""
    from eventide.time import MAX

    return "drained" if one.watermark == MAX else origin.standing


def _window(one: OperatorState, row: tuple[Any, ...]) -> dict[str, Any]:
    start, end, keys, rows = row
    return {"start": _bound(one, start) or None, "end": _bound(one, end) or None, "keys": keys, "rows": rows}


def _bound(one: OperatorState, value: int | None) -> str | int:
    """A bound of a window: an instant, or the number of a row."""
    if value is None:
        return ""
    return value if "rows" in one.plan.get("window", "") else _text(value)


def _text(time: int) -> str:
    return _instant(time) or ""


def _instant(time: int) -> str | None:
    from eventide.time import MAX, MIN, format_instant

    return None if time == MIN else "drained" if time == MAX else format_instant(time)
