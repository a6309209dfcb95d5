"""URLs and connections of databases, for sinks and for stores of marks."""

from __future__ import annotations

import re
import sqlite3
from types import ModuleType
from typing import TYPE_CHECKING, Any

from eventide.errors import PlanError

if TYPE_CHECKING:
    import psycopg

_LOGIN = re.compile(r"://([^:/@]*):.*@")
_SECRET_OPTION = re.compile(r"(password|passfile|sslpassword)=[^&]*")

# A dead peer is detected within half a minute. Options in the URL take precedence.
_TIMEOUTS = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


def without_password(url: str) -> str:
    """A URL with its secrets masked, for messages and logs.

    >>> without_password("postgresql://me:se@cret@db:5432/shop?sslmode=require")
    'postgresql://me:…@db:5432/shop?sslmode=require'
    """
    return _SECRET_OPTION.sub(r"\1=…", _LOGIN.sub(r"://\1:…@", url))


def sqlite_path(url: str) -> str:
    """The file of ``sqlite:///path.db`` (relative) or ``sqlite:////path.db`` (absolute).

    >>> sqlite_path("sqlite:////var/lib/panes.db")
    '/var/lib/panes.db'
    """
    rest = url.removeprefix("sqlite://")
    path = rest.removeprefix("/")
    if not rest.startswith("/") or path in ("", ":memory:"):
        raise PlanError(
            f"{url!r} names no file, and a database in memory is lost when its connection closes. "
            "Name a file: sqlite:///shop.db is relative, sqlite:////var/lib/shop.db is absolute."
        )
    return path


def check_sqlite(oldest: tuple[int, int, int], purpose: str) -> None:
    """Raise an error if the SQLite of this Python is older than ``oldest``; ``purpose`` says what needs it.

    >>> check_sqlite((999, 0, 0), "sinks.table()")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    eventide.errors.PlanError: sinks.table() needs SQLite 999.0.0 or newer, but this Python has ... Use a newer Python.
    """
    if sqlite3.sqlite_version_info < oldest:
        raise PlanError(
            f"{purpose} needs SQLite {'.'.join(map(str, oldest))} or newer, but this Python has "
            f"{sqlite3.sqlite_version}. Use a newer Python."
        )


def psycopg_driver(purpose: str) -> ModuleType:
    """The module ``psycopg``; ``purpose`` begins the message where it is not installed."""
    try:
        import psycopg.conninfo
    except ImportError as cause:
        raise PlanError(f"{purpose} needs psycopg 3: pip install 'pyspark-eventide[postgres]'") from cause
    return psycopg


def connect_postgres(driver: ModuleType, url: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Open a connection in autocommit mode, with timeouts."""
    parameters = driver.conninfo.conninfo_to_dict(url)
    options: dict[str, Any] = {name: value for name, value in _TIMEOUTS.items() if name not in parameters}
    options |= {"client_encoding": "utf8", "application_name": str(parameters.get("application_name", "eventide"))}
    # Statements are not prepared: a pooler may run each transaction on another server.
    connection: psycopg.Connection[tuple[Any, ...]] = driver.connect(
        url, autocommit=True, prepare_threshold=None, **options
    )
    return connection
