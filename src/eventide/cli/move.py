"""``eventide move``: the state of a stopped query moves between the driver and the executors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from eventide.cli import screen
from eventide.cli.sessions import Conf, Memory

if TYPE_CHECKING:
    from eventide.spark.move import Moved
    from eventide.spark.query_record import Placement
    from eventide.spark.storage import LocalStorage

EXAMPLES = """Examples:

eventide move checkpoints/revenue --to executors --buckets 8

eventide move checkpoints/revenue --to driver

Offsets, batch ids and sinks stay. The old state is in use until the new one is complete. Start the query with the new
placement afterwards: eventide run job.py --state executors
"""


def move(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint of a stopped query.")],
    to: Annotated[str, typer.Option(help="Where the state moves: driver or executors.")],
    buckets: Annotated[
        int | None, typer.Option(help="Into how many buckets the state is divided on the executors.", min=1)
    ] = None,
    memory: Memory = None,
    conf: Conf = None,
) -> None:
    """Move the state of a stopped query between the driver and the executors."""
    from eventide.cli.sessions import started
    from eventide.errors import cli as errors
    from eventide.errors import spark as spark_errors
    from eventide.errors import state as state_errors
    from eventide.spark.addresses import on_disk
    from eventide.spark.move import move as move_state
    from eventide.spark.query_record import placement_of

    if to not in ("driver", "executors"):
        raise spark_errors.unknown_placement(to)
    if (buckets is None) == (to == "executors"):
        raise state_errors.move_buckets(to)
    local = on_disk(checkpoint)
    if local is not None and not (Path(local) / "eventide").is_dir():
        raise errors.no_checkpoint(checkpoint)
    try:
        with started("move", memory=memory, conf=conf) as spark, screen.busy("Moving the state …"):
            moved = move_state(checkpoint, to=cast("Placement", to), buckets=buckets, spark=spark)
    except BaseException:
        if local is not None and (placement := placement_of(LocalStorage(local))) is not None:
            typer.echo(f"The state that is in use is that of the {placement}.", err=True)
        raise
    for line in lines(moved, checkpoint):
        typer.echo(line)


def lines(moved: Moved, checkpoint: str) -> list[str]:
    """Return what the command prints of a move."""
    counts = ", ".join(map(str, moved.buckets))
    divided = f" in {counts} bucket{'s' if counts != '1' else ''}" if moved.after == "executors" else ""
    return [
        f"The state of {checkpoint} moved from the {moved.before} to the {moved.after}: "
        f"{moved.bytes:,} bytes after batch {moved.batch}{divided}.",
        f"Start the query with state={moved.after!r} (eventide run --state {moved.after}).",
    ]
