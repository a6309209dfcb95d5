"""``eventide control``: commands to a query, running or stopped."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """Examples:

eventide control checkpoints/revenue drain

eventide control checkpoints/revenue retire till-west

eventide control checkpoints/revenue skip till-west --up-to 41

eventide control checkpoints/revenue note 2026-03-01T12:00:00Z

A command is a small file beside the checkpoint. The query obeys it in its next batch, exactly once; one that is stopped
obeys when it starts again.
"""


class Action(StrEnum):
    """What a query can be told."""

    drain = "drain"
    skip = "skip"
    retire = "retire"
    note = "note"


def control(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint of the query.")],
    action: Annotated[
        Action,
        typer.Argument(
            help="drain: end the stream. skip: do not wait for missing numbers of an origin. retire: do not wait for "
            "an origin. note: raise the watermark."
        ),
    ],
    value: Annotated[
        str | None,
        typer.Argument(help="The origin (for skip none, if the watermark has no origins), or for note the watermark."),
    ] = None,
    up_to: Annotated[
        int | None, typer.Option(help="For skip: the last number that is not waited for. Default: the first gap.")
    ] = None,
) -> None:
    """Tell a query to drain, to stop waiting for something, or to raise its watermark."""
    from eventide.errors import cli as errors
    from eventide.spark.control import Control, on_disk
    from eventide.time import instant

    local = on_disk(checkpoint)
    if local is not None and not (Path(local) / "eventide" / "control").is_dir():
        raise errors.no_checkpoint(checkpoint)
    if up_to is not None and action is not Action.skip:
        raise errors.only_for_skip(action.value)
    spoken = Control(checkpoint)
    if action is Action.drain:
        if value is not None:
            raise errors.takes_nothing(action.value, value)
        spoken.drain()
    elif action is Action.skip:
        spoken.skip_gap(value, up_to=up_to)
    elif value is None:
        needed = ("an origin", "till-west") if action is Action.retire else ("a time", "2026-03-01T12:00Z")
        raise errors.needs_value(action.value, *needed)
    elif action is Action.retire:
        spoken.retire(value)
    else:
        spoken.note(instant(value, what="note"))
    typer.echo("Sent. The query obeys in its next batch.", err=True)
