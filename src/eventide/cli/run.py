"""``eventide run``: a query with all of its outputs."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventide.cli.spark_options import Conf, Cores, Master, Memory
from eventide.errors import PlanError

if TYPE_CHECKING:
    from eventide._addresses import Address, End

ADDRESSES = """Sources and sinks are addresses, with options behind a question mark (csv:/data/in?header=true):

PATH/  PATH.parquet|json|csv|orc  parquet:PATH  json:PATH  csv:PATH  orc:PATH     files, as a source or a sink

kafka:TOPIC@HOST:PORT  eventide:STORE#STREAM     a topic, or a stream of marks, as a source or a sink

sqlite:///FILE#TABLE  postgresql://USER@HOST/DATABASE#TABLE  delta:PATH  iceberg:NAMESPACE.TABLE     sinks only

console  noop     sinks only; rate:ROWS_PER_SECOND     a source only, for tests
"""
EXAMPLES = f"""Examples:

eventide run job.py:revenue

eventide run job.py:revenue data/orders/ --local

eventide run job.py:revenue parquet:/data/orders --drain

eventide run shop.jobs:revenue --sink postgresql://me@db/shop#revenue --interval "10 seconds"

eventide run job.py:revenue 'kafka:orders@broker:9092?schema=ts timestamp'

eventide run query.sql left=parquet:/a right=parquet:/b

eventide run job.py:revenue --sink noop --json | jq .watermark

The job is a Python file or module and the name of its pipeline, or a SQL file. A file may define rows(spark).

{ADDRESSES}
Exit codes: 0 the query ended, 1 it failed, 2 a mistake in the command or the job, 130 stopped by Ctrl-C.
"""

_OUTPUTS = "Outputs"
_BATCHES = "Batches"
_STATE = "State"
Job = Annotated[
    str,
    typer.Argument(help="FILE.py:NAME or MODULE:NAME of a pipeline, or a SQL file. NAME is optional for one pipeline."),
]
Source = Annotated[
    list[str] | None,
    typer.Argument(help="The source: an address, or INPUT=ADDRESS for each of several inputs."),
]
StateMemory = Annotated[
    str | None,
    typer.Option(
        help="Memory for state in the driver, such as 2g. Default: 40 % of what the process may use.",
        rich_help_panel=_STATE,
    ),
]
WholeRows = Annotated[
    bool,
    typer.Option(
        "--whole-rows",
        help="Late rows and dead letters have all columns of the source, not only those that are read.",
        rich_help_panel=_OUTPUTS,
    ),
]
SourcePosition = Annotated[
    bool,
    typer.Option(
        "--source-position",
        help="Late rows and dead letters have their file and row, or topic, partition and offset.",
        rich_help_panel=_OUTPUTS,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(help="Rows of each batch that the console prints. Default: 20.", min=1, rich_help_panel=_OUTPUTS),
]


class StatePlacement(StrEnum):
    """The placement of state."""

    driver = "driver"
    executors = "executors"


class OnMissingFile(StrEnum):
    """What to do if a source file of an interrupted batch was deleted."""

    fail = "fail"
    skip = "skip"


def run(
    job: Job,
    source: Source = None,
    sink: Annotated[str | None, typer.Option(help="Sink of panes. Default: console.", rich_help_panel=_OUTPUTS)] = None,
    late: Annotated[
        str | None,
        typer.Option(help="Sink of late rows. Default: files in the checkpoint.", rich_help_panel=_OUTPUTS),
    ] = None,
    dead: Annotated[
        str | None,
        typer.Option(help="Sink of dead letters. Default: files in the checkpoint.", rich_help_panel=_OUTPUTS),
    ] = None,
    limit: Limit = None,
    whole_rows: WholeRows = False,
    source_position: SourcePosition = False,
    interval: Annotated[
        str | None,
        typer.Option(help='Time between batches, such as "10 seconds". Default: none.', rich_help_panel=_BATCHES),
    ] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process the available rows, then stop.", rich_help_panel=_BATCHES)
    ] = False,
    drain: Annotated[
        bool,
        typer.Option(
            "--drain",
            help="Process the available rows, fire all open windows, and end the stream and its checkpoint.",
            rich_help_panel=_BATCHES,
        ),
    ] = False,
    trigger: Annotated[str | None, typer.Option(hidden=True)] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="The checkpoint directory. Default: checkpoints/JOB.", rich_help_panel=_STATE),
    ] = None,
    state: Annotated[
        StatePlacement | None,
        typer.Option(
            help="The placement of state: driver (default), or executors for state beyond one machine.",
            rich_help_panel=_STATE,
        ),
    ] = None,
    state_memory: StateMemory = None,
    storage: Annotated[
        str | None,
        typer.Option(
            help="A store for commit records, such as s3://shop/records. Default: the checkpoint.",
            rich_help_panel=_STATE,
        ),
    ] = None,
    single_writer: Annotated[
        bool,
        typer.Option(
            "--single-writer",
            help="Accept a store that cannot reject a second writer: you ensure that only one driver runs.",
            rich_help_panel=_STATE,
        ),
    ] = False,
    on_missing_file: Annotated[
        OnMissingFile | None,
        typer.Option(
            help="If a source file of an interrupted batch was deleted: fail (default) or skip.",
            rich_help_panel=_STATE,
        ),
    ] = None,
    local: Annotated[
        bool,
        typer.Option("--local", help="Run in this process over existing files, without Spark and Java."),
    ] = False,
    trace: Annotated[
        Path | None, typer.Option(help="A file for batches and the windows of panes, for eventide plot.")
    ] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Serve a live page about the query, and print its URL.")
    ] = False,
    dashboard_port: Annotated[
        int | None,
        typer.Option(
            help="The port of --dashboard, so that the page outlives a restart. Default: a free port.",
            min=0,
            max=65535,
        ),
    ] = None,
    dashboard_token: Annotated[
        str | None,
        typer.Option(help="The token of --dashboard. Default: a random token.", envvar="EVENTIDE_DASHBOARD_TOKEN"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each batch on stdout.")] = False,
    master: Master = None,
    cores: Cores = None,
    memory: Memory = None,
    conf: Conf = None,
) -> None:
    """Run a pipeline and show its progress."""
    from eventide._addresses import read_sources
    from eventide.cli.jobs import load

    if trigger is not None:
        word = re.sub("[-_ ]", "", trigger).lower()  # as spark-submit and SQL write it
        instead = "--available-now" if word in ("availablenow", "once") else f"--interval {trigger!r}"
        raise PlanError(f"There is no --trigger: write {instead}.")
    loaded, sources = load(job), read_sources(source or [])
    outputs = read_outputs(sink, late, dead, limit=limit, json=json)
    if local:
        reject_with_local(
            interval=interval,
            available_now=available_now or None,
            drain=drain or None,
            checkpoint=checkpoint,
            state=state,
            state_memory=state_memory,
            whole_rows=whole_rows or None,
            source_position=source_position or None,
            storage=storage,
            single_writer=single_writer or None,
            on_missing_file=on_missing_file,
            trace=trace,
            dashboard=dashboard or None,
            dashboard_port=dashboard_port,
            json=json or None,
            master=master,
            cores=cores,
            memory=memory,
            conf=conf or None,
        )
        from eventide.cli.local_run import run_local

        run_local(loaded, sources, outputs, limit=limit)
        return
    _check_records(state, storage=storage, single_writer=single_writer or None)
    from eventide.cli.query_runner import RunRequest, check_request, run_request
    from eventide.cli.spark_options import open_session

    request = RunRequest(
        job=loaded,
        sources=sources,
        outputs=outputs,
        checkpoint=checkpoint or f"checkpoints/{loaded.name}",
        interval=check_interval(interval, available_now=available_now, drain=drain),
        available_now=available_now or drain,
        drain=drain,
        json=json,
        trace=trace,
        limit=limit,
        state=(state or StatePlacement.driver).value,
        state_memory=check_state_memory(state_memory),
        whole_rows=whole_rows,
        source_position=source_position,
        single_writer=single_writer,
        storage=None if storage is None else open_storage(storage),
        on_missing_file=(on_missing_file or OnMissingFile.fail).value,
        dashboard=dashboard or dashboard_port is not None,
    )
    check_request(request)
    if request.dashboard:
        from eventide.cli.dashboard import open_for_run

        server = open_for_run(request.checkpoint, dashboard_port or 0, dashboard_token)
        typer.echo(f"Dashboard: {server.url}", err=True)
    session = open_session(
        loaded.name, folder=loaded.folder, quiet=json, master=master, cores=cores, memory=memory, conf=conf
    )
    with session as spark:
        run_request(request, spark)


def read_outputs(
    sink: str | None, late: str | None, dead: str | None, *, limit: int | None = None, json: bool = False
) -> dict[str, Address]:
    """Return the addresses of the outputs. Panes go to the console unless ``--json`` prints there."""
    from eventide._addresses import read_address

    named: dict[End, str | None] = {"sink": sink or "console", "late": late, "dead": dead}
    outputs: dict[str, Address] = {end: read_address(text, end) for end, text in named.items() if text}
    printed = [end for end, address in outputs.items() if address.kind == "console"]
    if json and printed:
        raise PlanError(f"--json and the console sink both print on stdout. Name another --{printed[0]}, such as noop.")
    if limit is not None and not printed:
        raise PlanError("--limit has no effect, because no output goes to the console. Leave it out.")
    return outputs


def check_interval(interval: str | None, *, available_now: bool, drain: bool) -> str | None:
    """Return the time between batches. Reject one for a run that ends."""
    from eventide.time import duration

    if interval is None:
        return None
    if available_now or drain:
        raise PlanError(
            f"{'--drain' if drain else '--available-now'} ends the run with the available rows, so --interval has no "
            "effect. Leave out one of the two. To drain a running query: eventide drain CHECKPOINT."
        )
    try:
        duration(interval, what="--interval", zero=True)  # rejected before Spark is started
    except PlanError as error:
        if "timedelta" not in str(error):
            raise
        raise PlanError(f"--interval {interval!r} is not a duration. Write it with a unit: '10 seconds'.") from None
    return interval


def check_state_memory(size: str | None) -> str | None:
    """Return the memory for state. Reject what is not a size before Spark is started."""
    from eventide.spark.memory_limit import memory_limit

    if size is not None:
        try:
            memory_limit(size)
        except PlanError:
            raise PlanError(f"--state-memory {size!r} is not a size. Write 2g, 512m, or a number of bytes.") from None
    return size


def open_storage(url: str) -> Any:
    """Return the store of an address, as ``storage=`` takes it."""
    try:
        from obstore.store import from_url
    except ImportError as cause:
        raise PlanError(
            "--storage needs the package obstore. Install it: pip install 'pyspark-eventide[storage]'"
        ) from cause
    try:
        return from_url(url)
    except Exception as cause:  # obstore has an exception for each kind of mistake
        raise PlanError(
            f"--storage {url!r}: {next(iter(str(cause).splitlines()), type(cause).__name__)}. Write the "
            "address of a bucket and a folder, such as s3://shop/records."
        ) from cause


def _check_records(state: StatePlacement | None, **options: object) -> None:
    """Reject options of commit records for a query without them."""
    for name, value in options.items():
        if value is not None and state is StatePlacement.executors:
            raise PlanError(
                f"--{name.replace('_', '-')} is for commit records, which a query with --state executors does not "
                "have. Leave one of the two out."
            )


def reject_with_local(**options: object) -> None:
    """Reject options of a query that keeps state."""
    for name, value in options.items():
        if value is not None:
            raise PlanError(
                f"--{name.replace('_', '-')} has no effect with --local, which runs in this process and "
                "keeps no state. Leave it out."
            )
