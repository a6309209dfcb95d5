"""``eventide plot``: the picture of event time against processing time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """Examples:

eventide plot checkpoints/revenue                  (the watermark, and that of each slow origin)

eventide run job.py --trace revenue.jsonl && eventide plot revenue.jsonl --output revenue.html     (panes, too)
"""


def plot(
    history: Annotated[str, typer.Argument(help="A checkpoint of eventide run, or a file that --trace has written.")],
    output: Annotated[Path | None, typer.Option(help="Where to. Default: beside the trace, or eventide.html.")] = None,
    last: Annotated[int, typer.Option(help="How many batches, the newest ones.", min=1)] = 300,
    browser: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Draw event time against processing time, as an HTML page that stands alone."""
    from eventide.cli.drawing import page
    from eventide.cli.history import read

    given = Path(history)
    told = read(given)
    target = output or (given.with_suffix(".html") if given.is_file() else Path("eventide.html"))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(told, title=given.stem, last=last), encoding="utf-8")
    typer.echo(str(target))
    if browser:
        typer.launch(target.resolve().as_uri())
