"""The address of a database."""

from __future__ import annotations

from eventide.errors import sinks as errors


def sqlite_path(url: str) -> str:
    """The file of ``sqlite:///path.db`` (relative) or ``sqlite:////path.db`` (absolute).

    >>> sqlite_path("sqlite:////var/lib/panes.db")
    '/var/lib/panes.db'
    """
    rest = url.removeprefix("sqlite://")
    path = rest.removeprefix("/")
    if not rest.startswith("/") or path in ("", ":memory:"):
        raise errors.vanishing_database(url)
    return path
