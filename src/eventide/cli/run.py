"""``eventide run``: a query with all of its outputs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eventide.cli.sessions import Conf, Cores, Master, Memory

if TYPE_CHECKING:
    from eventide.cli.addresses import Address

EXAMPLES = """Examples:

eventide run job.py

eventide run job.py --source parquet:/data/orders --drain

eventide run job.py --sink postgresql://me@db/shop#revenue --trigger 10s

eventide run job.py --source 'kafka:orders@broker:9092?schema=ts timestamp'

eventide run pipeline.sql --source left=parquet:/a --source right=parquet:/b

eventide run job.py --sink noop --json | jq .watermark

The job is a Python file that defines pipeline (or pipelines, a chain), and perhaps rows(spark); or a file with SQL.
Exit codes: 0 the end was reached, 1 the query failed, 2 a mistake, 130 stopped by Ctrl-C.
"""

_OUTPUTS = "Where rows go"
Source = Annotated[
    list[str] | None,
    typer.Option(help="Where rows come from: KIND:PLACE, or INPUT=KIND:PLACE for each of several inputs."),
]


class State(StrEnum):
    """Where a query keeps its state."""

    driver = "driver"
    executors = "executors"


def run(
    job: Annotated[str, typer.Argument(help="A Python file that defines a pipeline, or a file with SQL.")],
    source: Source = None,
    sink: Annotated[str | None, typer.Option(help="For panes. Default: console.", rich_help_panel=_OUTPUTS)] = None,
    late: Annotated[
        str | None, typer.Option(help="For late rows. Default: files beside the checkpoint.", rich_help_panel=_OUTPUTS)
    ] = None,
    dead: Annotated[
        str | None,
        typer.Option(help="For dead letters. Default: files beside the checkpoint.", rich_help_panel=_OUTPUTS),
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Where state is kept. Default: checkpoints/ and the job's name.")
    ] = None,
    state: Annotated[
        State,
        typer.Option(help="Where state is kept: in the driver, or on the executors (state beyond one machine)."),
    ] = State.driver,
    trigger: Annotated[
        str | None,
        typer.Option(help="available_now (read what is there, then end), or a length of time between batches."),
    ] = None,
    drain: Annotated[
        bool,
        typer.Option(
            "--drain",
            help="Read what is there, then end the stream: all open windows fire. Then the checkpoint has ended, too.",
        ),
    ] = False,
    trace: Annotated[
        Path | None, typer.Option(help="Write what happens, with the windows of panes, for eventide plot.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON object for each batch on stdout.")] = False,
    master: Master = None,
    cores: Cores = None,
    memory: Memory = None,
    conf: Conf = None,
) -> None:
    """Run a pipeline, or a chain of them, and show how far it has come."""
    from eventide.cli.addresses import read_sources
    from eventide.cli.jobs import load
    from eventide.cli.running import Order, check, execute
    from eventide.cli.sessions import started

    loaded = load(job)
    order = Order(
        job=loaded,
        sources=read_sources(source or []),
        outputs=outputs(sink, late, dead, json=json),
        checkpoint=checkpoint or f"checkpoints/{loaded.name}",
        trigger=trigger_of(trigger, drain=drain),
        drain=drain,
        json=json,
        trace=trace,
        state=state.value,
    )
    check(order)
    options = {"master": master, "cores": cores, "memory": memory, "conf": conf}
    with started(loaded.name, folder=loaded.folder, quiet=json, **options) as spark:  # type: ignore[arg-type]
        execute(order, spark)


def outputs(sink: str | None, late: str | None, dead: str | None, *, json: bool = False) -> dict[str, Address]:
    """The outputs that were named; panes go to the console. With JSON nothing else is printed."""
    from eventide.cli.addresses import read_address
    from eventide.errors import cli as errors

    named = {"panes": ("sink", sink or "console"), "late": ("late", late), "dead": ("dead", dead)}
    for end, text in named.values():
        if json and text is not None and text.partition(":")[0] == "console":
            raise errors.console_and_json(end)
    return {name: read_address(text, end) for name, (end, text) in named.items() if text}  # type: ignore[arg-type]


def trigger_of(text: str | None, *, drain: bool) -> str | None:
    """When batches run."""
    from eventide.cli.running import AVAILABLE_NOW
    from eventide.errors import cli as errors
    from eventide.time import duration

    spoken = AVAILABLE_NOW if text is not None and text.replace("-", "_") == AVAILABLE_NOW else text
    if drain and spoken not in (None, AVAILABLE_NOW):
        raise errors.drain_needs_end()
    if spoken not in (None, AVAILABLE_NOW):
        duration(spoken, what="--trigger", zero=True)  # refused before Spark is started
    return AVAILABLE_NOW if drain else spoken
