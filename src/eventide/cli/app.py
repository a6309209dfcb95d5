"""All commands in the order of ``--help``, and the short ones: ``explain``, ``sql``, ``plot`` and ``demo``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from eventide import __version__
from eventide.cli import control, dashboard, doctor, inspect, marks, replay, run, state_commands
from eventide.cli.run import (
    ADDRESSES,
    Job,
    Limit,
    Source,
    SourcePosition,
    StateMemory,
    WholeRows,
    check_state_memory,
    read_outputs,
    reject_with_local,
)
from eventide.cli.shutdown import managed_java
from eventide.cli.spark_options import Conf, Cores, Master, Memory
from eventide.cli.terminal import CommandGroup, quiet_java, show_traces
from eventide.errors import PlanError

EXPLAIN_EXAMPLES = """Examples:

eventide explain job.py:revenue

eventide explain pipeline.sql
"""


def explain(job: Job) -> None:
    """Explain a job: windows, triggers, clocks, state, and what may be lost. Nothing runs."""
    from eventide.cli.jobs import load

    typer.echo(load(job).explain(), nl=False)


SQL_EXAMPLES = f"""Examples:

eventide sql "$(cat per_minute.sql)" orders=parquet:/data/orders

eventide sql --explain "SELECT shop, count(*) FROM TUMBLE(…) GROUP BY …"

{ADDRESSES}
The command reads all available rows, fires every open window, and prints late rows and dead letters. For a
continuous query, write the statement to a file:
eventide run query.sql
"""


def sql(
    statement: Annotated[str, typer.Argument(help="The SQL statement.")],
    source: Source = None,
    sink: Annotated[str, typer.Option(help="The sink of panes.")] = "console",
    limit: Limit = None,
    whole_rows: WholeRows = False,
    source_position: SourcePosition = False,
    state_memory: StateMemory = None,
    local: Annotated[
        bool,
        typer.Option("--local", help="Run in this process over existing files, without Spark and Java."),
    ] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show the plan and run nothing.")] = False,
    master: Master = None,
    cores: Cores = None,
    memory: Memory = None,
    conf: Conf = None,
) -> None:
    """Run a SQL statement over all available rows, and print its panes."""
    import tempfile

    from eventide._addresses import read_sources
    from eventide.cli.jobs import sql_job
    from eventide.cli.query_runner import RunRequest, check_request, run_request
    from eventide.cli.spark_options import open_session

    job = sql_job(statement)
    if explain:
        typer.echo(job.explain(), nl=False)
        return
    outputs, sources = read_outputs(sink, "console", "console", limit=limit), read_sources(source or [])
    if local:
        from eventide.cli.local_run import run_local

        reject_with_local(
            whole_rows=whole_rows or None, source_position=source_position or None, state_memory=state_memory
        )
        run_local(job, sources, outputs, limit=limit)
        return
    with tempfile.TemporaryDirectory(prefix="eventide-sql-") as place:
        request = RunRequest(
            job,
            sources,
            outputs,
            f"{place}/checkpoint",
            available_now=True,
            drain=True,
            limit=limit,
            state_memory=check_state_memory(state_memory),
            whole_rows=whole_rows,
            source_position=source_position,
        )
        check_request(request)
        with open_session("sql", master=master, cores=cores, memory=memory, conf=conf) as spark:
            run_request(request, spark)


PLOT_EXAMPLES = """Examples:

eventide plot checkpoints/revenue                  (the watermark, and that of each slow origin)

eventide run job.py --trace revenue.jsonl && eventide plot revenue.jsonl --output revenue.html     (panes, too)
"""


def plot(
    history: Annotated[str, typer.Argument(help="A checkpoint of eventide run, or a file of --trace.")],
    output: Annotated[
        Path | None, typer.Option(help="The HTML file. Default: next to the trace, or eventide.html.")
    ] = None,
    last: Annotated[int, typer.Option(help="The number of newest batches to draw.", min=1)] = 300,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Draw event time against processing time, as a self-contained HTML page."""
    from eventide.cli.history import history_page, read_history

    path = Path(history)
    target = output or (path.with_suffix(".html") if path.is_file() else Path("eventide.html"))
    text = history_page(read_history(path), title=path.stem, last=last)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    typer.echo(str(target))
    if browser:
        typer.launch(target.resolve().as_uri())


DEMO_EXAMPLES = """Examples:

eventide demo            (a live stream on Spark)

eventide demo --dashboard    (the same, longer, with a live page in the browser)

eventide demo story      (ten integers, in this process, without Spark)
"""


class Demo(StrEnum):
    """The demonstrations."""

    live = "live"
    story = "story"


def demo(
    show: Annotated[
        Demo, typer.Argument(help="live: a shop on Spark. story: ten integers, without Spark.")
    ] = Demo.live,
    picture: Annotated[Path, typer.Option(help="The HTML file of the picture.")] = Path("build") / "demo.html",
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Show the live stream on a page, and keep it open until Ctrl-C.")
    ] = False,
) -> None:
    """Show windows, watermarks, late rows and retractions in a demonstration."""
    from rich.console import Console

    from eventide.demo import __main__ as story
    from eventide.demo import live

    console = Console(highlight=False)
    if show is Demo.story:
        if dashboard:
            raise PlanError(
                "eventide demo story has no --dashboard: it runs without a query. Leave out one of the two."
            )
        story.main(console, picture)
    elif dashboard:
        from eventide.cli.dashboard import hold, watch_demo

        with managed_java(), quiet_java():
            live.main(console, picture, seconds=3 * live.SECONDS, watch=watch_demo, hold=hold)
    else:
        with managed_java(), quiet_java():
            live.main(console, picture)


app = typer.Typer(
    name="eventide",
    cls=CommandGroup,
    help="Event time for PySpark: run, inspect and control pipelines.",
    epilog="Start with: eventide doctor, then eventide demo. Each command has examples: eventide run --help",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
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
    ("sql", sql, SQL_EXAMPLES),
    ("explain", explain, EXPLAIN_EXAMPLES),
    ("inspect", inspect.inspect, inspect.INSPECT_EXAMPLES),
    ("drain", control.drain, control.EXAMPLES["drain"] + control.ABOUT),
    ("retire", control.retire, control.EXAMPLES["retire"] + control.ABOUT),
    ("skip-gap", control.skip_gap, control.EXAMPLES["skip-gap"] + control.ABOUT),
    ("advance-watermark", control.advance_watermark, control.EXAMPLES["advance-watermark"] + control.ABOUT),
    ("end", control.end, control.EXAMPLES["end"] + control.ABOUT),
    ("repair", state_commands.repair, state_commands.REPAIR_EXAMPLES),
    ("rescale", state_commands.rescale, state_commands.RESCALE_EXAMPLES),
    ("outputs", inspect.outputs, inspect.OUTPUTS_EXAMPLES),
    ("replay", replay.replay, replay.EXAMPLES),
    ("dashboard", dashboard.dashboard, dashboard.EXAMPLES),
    ("plot", plot, PLOT_EXAMPLES),
    ("doctor", doctor.doctor, doctor.EXAMPLES),
    ("demo", demo, DEMO_EXAMPLES),
):
    app.command(name, epilog=epilog)(command)
app.add_typer(marks.app, name="marks")
