"""The address of a database."""

from __future__ import annotations

import re

from eventide.errors import sinks as errors

# Up to the last @: too much is hidden rather than too little.
_LOGIN = re.compile(r"://([^:/@]*):.*@")
_OPTION = re.compile(r"(password|passfile|sslpassword)=[^&]*")


def without_password(url: str) -> str:
    """An address that may be shown.

    >>> without_password("postgresql://me:se@cret@db:5432/shop?sslmode=require")
    'postgresql://me:…@db:5432/shop?sslmode=require'
    """
    return _OPTION.sub(r"\1=…", _LOGIN.sub(r"://\1:…@", url))


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
