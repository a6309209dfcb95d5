"""``eventide move`` and ``eventide repair``: commands that change the state of a stopped query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from eventide.cli import terminal as screen
from eventide.cli.spark_options import Conf, Memory, check_checkpoint
from eventide.spark.errors import unknown_placement
from eventide.state.errors import move_buckets

if TYPE_CHECKING:
    from eventide.spark.move import MoveResult
    from eventide.spark.query_record import Placement
    from eventide.spark.repair import Repair


MOVE_EXAMPLES = """Examples:

eventide move checkpoints/revenue --to executors --buckets 8

eventide move checkpoints/revenue --to driver

Offsets, batch ids and sinks stay. The old state stays in use until the new one is complete. Then start the query with
the new placement: eventide run job.py --state executors
"""


def move(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint of a stopped query.")],
    to: Annotated[str, typer.Option(help="The new placement: driver or executors.")],
    buckets: Annotated[
        int | None, typer.Option(help="The number of buckets of the state on the executors.", min=1)
    ] = None,
    memory: Memory = None,
    conf: Conf = None,
) -> None:
    """Move the state of a stopped query between the driver and the executors."""
    from eventide._paths import on_disk
    from eventide.cli.spark_options import open_session
    from eventide.spark.move import move as move_state
    from eventide.spark.query_record import placement_of
    from eventide.spark.storage import LocalStorage

    if to not in ("driver", "executors"):
        raise unknown_placement(to)
    if (buckets is None) == (to == "executors"):
        raise move_buckets(to)
    check_checkpoint(checkpoint)
    try:
        with open_session("move", memory=memory, conf=conf) as spark, screen.busy("Moving the state …"):
            moved = move_state(checkpoint, to=cast("Placement", to), buckets=buckets, spark=spark)
    except BaseException:
        local = on_disk(checkpoint)
        if local is not None and (placement := placement_of(LocalStorage(local))) is not None:
            typer.echo(f"The query still uses the state of the {placement}.", err=True)
        raise
    for line in move_lines(moved, checkpoint):
        typer.echo(line)


def move_lines(moved: MoveResult, checkpoint: str) -> list[str]:
    """Return the lines that describe a move."""
    counts = ", ".join(map(str, moved.buckets))
    divided = f" in {counts} bucket{'s' if counts != '1' else ''}" if moved.after == "executors" else ""
    return [
        f"The state of {checkpoint} moved from the {moved.before} to the {moved.after}: "
        f"{moved.bytes:,} bytes after batch {moved.batch}{divided}.",
        f"Start the query with state={moved.after!r} (eventide run --state {moved.after}).",
    ]


REPAIR_EXAMPLES = """Examples:

eventide repair checkpoints/revenue --watermark 2026-03-01T12:00:00Z --job job.py

eventide repair checkpoints/revenue --watermark 2026-03-01T12:00:00Z

For a watermark that a row with a wrong time moved too far. The next run of the query applies it exactly once.
"""


def repair(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint of a stopped query.")],
    watermark: Annotated[str, typer.Option(help="The new, lower watermark.")],
    job: Annotated[str | None, typer.Option(help="The job of the query, to list its closed windows.")] = None,
    conf: Conf = None,
) -> None:
    """Lower the watermark of a stopped query, and list the windows that are already closed."""
    from eventide.cli.jobs import load
    from eventide.cli.spark_options import open_session
    from eventide.spark.repair import repair as lower
    from eventide.time import instant

    to = instant(watermark, what="--watermark")
    check_checkpoint(checkpoint)
    pipeline = None if job is None else load(job).pipeline
    with open_session("repair", conf=conf) as spark, screen.busy("Reading the state …"):
        result = lower(checkpoint, to, pipeline=pipeline, spark=spark)
    for line in repair_lines(result):
        typer.echo(line)


def repair_lines(result: Repair) -> list[str]:
    """Return the lines that describe a repair."""
    from eventide.spark.repair import LIMIT
    from eventide.time import format_instant

    before, after = format_instant(result.before), format_instant(result.after)
    lines = [f"The watermark is lowered from {before} to {after} when the query starts again."]
    if result.closed:
        lines.append("These windows have closed. Rows for them open them again, as new windows without their old rows:")
        lines += [f"  {format_instant(start)} to {format_instant(end)}" for start, end in result.closed[:LIMIT]]
        lines += ["  and later ones"] * (len(result.closed) > LIMIT)
    else:
        unknown = " To list those of a job, name it with --job." if result.closed is None else ""
        lines.append(f"Windows that have closed stay closed; rows for them open new windows.{unknown}")
    lines.append("Rows that were late are in the late output, and can be sent again.")
    return lines
