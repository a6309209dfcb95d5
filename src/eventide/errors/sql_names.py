"""Messages about names in SQL: what is declared and not read, and columns that cannot be paired or told apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eventide.errors.kinds import PlanError, did_you_mean


def stream_not_read(name: str, read: Iterable[str]) -> PlanError:
    """A declaration that the query makes no use of."""
    hint = did_you_mean(name, read)
    mend = f"{hint} Else leave it out." if "mean" in hint else "Leave it out."
    return PlanError(f"CREATE STREAM {name}: the query does not read this stream. {mend}")


def query_twice(name: str) -> PlanError:
    """Two queries of WITH with one name."""
    return PlanError(f"WITH has two queries named {name!r}. Give one of them another name.")


def query_not_read(name: str) -> PlanError:
    """A query of WITH that no query behind it makes use of."""
    return PlanError(f"Nothing behind it reads {name!r}, a query of WITH. Leave it out, or move it before its reader.")


def column_computed() -> PlanError:
    """More than a type behind a column of CREATE STREAM."""
    return PlanError(
        "A column of CREATE STREAM has a name and perhaps a type; nothing else of it is kept or checked. Compute "
        "columns in a subquery: FROM TUMBLE((SELECT …, CAST(t AS TIMESTAMP) AS ts FROM orders), DESCRIPTOR(ts), …)."
    )


def union_of_columns(first: int, other: int) -> PlanError:
    """Parts of a union with more or fewer columns."""
    return PlanError(
        f"UNION ALL pairs columns by their place, and the first part has {first} of them, this one {other}. Name the "
        "same number of columns in both."
    )


def union_of_names(others: Sequence[str]) -> PlanError:
    """Parts of a union by name with other names."""
    return PlanError(
        f"UNION ALL BY NAME: not all parts have {', '.join(map(repr, others))}. Name the same columns in all of them; "
        "NULL AS name, if need be."
    )


def names_alike(one: str, other: str) -> PlanError:
    """Two columns whose names differ in upper and lower case."""
    return PlanError(
        f"Columns named {one!r} and {other!r} are not told apart everywhere. Give one of them another name with AS."
    )


def stream_twice(name: str) -> PlanError:
    """Two declarations of one name."""
    return PlanError(f"CREATE STREAM {name}: this stream was declared before. Declare each stream once.")


def name_twice(name: str) -> PlanError:
    """Two columns of one name."""
    return PlanError(f"Two columns are named {name!r}. Give one of them another name with AS.")


def name_is_ours(name: str) -> PlanError:
    """An alias that Eventide needs."""
    return PlanError(f"{name!r} is the name of a column that every result has. Choose another name with AS.")
