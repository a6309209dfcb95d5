"""``eventide rescale`` and ``eventide repair``: commands that change the state of a stopped query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, cast

import typer

from eventide.cli import terminal as screen
from eventide.cli.spark_options import Conf, Memory, check_checkpoint
from eventide.state.errors import PLACEMENTS

if TYPE_CHECKING:
    from eventide.spark.query_record import Placement
    from eventide.spark.repair import Repair
    from eventide.spark.rescale import RescaleResult
    from eventide.spark.storage import Storage


RESCALE_EXAMPLES = """Examples:

eventide rescale checkpoints/revenue --buckets 8

eventide rescale checkpoints/revenue --to driver

With --buckets the state is on the executors afterwards, wherever it was. Offsets, batch ids and sinks stay, and nothing
is read again. The old state stays in use until the new one is complete. Then start the query with the placement that
the command names: eventide run job.py --state executors
"""


def rescale(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint of a stopped query.")],
    buckets: Annotated[int | None, typer.Option(help="The number of buckets of the state on the executors.")] = None,
    to: Annotated[str | None, typer.Option(help="driver: the state moves from the executors to the driver.")] = None,
    single_writer: Annotated[
        bool,
        typer.Option(
            "--single-writer",
            help="Accept a store that overwrites existing files: you ensure that nothing else uses the checkpoint.",
        ),
    ] = False,
    memory: Memory = None,
    conf: Conf = None,
) -> None:
    """Change the number of buckets of a stopped query, or move its state between the driver and the executors."""
    from eventide.cli.spark_options import open_session
    from eventide.spark.checkpoint_storage import storage_of
    from eventide.spark.rescale import check_target
    from eventide.spark.rescale import rescale as rescale_state

    check_target(buckets, to)
    check_checkpoint(checkpoint)
    with open_session("rescale", memory=memory, conf=conf) as spark, screen.busy("Opening …") as show:
        try:
            result = rescale_state(
                checkpoint,
                buckets=buckets,
                to=cast("Placement | None", to),
                spark=spark,
                on_progress=show,
                single_writer=single_writer,
            )
        except BaseException:
            typer.echo(state_in_use(storage_of(checkpoint, spark)), err=True)
            raise
    for line in rescale_lines(result, checkpoint):
        typer.echo(line)


def state_in_use(files: Storage) -> str:
    """Return which state a query uses after a rescale that has failed."""
    from eventide.spark.query_record import read_record
    from eventide.spark.replacement import is_between

    if is_between(files):
        return "The new state is complete and in use. Run the command again, or start the query: both finish it."
    record = read_record(files)
    if record is None:
        return "Nothing was changed."
    place = PLACEMENTS[record.state] + (
        f", in {_buckets([operator.buckets for operator in record.operators])}" if record.state == "executors" else ""
    )
    return f"The query uses the state {place}."


def rescale_lines(result: RescaleResult, checkpoint: str) -> list[str]:
    """Return the lines that describe a rescale."""
    places = [
        f"on the executors in {_buckets(counts)}" if placement == "executors" else "in the driver"
        for placement, counts in ((result.before, result.buckets_before), (result.after, result.buckets))
    ]
    return [
        *(["An earlier call was interrupted after its state was complete. It was finished now."] * result.resumed),
        f"The state of {checkpoint} was {places[0]}, and is {places[1]} now: {result.bytes:,} bytes after batch "
        f"{result.batch}.",
        f"Start the query with state={result.after!r} (eventide run --state {result.after}).",
    ]


def _buckets(counts: Sequence[int]) -> str:
    """Return the numbers of buckets of all operators in words.

    >>> _buckets([1]), _buckets([8, 1])
    ('1 bucket', '8, 1 buckets')
    """
    return f"{', '.join(map(str, counts))} bucket{'' if list(counts) == [1] else 's'}"


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
