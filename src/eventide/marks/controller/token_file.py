"""The token of a user: created at the first start of a controller, and read by the clients of the same user."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from eventide.errors import controller as errors

_MODE = 0o600


def token_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the token of this user is stored.

    >>> str(token_file({"XDG_CONFIG_HOME": "/home/me/.config"}))
    '/home/me/.config/eventide/token'
    """
    home = environment.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "eventide" / "token"


def token_of(path: Path) -> str:
    """The token in a file."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as cause:
        raise errors.unreadable("The file with the token", path, cause) from cause
    if not token:
        raise errors.empty_token(path)
    return token


def own_token(path: Path | None = None) -> str | None:
    """The token of this user, if a controller has created it. A file that others can read is rejected."""
    path = path or token_file()
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    if stat.S_IMODE(mode) & 0o077:
        raise errors.token_readable_by_others(path)
    return token_of(path)


def created_token(path: Path | None = None) -> str:
    """The token of this user; a new one, if there is none yet."""
    path = path or token_file()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Complete before it has its name, and never in place of one that another process has just created.
        handle, unfinished = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), _MODE)
                file.write(secrets.token_hex(32) + "\n")
            with suppress(FileExistsError):
                os.link(unfinished, path)
        finally:
            os.unlink(unfinished)  # noqa: PTH108 - a name, not a path
    except OSError as cause:
        raise errors.no_token_file(path, cause) from cause
    token = own_token(path)
    assert token is not None  # it was created here, or by another process
    return token
