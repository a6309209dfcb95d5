"""Messages that several modules of this package raise."""

from __future__ import annotations

import re
from collections.abc import Iterable

from eventide.errors import PlanError, did_you_mean


class ColumnsNotKnownError(PlanError):
    """A query whose meaning depends on columns of tables that are not known yet."""


def expecting(what: str) -> PlanError:
    """Return the error for an unexpected part of a clause."""
    return PlanError(f"The query cannot be read: {what} is expected here.")


def duplicate_part(clause: str) -> PlanError:
    """Return the error for a repeated part of a clause."""
    return PlanError(f"This part of {clause} is repeated. Write it once.")


def unsupported(what: str, fix: str) -> PlanError:
    """Return the error for SQL that is not supported."""
    return PlanError(f"{what} is not supported. {fix}")


def no_such_column(name: str, table: str, candidates: Iterable[str]) -> PlanError:
    """Return the error for an unknown column."""
    return PlanError(f"There is no column {name!r} in {table!r}. {did_you_mean(name, candidates)}")


def no_such_alias(name: str, candidates: Iterable[str]) -> PlanError:
    """Return the error for an unknown qualifier."""
    return PlanError(f"There is no table {name!r} in this FROM. {did_you_mean(name, candidates)}")


def no_such_function(name: str, candidates: Iterable[str]) -> PlanError:
    """Return the error for an unknown table function or trigger."""
    return PlanError(
        f"There is no function {name}. {did_you_mean(name.upper(), [candidate.upper() for candidate in candidates])}"
    )


def window_arguments(kind: str, example: str) -> PlanError:
    """Return the error for wrong arguments of a window function."""
    return PlanError(f"{kind} cannot be called like this. Write {example}.")


def nothing_to_do() -> PlanError:
    """Return the error for a query that neither groups nor joins."""
    return PlanError(
        "This query neither groups nor joins, so it needs no event time: Spark does it by itself with spark.sql(). "
        "Group by a window: FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY window_start, window_end."
    )


def no_windows_here(name: str) -> PlanError:
    """Return the error for a column of windows without windows."""
    return PlanError(
        f"There are no windows here that {name} could be of. Use FROM TUMBLE(…), HOP(…), SESSION(…) or their like."
    )


def aggregate_in_where(name: str) -> PlanError:
    """Return the error for an aggregate in a condition on rows."""
    return PlanError(
        f"{name} in WHERE, ON or GROUP BY: rows are filtered and keyed before they are aggregated. Use HAVING."
    )


def not_in_retractions(field: str) -> PlanError:
    """Return the error for a filter by a column that a retraction does not repeat."""
    return PlanError(
        f"{field} is not repeated when a pane is retracted, so with RETRACTING a filter by it would pass only one of "
        "the two. Select it, and filter what you read."
    )


def number_as_instant(text: str) -> PlanError:
    """Return the error for a number in place of an instant."""
    return PlanError(
        f"{text}: a number is no instant, and databases do not agree on its unit. Give the table with a column of "
        "instants."
    )


def not_a_condition(text: str) -> PlanError:
    """Return the error for a condition that is not boolean."""
    return PlanError(f"{text} is neither true nor false. Compare it with something: {text} > 0, {text} IS NOT NULL.")


def keep_without_join(stream: str) -> PlanError:
    """Return the error for KEEP of a stream that is not joined."""
    return PlanError(
        f"KEEP of {stream!r} limits how long rows are stored for a join, and this query has none. Remove KEEP. For "
        "windows use ALLOWED LATENESS in EMIT."
    )


def limits_of_several(stream: str) -> PlanError:
    """Return the error for LIMIT STATE of one of several streams."""
    return PlanError(
        f"LIMIT STATE of {stream!r} has no effect here: state holds the rows of several streams. Remove it; rows of a "
        "join are kept by time, with KEEP or a bound in ON."
    )


def not_computed(text: str, cause: object, *, host: str = "in this process") -> PlanError:
    """Return the error for an expression that an engine rejects, with the first line of its message."""
    reason = next((line.strip() for line in str(cause).splitlines() if line.strip()), type(cause).__name__)
    reason = re.sub(r"expression (\w+) ?[{(].*is not", r"\1 is not", reason)  # a tree, as Polars prints it
    return PlanError(f"{text} cannot be computed {host}: {reason}")
