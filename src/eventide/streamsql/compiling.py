"""The text of a query as pipelines: read, sorted into statements, compiled."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from eventide.errors import sql as errors
from eventide.errors import sql_names as name_errors
from eventide.streamsql.compiled import Compiled
from eventide.streamsql.dialect import Eventide
from eventide.streamsql.nodes import CreateStream, Explain
from eventide.streamsql.places import At, pointing
from eventide.streamsql.relations import relation
from eventide.streamsql.scope import Scope
from eventide.streamsql.selects import refuse_clauses
from eventide.streamsql.streams import declared

_STATEMENTS = {
    exp.Insert: ("INSERT", "Name the sink where the query is run."),
    exp.Create: (
        "CREATE of anything but STREAM",
        "Write CREATE STREAM name WATERMARK FOR …, or give the table to ev.sql().",
    ),
    exp.Update: ("UPDATE", "A stream is not changed."),
    exp.Delete: ("DELETE", "A stream is not changed. Use WHERE."),
    exp.Merge: ("MERGE", "Use a sink that keeps a table: ev.sinks.table(…)."),
    exp.Drop: ("DROP", "Streams are declared for one query only."),
}


@dataclass(frozen=True)
class Statements:
    """Streams that are declared, and the one query."""

    text: str
    streams: Mapping[str, CreateStream]
    query: exp.Expr
    explain: bool


def compiled(statements: Statements, given: Mapping[str, tuple[str, ...]] | None = None) -> Compiled:
    """The one query. ``given`` are the columns of the tables that are there; without it, any name may be a table."""
    with pointing(statements.text):
        found = relation(statements.query.copy(), Scope(statements.streams, given))
        if not isinstance(found, Compiled):
            raise At(statements.query, errors.nothing_to_do())
        _refuse_misspelt(statements.streams, sorted({one.stream.name for one in found.inputs.values()}), given or ())
        return found


def _refuse_misspelt(streams: Mapping[str, CreateStream], read: Sequence[str], given: Collection[str]) -> None:
    """A declaration that no query reads has no effect. It may serve other queries, unless a stream lacks its own."""
    used, there = {one.lower() for one in read}, {one.lower() for one in given}
    if used <= {one.lower() for one in streams}:
        return
    for name, node in streams.items():
        if name.lower() not in used | there:
            raise At(node.this, name_errors.stream_not_read(name, read))


def statements(text: str) -> Statements:
    """A text, read."""
    if not isinstance(text, str):
        raise errors.not_a_text(text)
    with pointing(text):
        return _read(text)


def _read(text: str) -> Statements:
    streams: dict[str, CreateStream] = {}
    query: exp.Expr | None = None
    explain = False
    for node in Eventide().parse(text, error_level=ErrorLevel.IMMEDIATE):
        if node is None or isinstance(node, exp.Semicolon):
            continue
        if query is not None:
            raise At(node, errors.many_queries())
        if isinstance(node, CreateStream):
            name = declared(node).name  # also what the query does not read is refused if it is wrong
            if name.lower() in {one.lower() for one in streams}:
                raise At(node.this, name_errors.stream_twice(name))
            streams[name] = node
            continue
        explain = isinstance(node, Explain)
        query = _query(node.this if explain else node)
        refuse_clauses(query)
    if query is None:
        raise At(None, errors.no_query())
    return Statements(text, streams, query, explain)


def _query(node: exp.Expr) -> exp.Expr:
    for kind, (what, mend) in _STATEMENTS.items():
        if isinstance(node, kind):
            raise At(node, errors.not_here(what, mend))
    if isinstance(node, Explain):
        raise At(node, errors.not_here("EXPLAIN of EXPLAIN", "Write it once."))
    if isinstance(node, CreateStream):
        raise At(node, errors.not_here("EXPLAIN of CREATE STREAM", "Write it before the SELECT: EXPLAIN SELECT …."))
    if not isinstance(node, exp.Query):
        raise At(node, errors.not_here(f"{node.sql().split()[0].upper()} as a statement", "Write a SELECT."))
    return node
