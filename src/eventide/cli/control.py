"""``eventide drain``, ``retire``, ``skip-gap``, ``advance-watermark``, ``end``: commands to a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from eventide.cli.spark_options import Conf, no_checkpoint, session_for
from eventide.cli.terminal import FAILED

if TYPE_CHECKING:
    from eventide.spark.control import Control
    from eventide.spark.metrics import BatchMetrics, CommandEffect


_STOPPED = "Sent. The query is not running: it applies the command when it starts again."


def report_effect(control: Control, command: str, timeout: float) -> None:
    """Print the effect of a command once a batch has applied it; wait at most ``timeout`` seconds."""
    batch = control.wait(command, timeout)
    if batch is not None:
        effect = next(effect for effect in batch.commands if effect.id == command)
        typer.echo(effect_text(effect, batch), err=True)
    elif control.is_running is not False:
        typer.echo(
            f"Sent, but no batch has applied the command within {timeout:g} s. The query applies it in its next batch.",
            err=True,
        )
        raise typer.Exit(FAILED)
    else:
        typer.echo(_STOPPED, err=True)


def effect_text(effect: CommandEffect, batch: BatchMetrics) -> str:
    """Return the effect of a command as text.

    >>> from eventide.spark.metrics import CommandEffect
    >>> from eventide.spark.metrics import BatchMetrics
    >>> from eventide.time import as_datetime
    >>> time = as_datetime(1_000_000)
    >>> batch = BatchMetrics(batch=7, depth=0, at=time, previous_watermark=time, watermark=time)
    >>> print(effect_text(CommandEffect("1", "retire", "till-west"), batch))
    Applied in batch 7: retire till-west. The watermark did not move: it is 1970-01-01T00:00:01Z. Emitted: no panes.
    """
    from eventide.metrics import emitted_text, instant_text

    name = " ".join(filter(None, (effect.action, effect.origin)))
    before, after = batch.previous_watermark, batch.watermark
    start = instant_text(before)
    if batch.drained:
        moved = f"The stream is drained; the watermark was {start} before."
    elif before == after:
        moved = f"The watermark did not move: it is {start}."
    else:
        moved = f"The watermark moved from {start} to {instant_text(after)}."
    return f"Applied in batch {batch.batch}: {name}. {moved} Emitted: {emitted_text(batch)}."


ABOUT = """A command is a small file next to the checkpoint. The query applies it in its next batch, exactly once. A
stopped query applies it when it starts again. For a checkpoint that is not on this machine, Spark is started.
Exit codes: 0 applied or sent, 1 not applied within --timeout, 2 a mistake.
"""
EXAMPLES = {
    "drain": """Examples:

eventide drain checkpoints/revenue

eventide drain hdfs://names/checkpoints/revenue --no-wait
""",
    "retire": """Example:

eventide retire checkpoints/revenue till-west
""",
    "skip-gap": """Examples:

eventide skip-gap checkpoints/revenue till-west --up-to 41

eventide skip-gap checkpoints/revenue
""",
    "advance-watermark": """Examples:

eventide advance-watermark checkpoints/revenue 2026-03-01T12:00:00Z --timeout 5m

eventide advance-watermark checkpoints/revenue 2026-03-01T12:00:00Z --key clicks
""",
    "end": """Example:

eventide end checkpoints/revenue returns
""",
}

Checkpoint = Annotated[str, typer.Argument(help="The checkpoint of the query.")]
Wait = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Wait for the batch that applies the command, and report its effect.")
]
Timeout = Annotated[str, typer.Option(help="The longest wait, such as 5m.")]
_MINUTE = "1 minute"


def drain(checkpoint: Checkpoint, wait: Wait = True, timeout: Timeout = _MINUTE, conf: Conf = None) -> None:
    """End the stream of a query: every open window fires and closes."""
    _send(checkpoint, lambda control: control.drain(), wait, timeout, conf)


def retire(
    checkpoint: Checkpoint,
    origin: Annotated[str, typer.Argument(help="The origin, or the input, by the name that inspect shows.")],
    wait: Wait = True,
    timeout: Timeout = _MINUTE,
    conf: Conf = None,
) -> None:
    """Stop waiting for an origin or an input that will not return."""
    _send(checkpoint, lambda control: control.retire(origin), wait, timeout, conf)


def skip_gap(
    checkpoint: Checkpoint,
    origin: Annotated[str | None, typer.Argument(help="The origin; omit it if the watermark has no origins.")] = None,
    up_to: Annotated[int | None, typer.Option(help="The last number to skip. Default: the first gap.")] = None,
    wait: Wait = True,
    timeout: Timeout = _MINUTE,
    conf: Conf = None,
) -> None:
    """Stop waiting for missing sequence numbers of an origin."""
    _send(checkpoint, lambda control: control.skip_gap(origin, up_to=up_to), wait, timeout, conf)


def advance_watermark(
    checkpoint: Checkpoint,
    time: Annotated[str, typer.Argument(help="No event before this time is expected, such as 2026-03-01T12:00Z.")],
    key: Annotated[str | None, typer.Option(help="The input, or the watermark key, that the watermark is for.")] = None,
    wait: Wait = True,
    timeout: Timeout = _MINUTE,
    conf: Conf = None,
) -> None:
    """Raise the watermark of a query."""
    from eventide.errors import PlanError
    from eventide.time import instant

    try:
        watermark = instant(time, what="TIME")
    except PlanError:
        raise PlanError(f"{time!r} is not an instant. Write it with its day, such as 2026-03-01T12:00Z.") from None
    number_or_name = int(key) if key is not None and key.isdecimal() else key
    _send(checkpoint, lambda control: control.advance_watermark(watermark, key=number_or_name), wait, timeout, conf)


def end(
    checkpoint: Checkpoint,
    input: Annotated[str | None, typer.Argument(help="The input, by its name among several.")] = None,
    wait: Wait = True,
    timeout: Timeout = _MINUTE,
    conf: Conf = None,
) -> None:
    """End an input of a query: no rows follow on it, and the watermark ignores it."""
    _send(checkpoint, lambda control: control.end(input), wait, timeout, conf)


def _send(checkpoint: str, send: Callable[[Control], str], wait: bool, timeout: str, conf: list[str] | None) -> None:
    from eventide.spark.control import Control
    from eventide.time import duration

    seconds = duration(timeout, what="--timeout", zero=True) / 1e6
    with session_for(checkpoint, "control", conf=conf) as spark:
        control = Control(checkpoint, spark)
        if not control.is_open:
            raise no_checkpoint(checkpoint)
        command = send(control)
        if wait:
            report_effect(control, command, seconds)
        else:
            typer.echo("Sent. The query applies the command in its next batch.", err=True)
