"""Waits for the batch that applies a command, and reports what the command did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from eventide.cli.failing import FAILED
from eventide.spark.batch_report import emitted_text, instant_text

if TYPE_CHECKING:
    from eventide.spark.command_effects import CommandEffect
    from eventide.spark.control import Control
    from eventide.spark.metrics import BatchMetrics

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
    """Return what the batch that applied a command did.

    >>> from eventide.spark.command_effects import CommandEffect
    >>> from eventide.spark.metrics import BatchMetrics
    >>> batch = BatchMetrics(batch=7, depth=0, at=0, previous_watermark=1_000_000, watermark=1_000_000)
    >>> print(effect_text(CommandEffect("1", "retire", "till-west"), batch))
    Applied in batch 7: retire till-west. The watermark did not move: it is 1970-01-01T00:00:01Z. Emitted: no panes.
    """
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
