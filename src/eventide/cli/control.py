"""``eventide control``: commands to a query, running or stopped."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from eventide.cli.sessions import Conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = """Examples:

eventide control checkpoints/revenue drain

eventide control checkpoints/revenue retire till-west

eventide control checkpoints/revenue skip till-west --up-to 41

eventide control checkpoints/revenue note 2026-03-01T12:00:00Z --timeout 5m

eventide control checkpoints/revenue note 2026-03-01T12:00:00Z --key clicks

eventide control checkpoints/revenue end returns

eventide control checkpoints/revenue drain --no-wait

eventide control hdfs://names/checkpoints/revenue drain

A command is a small file next to the checkpoint. The query applies it in its next batch, exactly once. A stopped query
applies it when it starts again. For a checkpoint that is not on this machine, Spark is started.
Exit codes: 0 applied or sent, 1 not applied within --timeout, 2 a mistake.
"""


class Action(StrEnum):
    """The commands."""

    drain = "drain"
    skip = "skip"
    retire = "retire"
    note = "note"
    end = "end"


def control(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint of the query.")],
    action: Annotated[
        Action,
        typer.Argument(
            help="drain: end the stream. skip: do not wait for missing sequence numbers of an origin. retire: do not "
            "wait for an origin or an input. note: raise the watermark. end: no rows follow on an input."
        ),
    ],
    value: Annotated[
        str | None,
        typer.Argument(
            help="The origin (for skip none, if the watermark has no origins); for note the time; for end the input."
        ),
    ] = None,
    up_to: Annotated[
        int | None, typer.Option(help="For skip: the last number to skip. Default: the first gap.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="For note: the input, or the watermark key, that the watermark is for.")
    ] = None,
    wait: Annotated[
        bool,
        typer.Option("--wait/--no-wait", help="Wait for the batch that applies the command; report its effect."),
    ] = True,
    timeout: Annotated[str, typer.Option(help="How long to wait.")] = "1 minute",
    conf: Conf = None,
) -> None:
    """Tell a query to drain, to stop waiting for something, or to raise its watermark; report the effect."""
    from eventide.cli.command_wait import report_effect
    from eventide.errors import cli as errors
    from eventide.spark.control import Control
    from eventide.time import duration

    patience = duration(timeout, what="--timeout", zero=True) / 1e6
    with _session(checkpoint, conf) as spark:
        target = Control(checkpoint, spark)
        if not target.is_open:
            raise errors.no_checkpoint(checkpoint)
        command = send(target, action, value, up_to, key)
        if wait:
            report_effect(target, command, patience)
        else:
            typer.echo("Sent. The query applies the command in its next batch.", err=True)


def _session(checkpoint: str, conf: list[str] | None) -> AbstractContextManager[SparkSession | None]:
    """Return the session that reaches a checkpoint; a checkpoint on this machine needs none."""
    from eventide.cli.sessions import started
    from eventide.spark.addresses import on_disk

    return nullcontext() if on_disk(checkpoint) is not None else started("control", conf=conf)


def send(target: object, action: Action, value: str | None, up_to: int | None = None, key: str | None = None) -> str:
    """Send a command, and return its id. A command that cannot be meant is rejected."""
    from eventide.errors import cli as errors
    from eventide.spark.control import Control
    from eventide.time import instant

    assert isinstance(target, Control)
    if up_to is not None and action is not Action.skip:
        raise errors.only_for(action.value, "--up-to", "skip")
    if key is not None and action is not Action.note:
        raise errors.only_for(action.value, "--key", "note")
    if action is Action.drain:
        if value is not None:
            raise errors.takes_nothing(action.value, value)
        return target.drain()
    if action is Action.skip:
        return target.skip_gap(value, up_to=up_to)
    if action is Action.end:
        return target.end(value)
    if value is None:
        needed = ("an origin", "till-west") if action is Action.retire else ("a time", "2026-03-01T12:00Z")
        raise errors.needs_value(action.value, *needed)
    if action is Action.retire:
        return target.retire(value)
    to = int(key) if key is not None and key.isdecimal() else key
    return target.note(instant(value, what="note"), key=to)
