"""Which part of a query the core means, when it refuses a plan only as it meets the rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl
from sqlglot import exp

from eventide.errors import PlanError
from eventide.errors import sql_tables as table_errors
from eventide.streamsql.catalogue import AGGREGATES
from eventide.streamsql.compiling import Statements
from eventide.streamsql.expressions import is_aggregate, text_of
from eventide.streamsql.nodes import WatermarkFor
from eventide.streamsql.places import At


@contextmanager
def meeting_rows(said: Statements) -> Iterator[None]:
    """Refusals from in here are shown where the query says what they are about, if that can be found."""
    try:
        yield
    except PlanError as refused:
        part = _part(said, str(refused).partition(":")[0])
        if part is None:
            raise
        raise At(part, refused) from refused
    except pl.exceptions.PolarsError as cause:  # only conditions of a join are computed there
        on = said.query.find(exp.Join)
        part = on if on is None else on.args.get("on") or on
        raise At(part or said.query, table_errors.not_computed("This", cause)) from None


def _part(said: Statements, subject: str) -> exp.Expr | None:
    """What a message begins with: an aggregate of a column, a join, or a kind of watermark."""
    if subject in ("join", "window_join"):
        return said.query.find(exp.Join)
    if subject == "noted()":
        marks = (one for stream in said.streams.values() for one in stream.find_all(WatermarkFor))
        return next((one for one in marks if one.args["rule"] == "noted"), None)
    for one in said.query.find_all(exp.Anonymous):
        of = one.expressions[0] if one.expressions else None
        if is_aggregate(one) and of is not None:
            called = f"{AGGREGATES.get(one.name.lower())}({text_of(of)}"
            if subject.lower().startswith(called.lower()):
                return one
    return None
