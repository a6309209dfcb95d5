"""Messages about the tables that a query is given, and how it is run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from eventide.errors.kinds import PlanError, did_you_mean


def no_extra() -> PlanError:
    """Without sqlglot."""
    return PlanError("SQL needs the package sqlglot: pip install 'pyspark-eventide[sql]'.")


def several_kinds(names: Sequence[str]) -> PlanError:
    """Tables of Spark and of Polars in one query."""
    return PlanError(f"Of {', '.join(map(repr, names))} some are of Spark and some are not. Give all as one kind.")


def not_a_table(name: str, value: object) -> PlanError:
    """Something that holds no rows."""
    return PlanError(
        f"{name}= is {type(value).__name__}. Give a DataFrame of Spark, or a Polars or Arrow frame (or a list of them, "
        "one a bundle)."
    )


def table_not_used(name: str, known: Iterable[str]) -> PlanError:
    """A table that the query does not read."""
    return PlanError(f"{name}= was given, but the query does not read it. {did_you_mean(name, known)}")


def no_tables(names: Sequence[str]) -> PlanError:
    """Nothing given."""
    given = ", ".join(f"{name}=rows" for name in names)
    return PlanError(
        f"The query reads {', '.join(map(repr, names))}, and no rows are given. Write ev.sql(query, {given})."
    )


def key_hidden(name: str) -> PlanError:
    """A sink that knows rows by a key which the query calls otherwise."""
    return PlanError(
        f"The sink knows rows by the key {name!r}, but the query selects something else under that name. Give it "
        "another name with AS."
    )


def bound_hidden(name: str) -> PlanError:
    """A sink writes the bounds of windows, and the query calls something else so."""
    return PlanError(
        f"The sink writes the bounds of windows as window_start and window_end, but the query selects something else "
        f"as {name!r}. Give it another name with AS."
    )


def not_computed(text: str, cause: object, *, host: str = "in this process") -> PlanError:
    """An expression that the engine does not know, in the first of the engine's words."""
    said = next((line.strip() for line in str(cause).splitlines() if line.strip()), type(cause).__name__)
    said = said.replace("__window_", "window_").replace("__pane_", "pane.")
    said = re.sub(r"expression (\w+) ?[{(].*is not", r"\1 is not", said)  # a tree, as Polars prints it
    return PlanError(f"{text.replace('__window_', 'window_')} cannot be computed {host}: {said}")


def several_to_run() -> PlanError:
    """A bare Pipeline was asked of a chain."""
    return PlanError(
        "This query is a chain of pipelines. Take them from .pipelines, or run the query itself with .run(…)."
    )
