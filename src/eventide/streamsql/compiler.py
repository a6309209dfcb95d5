"""The text of a query as pipelines: parsed, split into statements, compiled. Errors refer to a part of the text."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import polars as pl
from sqlglot import exp
from sqlglot.errors import ErrorLevel

from eventide.errors import PlanError, did_you_mean
from eventide.streamsql.compiled_query import CompiledQuery, Scope
from eventide.streamsql.create_stream import stream_declaration
from eventide.streamsql.dialect import Eventide
from eventide.streamsql.errors import not_computed, nothing_to_do, unsupported
from eventide.streamsql.expressions import is_aggregate, text_of
from eventide.streamsql.from_clause import compile_relation
from eventide.streamsql.select_clause import reject_clauses
from eventide.streamsql.source_positions import LocatedError, with_excerpt
from eventide.streamsql.syntax import AGGREGATES, CreateStream, Explain, WatermarkFor


@contextmanager
def locate_runtime_errors(statements: SqlScript) -> Iterator[None]:
    """Locate errors that are raised with the rows at the part of the query that they refer to."""
    try:
        yield
    except PlanError as error:
        part = _part_of_message(statements, str(error).partition(":")[0])
        if part is None:
            raise
        raise LocatedError(part, error) from error
    except pl.exceptions.PolarsError as cause:  # only conditions of a join are computed there
        on = statements.query.find(exp.Join)
        part = on if on is None else on.args.get("on") or on
        raise LocatedError(part or statements.query, not_computed("This", cause)) from None


def _part_of_message(statements: SqlScript, subject: str) -> exp.Expr | None:
    """Return the part of the query that a message begins with: an aggregate, a join, or a watermark."""
    if subject in ("join", "window_join"):
        return statements.query.find(exp.Join)
    if subject == "noted()":
        marks = (node for stream in statements.streams.values() for node in stream.find_all(WatermarkFor))
        return next((node for node in marks if node.args["rule"] == "noted"), None)
    for node in statements.query.find_all(exp.Anonymous):
        of = node.expressions[0] if node.expressions else None
        if is_aggregate(node) and of is not None:
            called = f"{AGGREGATES.get(node.name.lower())}({text_of(of)}"
            if subject.lower().startswith(called.lower()):
                return node
    return None


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
class SqlScript:
    """The declared streams, and the query."""

    text: str
    streams: Mapping[str, CreateStream]
    query: exp.Expr

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that the query reads."""
        inner = {common.alias for common in self.query.find_all(exp.CTE)}
        names = (table.name for table in self.query.find_all(exp.Table))
        return tuple(dict.fromkeys(name for name in names if name and name not in inner))


def compile_query(statements: SqlScript, columns: Mapping[str, tuple[str, ...]] | None = None) -> CompiledQuery:
    """Compile the query. ``columns`` has those of each table; without it, any name may be a table."""
    with with_excerpt(statements.text):
        query = compile_relation(statements.query.copy(), Scope(statements.streams, columns))
        if not isinstance(query, CompiledQuery):
            raise LocatedError(statements.query, nothing_to_do())
        _reject_unread(statements.streams, sorted({rows.stream.name for rows in query.inputs.values()}), columns or ())
        return query


def _reject_unread(streams: Mapping[str, CreateStream], read: Sequence[str], tables: Collection[str]) -> None:
    """Reject a declaration that the query does not read, if the query reads a stream without one."""
    used, available = {stream_name.lower() for stream_name in read}, {stream_name.lower() for stream_name in tables}
    if used <= {stream_name.lower() for stream_name in streams}:
        return
    for name, node in streams.items():
        if name.lower() not in used | available:
            hint = did_you_mean(name, read)
            fix = f"{hint} Else leave it out." if "mean" in hint else "Leave it out."
            raise LocatedError(node.this, f"CREATE STREAM {name}: the query does not read this stream. {fix}")


def parse_statements(text: str) -> SqlScript:
    """Return the statements of a text."""
    if not isinstance(text, str):
        raise PlanError(f"The query is {type(text).__name__}. Give it as a text: ev.sql('SELECT …').")
    with with_excerpt(text):
        return _read(text)


def _read(text: str) -> SqlScript:
    streams: dict[str, CreateStream] = {}
    query: exp.Expr | None = None
    for node in Eventide().parse(text, error_level=ErrorLevel.IMMEDIATE):
        if node is None or isinstance(node, exp.Semicolon):
            continue
        if query is not None:
            raise LocatedError(
                node,
                "There is a second query here. Give each its own ev.sql(): only CREATE STREAM may precede a SELECT.",
            )
        if isinstance(node, CreateStream):
            name = stream_declaration(node).name  # a wrong declaration is rejected even if the query does not read it
            if name.lower() in {other.lower() for other in streams}:
                raise LocatedError(
                    node.this, f"CREATE STREAM {name}: this stream was declared before. Declare each stream once."
                )
            streams[name] = node
            continue
        query = _query(node)
        reject_clauses(query)
    if query is None:
        raise LocatedError(None, "The text has no SELECT. Write one behind the CREATE STREAM statements.")
    return SqlScript(text, streams, query)


def _query(node: exp.Expr) -> exp.Expr:
    for kind, (what, fix) in _STATEMENTS.items():
        if isinstance(node, kind):
            raise LocatedError(node, unsupported(what, fix))
    if isinstance(node, Explain):
        raise LocatedError(node, unsupported("EXPLAIN", "Call ev.sql(query).explain(), or eventide sql --explain."))
    if not isinstance(node, exp.Query):
        raise LocatedError(node, unsupported(f"{node.sql().split()[0].upper()} as a statement", "Write a SELECT."))
    return node
