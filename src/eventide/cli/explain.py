"""``eventide explain``: a plan in words."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLES = """Examples:

eventide explain job.py

eventide explain pipeline.sql
"""


def explain(
    job: Annotated[str, typer.Argument(help="A Python file that defines a pipeline, or a file with SQL.")],
) -> None:
    """Show what a job does: windows, triggers, clocks, state, and what may be lost. Nothing is run."""
    from eventide.cli.jobs import load

    typer.echo(load(job).explain(), nl=False)
