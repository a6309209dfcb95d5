"""``eventide replay``: compares the table of a sink with the same windows, computed again as a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from eventide.cli import terminal as screen
from eventide.cli.run import Job, Source
from eventide.cli.spark_options import Conf, Cores, Master, Memory
from eventide.cli.terminal import FAILED
from eventide.errors import PlanError

if TYPE_CHECKING:
    from eventide.cli.comparison import Comparison

EXAMPLES = """Example:

eventide replay job.py:revenue parquet:/data --sink sqlite:///panes.db#panes --from 2026-03-01T12:00Z --to 2026-03-02

Windows that are completely in the range are compared. A batch has no late rows, so a window whose late rows are
missing in the table differs. Exit code 1: something differs.
"""
_LIMIT = 20


def replay(
    job: Job,
    sink: Annotated[str, typer.Option(help="The table: sqlite:///FILE#TABLE or postgresql://…#TABLE.")],
    begin: Annotated[str, typer.Option("--from", help="The start of the range.")],
    end: Annotated[str, typer.Option("--to", help="The end of the range.")],
    source: Source = None,
    margin: Annotated[
        str | None, typer.Option(help="How much input around the range is read. Default: as the windows need.")
    ] = None,
    limit: Annotated[int, typer.Option(help="The number of differences to show.", min=1)] = _LIMIT,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each difference on stdout.")] = False,
    master: Master = None,
    cores: Cores = None,
    memory: Memory = None,
    conf: Conf = None,
) -> None:
    """Compute a range of event time again as a batch, and compare it with the table of the sink."""
    from eventide._addresses import TABLES, not_here, read_address, read_sources
    from eventide.cli.comparison import TimeRange, check_comparison, replay_windows
    from eventide.cli.jobs import load
    from eventide.cli.spark_options import open_session
    from eventide.time import duration, instant

    loaded, inputs, table = load(job), read_sources(source or []), read_address(sink, "sink")
    if table.kind not in TABLES:
        raise not_here(sink, "sink", TABLES)
    start, stop = instant(begin, what="--from"), instant(end, what="--to")
    if stop <= start:
        raise PlanError(f"--from {begin} --to {end}: the end must be after the start.")
    around = None if margin is None else duration(margin, what="--margin", zero=True)
    check_comparison(loaded, inputs, table)
    session = open_session(
        "replay", folder=loaded.folder, quiet=json, master=master, cores=cores, memory=memory, conf=conf
    )
    with session as spark:
        with screen.busy("Computing the windows again …", quiet=json):
            comparison = replay_windows(spark, loaded, inputs, table, TimeRange(start, stop, around))
        _print(comparison, limit, json=json)
    if comparison.differences:
        raise typer.Exit(FAILED)


def _print(comparison: Comparison, limit: int, *, json: bool) -> None:
    if json:
        for difference in comparison.differences:
            screen.print_json(difference.as_json())
    elif comparison.differences:
        rows = [line for difference in comparison.differences[:limit] for line in difference.lines()]
        screen.stdout_console().print(screen.table(*comparison.identity, "column", "table", "replay", rows=rows))
        if len(comparison.differences) > limit:
            screen.stdout_console().print(f"and {len(comparison.differences) - limit:,} more")
    screen.stderr_console().print(comparison.summary(), soft_wrap=True)
