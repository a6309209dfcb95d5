"""Run the demo: ``python -m eventide.demo`` on Spark, ``python -m eventide.demo story`` in this process."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from eventide.panes import DIFF
from eventide.testing.errors import missing_package

try:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
except ImportError:  # pragma: no cover - the extra is installed wherever tests run
    raise SystemExit(str(missing_package("The demo's tables", "rich", "demo"))) from None

from eventide.demo import live
from eventide.demo.story import STORY, TRUTH, Chapter, add_step, chapters, emitted, final, play
from eventide.testing import TestStream
from eventide.testing.chart_page import pictures
from eventide.testing.chart_timeline import Facet

_SECONDS = 4.5  # for the whole demo, on a terminal
_TALLEST = 32  # lines of the tallest table
_PICTURE = Path("build") / "demo.html"
_TITLE = "Ten integers, and what becomes of them"
_INTRO = (
    "Ten scores arrive out of order; two-minute windows (then sessions) sum them. The watermark is a guess that "
    "is too fast for the 9. Each window is emitted early every minute, once on time, and again for each late row."
)


def main(console: Console | None = None, picture: Path = _PICTURE) -> None:
    """Show the four chapters, then write the picture."""
    console = console or Console(highlight=False)
    watched = console.is_terminal and os.environ.get("CI", "").lower() not in ("1", "true")
    pipelines = chapters()
    pause = _SECONDS / (len(pipelines) * len(STORY)) if watched else 0.0
    console.print(f"[bold]{_TITLE}[/bold]\n{_INTRO}\n")
    facets = []
    for chapter in pipelines:
        stream = _show(console, chapter, pause)
        facets.append(Facet(chapter.title, stream.timeline(), chapter.look))
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(pictures(facets, title=_TITLE, text=_INTRO), encoding="utf-8")
    console.print(f"The picture of it: {picture}", soft_wrap=True)


def _show(console: Console, chapter: Chapter, pause: float) -> TestStream:
    console.rule(f"[bold]{chapter.title}", align="left", style="dim")
    console.print(chapter.look)
    table = emitted()
    if pause and console.height > _TALLEST:  # a live table that does not fit would be drawn again and again
        with Live(table, console=console, refresh_per_second=20):
            stream = _play(chapter, table, pause)
    else:
        stream = _play(chapter, table, 0.0)
        console.print(table)
    _sum_up(console, chapter, stream)
    return stream


def _play(chapter: Chapter, table: Table, pause: float) -> TestStream:
    seen = 0
    for step, stream in play(chapter):
        panes = stream.panes
        add_step(table, step, stream, panes[seen:])
        seen = panes.height
        time.sleep(pause)
    return stream


def _sum_up(console: Console, chapter: Chapter, stream: TestStream) -> None:
    panes, counts = stream.panes, stream.counts
    added_up = (panes["total"] * panes[DIFF]).sum()
    truth = f"which is the sum of the ten, {TRUTH}" if added_up == TRUTH else f"but the sum of the ten is {TRUTH}"
    console.print("The last pane of each window:" if chapter.last_counts else "All rows, added up by diff:")
    console.print(final(chapter, panes))
    console.print(f"All rows times their diff are {added_up}, {truth}.")
    dead = ", ".join(f"{count} {reason}" for reason, count in counts.dead.items())
    console.print(
        f"{counts.rows} rows = {counts.kept} in windows ({counts.refined} of them late) + {counts.late} too late "
        f"+ {sum(counts.dead.values())} dead ({dead}).\n"
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["story"]:
        main()
    else:
        live.main(Console(highlight=False), _PICTURE)
