"""What is shown where: results on stdout, everything about them on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def results() -> Console:
    """For what was asked for."""
    from rich.console import Console

    class Results(Console):
        def on_broken_pipe(self) -> None:
            raise  # rich calls it while it handles the error, and would end the program with code 1

    return Results(highlight=False, soft_wrap=True)


def remarks() -> Console:
    """For progress and remarks."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


@contextmanager
def busy(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Say that something takes a while: a spinner on a terminal, a line elsewhere."""
    console = remarks()
    if quiet:
        yield
    elif console.is_terminal:
        with console.status(what):
            yield
    else:
        console.print(what, style="dim")
        yield


@contextmanager
def quiet_java() -> Iterator[None]:
    """A Java that is started meanwhile writes its remarks to a file: what matters of them, exceptions tell as well.

    The file is named when something fails, and with ``--debug`` there is none: all is shown.
    """
    from eventide.cli import failing

    if failing.traces():
        yield
        return
    log = failing.spark_log()
    sys.stderr.flush()
    own = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)


def tell_json(value: Any) -> None:
    """A line of JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False, default=str))


def table(*columns: str, rows: Sequence[Sequence[Any]], title: str | None = None) -> Table:
    """A plain table; numbers are on the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title=title, title_justify="left")
    for place, name in enumerate(columns):
        numbers = all(isinstance(row[place], int | float) for row in rows) and bool(rows)
        shown.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(cell if isinstance(cell, Text) else Text(_cell(cell)) for cell in row))
    return shown


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
