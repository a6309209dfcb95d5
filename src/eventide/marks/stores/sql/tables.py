"""The tables, and which version of them this is."""

from __future__ import annotations

from eventide.errors import marks as errors
from eventide.marks.stores.sql.database import Database, Step

FORMAT = 2
"""Grows when the tables, or what their bytes mean, change."""

# Rows that every append changes have room to be changed in place.
_CHANGED = "WITH (fillfactor = 50)"

TABLES = [
    "CREATE TABLE eventide_format (version BIGINT NOT NULL)",
    """CREATE TABLE eventide_streams (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name TEXT NOT NULL UNIQUE, created BIGINT NOT NULL,
        schema BYTEA NOT NULL, first_segments BIGINT NOT NULL, writer_timeout BIGINT NOT NULL,
        mark_every BIGINT NOT NULL, writer_lease BIGINT NOT NULL, epoch BIGINT NOT NULL,
        segments TEXT NOT NULL, starts BYTEA NOT NULL
    )""",
    f"""CREATE TABLE eventide_segments (
        stream BIGINT NOT NULL, number BIGINT NOT NULL, length BIGINT NOT NULL, sealed BIGINT NOT NULL,
        PRIMARY KEY (stream, number)
    ) {_CHANGED}""",
    """CREATE TABLE eventide_blobs (
        stream BIGINT NOT NULL, segment BIGINT NOT NULL, begins BIGINT NOT NULL, rows BIGINT NOT NULL,
        writer TEXT NOT NULL, body BYTEA NOT NULL, PRIMARY KEY (stream, segment, begins)
    )""",
    f"""CREATE TABLE eventide_writers (
        stream BIGINT NOT NULL, writer TEXT NOT NULL, incarnation BIGINT NOT NULL, open BIGINT NOT NULL,
        heard BIGINT NOT NULL, sequence BIGINT NOT NULL, ends BYTEA NOT NULL, position BYTEA NOT NULL,
        note_time BIGINT, note_at BIGINT, note_closed BIGINT, note_position BYTEA, PRIMARY KEY (stream, writer)
    ) {_CHANGED}""",
    """CREATE TABLE eventide_transactions (
        id TEXT PRIMARY KEY, stream BIGINT NOT NULL, writer TEXT NOT NULL, status TEXT NOT NULL,
        deadline BIGINT NOT NULL, ends BYTEA NOT NULL
    )""",
    "CREATE INDEX eventide_transactions_of ON eventide_transactions (stream, deadline)",
    """CREATE TABLE eventide_additions (
        transaction_id TEXT NOT NULL, number BIGINT NOT NULL, rows BIGINT NOT NULL, body BYTEA NOT NULL,
        PRIMARY KEY (transaction_id, number)
    )""",
    """CREATE TABLE eventide_marks (
        stream BIGINT NOT NULL, number BIGINT NOT NULL, lower BIGINT NOT NULL, upper BIGINT NOT NULL,
        at BIGINT NOT NULL, cut BYTEA NOT NULL, PRIMARY KEY (stream, number)
    )""",
    "CREATE TABLE eventide_controllers (name TEXT PRIMARY KEY, until BIGINT NOT NULL, length BIGINT NOT NULL)",
    # ``length`` says for how long it was, when ``until`` was said.
    # By name, and kept when the stream is deleted: a fence is never used again.
    """CREATE TABLE eventide_leases (
        stream TEXT PRIMARY KEY, owner TEXT NOT NULL, fence BIGINT NOT NULL, until BIGINT NOT NULL,
        length BIGINT NOT NULL
    )""",
    """CREATE TABLE eventide_groups (
        stream BIGINT NOT NULL, name TEXT NOT NULL, version BIGINT NOT NULL, state BYTEA NOT NULL,
        PRIMARY KEY (stream, name)
    )""",
]


def prepare(database: Database, *, there: str, alone: str | None, tables: list[str]) -> None:
    """Make the tables unless they are there; refuse those of another version.

    ``there`` asks whether they are, ``alone`` keeps others from making them at the same time.
    """

    def is_there(step: Step) -> bool:
        (rows,) = step.ask((there, ()))
        if not rows:
            return False
        (found,) = step.ask(("SELECT version FROM eventide_format", ()))
        if found != [(FORMAT,)]:
            raise errors.other_format(database.url, found[0][0] if found else "unknown", FORMAT)
        return True

    def make(step: Step) -> None:
        if alone is not None:
            step.ask((alone, ()))
        if is_there(step):
            return
        for table in tables:
            step.tell(table)
        step.tell("INSERT INTO eventide_format VALUES (?)", (FORMAT,))

    if not database.look(is_there):
        database.change(make, again=True)
