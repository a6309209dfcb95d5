"""``eventide replay``: a stretch of the input once more, as a batch, and whether the sink's table says the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from eventide.cli import screen
from eventide.cli.failing import FAILED
from eventide.cli.run import Source
from eventide.cli.sessions import Conf, Cores, Master, Memory

if TYPE_CHECKING:
    from eventide.cli.comparing import Comparison

EXAMPLES = """Example:

eventide replay job.py --source parquet:/data --sink sqlite:///panes.db#panes --from 2026-03-01T12:00Z --to 2026-03-02

Windows that lie wholly in the stretch are compared. A batch has no late rows: a window that the table has without its
late rows differs, and that is told. Exit code 1: something differs.
"""
_MOST = 20


def replay(
    job: Annotated[str, typer.Argument(help="The job that fills the table.")],
    sink: Annotated[str, typer.Option(help="The table: sqlite:///FILE#TABLE or postgresql://…#TABLE.")],
    begin: Annotated[str, typer.Option("--from", help="Windows from this time on.")],
    end: Annotated[str, typer.Option("--to", help="Windows that end at this time or before.")],
    source: Source = None,
    margin: Annotated[
        str | None, typer.Option(help="How much input around the stretch is read. Default: as the windows need.")
    ] = None,
    most: Annotated[int, typer.Option(help="How many differences are shown.", min=1)] = _MOST,
    json: Annotated[bool, typer.Option("--json", help="A JSON object for each difference on stdout.")] = False,
    master: Master = None,
    cores: Cores = None,
    memory: Memory = None,
    conf: Conf = None,
) -> None:
    """Run a stretch of the input again as a batch, and compare it with the table of the sink."""
    from eventide.cli.addresses import read_address, read_sources
    from eventide.cli.jobs import load
    from eventide.cli.replaying import Stretch, check, replayed
    from eventide.cli.sessions import started
    from eventide.errors import cli as errors
    from eventide.time import duration, instant

    loaded, inputs, table = load(job), read_sources(source or []), read_address(sink, "sink")
    if table.kind not in ("sqlite", "postgresql"):
        raise errors.not_here(sink, "sink", ["sqlite", "postgresql"])
    start, stop = instant(begin, what="--from"), instant(end, what="--to")
    if stop <= start:
        raise errors.empty_stretch(begin, end)
    around = None if margin is None else duration(margin, what="--margin", zero=True)
    check(loaded, inputs, table)
    options = {"master": master, "cores": cores, "memory": memory, "conf": conf}
    with started("replay", folder=loaded.folder, quiet=json, **options) as spark:  # type: ignore[arg-type]
        with screen.busy("Computing the windows again …", quiet=json):
            found = replayed(spark, loaded, inputs, table, Stretch(start, stop, around))
        _tell(found, most, json=json)
    if found.differences:
        raise typer.Exit(FAILED)


def _tell(found: Comparison, most: int, *, json: bool) -> None:
    for one in found.differences[: None if json else most]:
        if json:
            screen.tell_json(one.as_json())
    if not json and found.differences:
        rows = [line for one in found.differences[:most] for line in one.lines()]
        screen.results().print(screen.table(*found.identity, "column", "table", "replay", rows=rows))
        if len(found.differences) > most:
            screen.results().print(f"and {len(found.differences) - most:,} more")
    screen.remarks().print(found.summary(), soft_wrap=True)
