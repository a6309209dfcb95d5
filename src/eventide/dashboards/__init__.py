"""A live page about queries: event time against processing time, what holds the watermark back, what was emitted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from eventide._hints import with_option_hints
from eventide.errors import PlanError

if TYPE_CHECKING:
    from eventide.dashboards.server import DashboardServer
    from eventide.spark.query import Query

__all__ = ["dashboard"]


@with_option_hints
def dashboard(
    query: Query | str | os.PathLike[str],
    *,
    port: int = 0,
    host: str = "127.0.0.1",
    token: str | None = None,
    allow_control: bool = False,
) -> DashboardServer:
    """Serve a live page about a query, in the background, and return its server: ``url``, ``stop()``.

    ``query`` is a running query, a checkpoint, a directory of checkpoints, or a file of ``--trace``. Port 0 takes a
    free port. ``allow_control``: the page can send commands.

    >>> import tempfile
    >>> import eventide as ev
    >>> with tempfile.TemporaryDirectory() as checkpoints:
    ...     page = ev.dashboard(checkpoints)
    ...     print(page.url.partition(":")[0], "token" in page.url)
    ...     page.stop()
    http True
    """
    try:
        from eventide.dashboards.server import create_server
    except ImportError as cause:
        raise missing_packages() from cause
    from eventide.dashboards.watched_queries import QueryDirectory

    queries = QueryDirectory(query) if isinstance(query, (str, os.PathLike)) else QueryDirectory(live=query)
    server = create_server(queries, host=host, port=port, token=token, allow_control=allow_control)
    server.start_in_background()
    return server


def missing_packages() -> PlanError:
    """Return the error of an environment without a web server."""
    return PlanError(
        "A dashboard needs the packages starlette and uvicorn. Install them: pip install 'pyspark-eventide[dashboard]'"
    )
