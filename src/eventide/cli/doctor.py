"""``eventide doctor``: whether this machine can run queries, and what to do if not."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from eventide.cli import screen
from eventide.cli.failing import FAILED
from eventide.cli.java import own_java

if TYPE_CHECKING:
    from eventide.cli.checks import Check

EXAMPLES = """Examples:

eventide doctor

eventide doctor --start      (also starts Spark and runs a small query)

eventide doctor --json
"""
_STYLES = {"ok": "green", "note": "yellow", "problem": "red"}


def doctor(
    start: Annotated[bool, typer.Option("--start", help="Start Spark, and run a small query on it.")] = False,
    json: Annotated[bool, typer.Option("--json", help="A JSON object for each check on stdout.")] = False,
) -> None:
    """Check Java, Spark, packages, settings and disk, and say what to do. Exit code 1: there is a problem."""
    from eventide.cli.checks import on_spark, without_spark

    found = without_spark()
    ready = all(one.state != "problem" for one in found)
    if start and ready:
        with screen.busy("Starting Spark …", quiet=json), own_java(), screen.quiet_java():
            found.append(on_spark())
    if json:
        for one in found:
            screen.tell_json(asdict(one))
    else:
        _show(found)
    if any(one.state == "problem" for one in found):
        raise typer.Exit(FAILED)


def _show(found: list[Check]) -> None:
    from rich.text import Text

    console = screen.results()
    rows = [(Text(one.state, _STYLES[one.state]), one.name, one.found) for one in found]
    console.print(screen.table("", "check", "found", rows=rows))
    todo = [one for one in found if one.fix]
    for one in todo:
        console.print(Text.assemble((f"{one.name}: ", "bold"), one.fix))
    if not todo:
        console.print("No problems found. Try: eventide demo")
