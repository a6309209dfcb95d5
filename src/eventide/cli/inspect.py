"""``eventide inspect``: what a query holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventide.cli import screen
from eventide.cli.sessions import Conf

if TYPE_CHECKING:
    from rich.console import Console

    from eventide.spark.inspecting import OperatorState, Origin

EXAMPLES = """Examples:

eventide inspect checkpoints/revenue

eventide inspect checkpoints/revenue --job job.py     (open windows, too)

eventide inspect checkpoints/revenue --json
"""
_MOST = 20  # windows that are shown


def inspect(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint of a query, running or stopped.")],
    job: Annotated[str | None, typer.Option(help="The job that it runs, to see its open windows, too.")] = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON object for each operator on stdout.")] = False,
    conf: Conf = None,
) -> None:
    """Show what a query holds: where its watermark stands, who holds it back, gaps, state, open windows."""
    from pathlib import Path

    from eventide.cli.jobs import load
    from eventide.cli.sessions import started
    from eventide.errors import cli as errors
    from eventide.spark.control import on_disk
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
                screen.tell_json(as_json(operator))
            else:
                show(screen.results(), operator)


def as_json(one: OperatorState) -> dict[str, Any]:
    """An operator for machines."""
    windows = None if one.windows is None else [_window(one, row) for row in one.windows.iter_rows()]
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
            for origin in one.origins
        ],
        "gaps": [{"origin": gap.origin, "first": gap.first, "last": gap.last} for gap in one.gaps],
        "pages": one.pages,
        "bytes": one.bytes,
        "windows": windows,
    }


def show(console: Console, one: OperatorState) -> None:
    """An operator for people."""
    head, *rest = str(one).splitlines()
    console.print(head, style="bold", markup=False)
    for line in rest:
        if not line.lstrip().startswith(("origin ", "gap ", "windows ")):
            console.print(line, markup=False)
    if one.origins:
        rows = [(str(o.name), _standing(one, o), ", ".join(map(_text, o.watermarks.values()))) for o in one.origins]
        console.print(screen.table("origin", "standing", "watermark", rows=rows))
    if one.gaps:
        gaps = [(str(gap.origin), gap.first, gap.last) for gap in one.gaps]
        console.print(screen.table("gap of", "first", "last", rows=gaps))
    if one.windows is not None and one.windows.is_empty():
        console.print("  windows    none are open")
    elif one.windows is not None:
        shown = [(_bound(one, a), _bound(one, b), keys, rows) for a, b, keys, rows in one.windows.head(_MOST).rows()]
        console.print(screen.table("from", "to", "keys", "rows", rows=shown))
        if one.windows.height > _MOST:
            console.print(f"and {one.windows.height - _MOST:,} more windows")


def _standing(one: OperatorState, origin: Origin) -> str:
    """As the watermark knows it; but once the stream has ended, nobody is waited for."""
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
