"""All commands, in the order in which ``--help`` shows them."""

from __future__ import annotations

from typing import Annotated

import typer

from eventide import __version__
from eventide.cli import (
    control,
    demo,
    doctor,
    explain,
    inspect,
    marks,
    move,
    outputs,
    plot,
    repair,
    replay,
    run,
    sql,
)
from eventide.cli.failing import Commands, show_traces

app = typer.Typer(
    name="eventide",
    cls=Commands,
    help="Event time for PySpark: run pipelines, look into them, and speak to them.",
    epilog="Begin with: eventide doctor, then eventide demo. Each command has examples: eventide run --help",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"eventide {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[
        bool, typer.Option("--debug", envvar="EVENTIDE_DEBUG", help="Show the stack trace of an error.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    show_traces(debug)


for name, command, epilog in (
    ("run", run.run, run.EXAMPLES),
    ("sql", sql.sql, sql.EXAMPLES),
    ("explain", explain.explain, explain.EXAMPLES),
    ("inspect", inspect.inspect, inspect.EXAMPLES),
    ("control", control.control, control.EXAMPLES),
    ("repair", repair.repair, repair.EXAMPLES),
    ("move", move.move, move.EXAMPLES),
    ("outputs", outputs.outputs, outputs.EXAMPLES),
    ("replay", replay.replay, replay.EXAMPLES),
    ("plot", plot.plot, plot.EXAMPLES),
    ("doctor", doctor.doctor, doctor.EXAMPLES),
    ("demo", demo.demo, demo.EXAMPLES),
):
    app.command(name, epilog=epilog)(command)
app.add_typer(marks.app, name="marks")
