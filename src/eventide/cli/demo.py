"""``eventide demo``: the demonstration."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from eventide.cli.java import own_java
from eventide.cli.screen import quiet_java

EXAMPLES = """Examples:

eventide demo            (a live stream on Spark)

eventide demo story      (ten integers, in this process, without Spark)
"""


class Show(StrEnum):
    """What there is to see."""

    live = "live"
    story = "story"


def demo(
    show: Annotated[
        Show, typer.Argument(help="live: a shop on Spark. story: ten integers, without Spark.")
    ] = Show.live,
    picture: Annotated[Path, typer.Option(help="Where the picture of it is written.")] = Path("build") / "demo.html",
) -> None:
    """Watch windows, watermarks, late rows and retractions at work."""
    from rich.console import Console

    from eventide.demo import __main__ as story
    from eventide.demo import live

    console = Console(highlight=False)
    if show is Show.story:
        story.main(console, picture)
    else:
        with own_java(), quiet_java():
            live.main(console, picture)
