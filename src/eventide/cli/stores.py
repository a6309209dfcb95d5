"""A look at the file of a store before it is opened: opening makes what is missing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from eventide.errors import cli_marks as errors


def check_store(url: str) -> None:
    """Refuse a file that is not there, or holds something else: SQLite and the store would make what is missing."""
    from eventide.sinks.tables.url import sqlite_path

    if not url.startswith("sqlite:"):
        return
    place = Path(sqlite_path(url))
    if not place.is_file():
        raise errors.no_store(url)
    if not _holds_streams(place):
        raise errors.not_a_store(url)


def _holds_streams(place: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"{place.resolve().as_uri()}?mode=ro", uri=True)) as looked:
            question = "SELECT count(*) FROM sqlite_master WHERE name = 'eventide_streams'"
            return bool(looked.execute(question).fetchone()[0])
    except sqlite3.Error:  # no database at all, or none that can be read: the store says it better
        return True


def check_directory(address: str) -> None:
    """Refuse a store in a directory that is not there."""
    from eventide.sinks.tables.url import sqlite_path

    if address.startswith("sqlite:"):
        folder = Path(sqlite_path(address.rpartition("#")[0] or address)).parent
        if not folder.is_dir():
            raise errors.no_directory(str(folder))
