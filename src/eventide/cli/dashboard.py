"""``eventide dashboard``: a live page about the queries of a checkpoint or a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from eventide.errors import PlanError

if TYPE_CHECKING:
    from eventide.dashboards.server import DashboardServer

EXAMPLES = """Examples:

eventide dashboard checkpoints/revenue

eventide dashboard checkpoints                      (a list of all queries in the directory)

eventide dashboard revenue.jsonl                    (a file of eventide run --trace)

eventide dashboard checkpoints --allow-control      (the page can retire origins, skip gaps and drain)

The page is at the printed URL, which contains a token. The command needs no Spark. Other machines reach it through
ssh -L 8080:127.0.0.1:8080 HOST, or with --host behind a proxy that encrypts.
"""


def dashboard(
    place: Annotated[
        str, typer.Argument(help="A checkpoint, a directory of checkpoints, or a file of --trace.", metavar="PLACE")
    ],
    port: Annotated[int, typer.Option(help="The port; 0 takes a free port.", min=0, max=65535)] = 8080,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(help="The token of the URL. Default: a random token.", envvar="EVENTIDE_DASHBOARD_TOKEN"),
    ] = None,
    allow_control: Annotated[
        bool, typer.Option("--allow-control", help="Let the page retire origins, skip gaps and drain.")
    ] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A further name by which browsers reach the page; repeatable.")
    ] = None,
    behind_after: Annotated[
        str | None,
        typer.Option(help='The lag from which a query is called behind, such as "2 hours". Default: from its history.'),
    ] = None,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Show event time against processing time, origins, rows and state of queries, live in a browser."""
    from eventide.time import duration

    limit = None if behind_after is None else duration(behind_after, what="--behind-after")
    server = open_server(place, port, host, token, allow_control, tuple(allow_host or ()), limit)
    typer.echo(server.url)
    from eventide.marks.controller.http_client import is_loopback

    if not is_loopback(host):
        typer.echo(
            f"Warning: other machines reach {host}, and the connection is not encrypted. Put a proxy in front.",
            err=True,
        )
    if browser:
        typer.launch(server.url)
    try:
        server.serve_until_stopped()
    except KeyboardInterrupt:  # the usual end
        typer.echo("Stopped.", err=True)


def open_server(
    place: str,
    port: int,
    host: str = "127.0.0.1",
    token: str | None = None,
    allow_control: bool = False,
    hosts: tuple[str, ...] = (),
    behind_after: int | None = None,
) -> DashboardServer:
    """Return the server of a dashboard, bound to its address."""
    from eventide.dashboards import missing_packages
    from eventide.dashboards.watched_queries import QueryDirectory

    try:
        from eventide.dashboards.server import create_server
    except ImportError as cause:
        raise missing_packages() from cause
    return create_server(
        QueryDirectory(place),
        host=host,
        port=port,
        token=token,
        allow_control=allow_control,
        hosts=hosts,
        behind_after=behind_after,
    )


def open_for_run(checkpoint: str, port: int = 0, token: str | None = None) -> DashboardServer:
    """Start the dashboard of a query that is about to run; port 0 takes a free port."""
    from pathlib import Path

    from eventide.spark.batch_history import history_file

    file = history_file(checkpoint)
    if file is None:
        raise PlanError(
            "--dashboard needs a checkpoint on this machine, because the history of a query is stored there."
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    Path(file).touch()
    server = open_server(checkpoint, port, token=token)
    server.start_in_background()
    return server


def watch_demo(checkpoint: str) -> None:
    """Start the dashboard of a demonstration, and print its URL."""
    typer.echo(f"Dashboard: {open_for_run(checkpoint).url}\n")


def hold() -> None:
    """Wait until the user presses Ctrl-C, so that the page stays open."""
    from threading import Event

    typer.echo("The dashboard stays open until you press Ctrl-C.")
    try:
        Event().wait()
    except KeyboardInterrupt:  # the usual end
        typer.echo("Stopped.", err=True)
