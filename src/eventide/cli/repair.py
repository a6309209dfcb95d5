"""``eventide repair``: lower the watermark of a stopped query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eventide.cli import screen
from eventide.cli.sessions import Conf

if TYPE_CHECKING:
    from eventide.spark.repair import Repair

EXAMPLES = """Examples:

eventide repair checkpoints/revenue --watermark 2026-03-01T12:00:00Z --job job.py

eventide repair checkpoints/revenue --watermark 2026-03-01T12:00:00Z

For a watermark that a row with a wrong time moved too far. The next run of the query applies it, exactly once.
"""


def repair(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint of a stopped query.")],
    watermark: Annotated[str, typer.Option(help="The instant to which the watermark is lowered.")],
    job: Annotated[
        str | None, typer.Option(help="The job of the query: needed to look at its windows, and to list closed ones.")
    ] = None,
    conf: Conf = None,
) -> None:
    """Lower the watermark of a stopped query, and list the windows that had already closed."""
    from eventide.cli.jobs import load
    from eventide.cli.sessions import started
    from eventide.errors import cli as errors
    from eventide.spark.addresses import on_disk
    from eventide.spark.repair import repair as lower
    from eventide.time import instant

    to = instant(watermark, what="--watermark")
    local = on_disk(checkpoint)
    if local is not None and not (Path(local) / "eventide" / "control").is_dir():
        raise errors.no_checkpoint(checkpoint)
    pipelines = None if job is None else load(job).pipelines
    with started("repair", conf=conf) as spark, screen.busy("Reading the state …"):
        result = lower(checkpoint, to, pipeline=pipelines, spark=spark)
    for line in lines(result):
        typer.echo(line)


def lines(result: Repair) -> list[str]:
    """What is told of a repair."""
    from eventide.spark.repair import LIMIT
    from eventide.time import format_instant

    before, after = format_instant(result.before), format_instant(result.after)
    told = [f"The watermark is lowered from {before} to {after} when the query starts again."]
    if result.closed:
        told.append("These windows have closed. Rows for them open them again, as new windows without their old rows:")
        told += [f"  {format_instant(start)} to {format_instant(end)}" for start, end in result.closed[:LIMIT]]
        told += ["  and later ones"] * (len(result.closed) > LIMIT)
    else:
        unknown = " To list those of a job, name it with --job." if result.closed is None else ""
        told.append(f"Windows that have closed stay closed; rows for them open new windows.{unknown}")
    told.append("Rows that were late are in the late output, and can be sent again.")
    return told
