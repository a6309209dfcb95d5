"""Messages about SQL. Each is shown with the line of the query that it is about."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from eventide.errors.kinds import PlanError, did_you_mean

_KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "EMIT", "JOIN", "ON", "OVER", "WITH", "AS", "DESCRIPTOR"),
    *("CREATE STREAM", "WATERMARK FOR", "INTERVAL", "EXPLAIN", "UNION ALL", "PRECEDING", "BETWEEN"),
)


def in_query(message: str, where: str) -> PlanError:
    """An error with its place."""
    return PlanError(f"{message}\n{where}")


def unreadable(description: str, word: str, where: str, before: str = "") -> PlanError:
    """What no parser can read. The word before it may be the one that is misspelt."""
    words = [word.upper(), before.upper(), f"{before} {word}".upper()]
    near = [other for one in words for other in difflib.get_close_matches(one, _KEYWORDS, n=1, cutoff=0.7)]
    hint = f" Did you mean {near[0]}?" if near and not set(words) & set(near) else ""
    description = re.sub(r"but got <Token.*?text: (.*?), line.*>", r"but found \1", description)
    said = description.replace("Invalid expression / Unexpected token", f"{word!r} has no place here")
    if said.startswith("Required keyword"):  # the parser's own words for a part of its tree
        said = f"something is missing at {word!r}"
    return PlanError(f"The query cannot be read: {said.rstrip('.')}.{hint}\n{where}")


def expecting(what: str) -> PlanError:
    """A clause that goes on with the wrong thing."""
    return PlanError(f"The query cannot be read: {what} is expected here.")


def unknown_word(clause: str, word: str, near: str | None, known: Sequence[str]) -> PlanError:
    """A word that begins no part of a clause."""
    hint = f"Did you mean {near}?" if near else f"There are: {', '.join(known)}."
    return PlanError(f"{word!r} is no part of {clause}. {hint}")


def said_before(clause: str) -> PlanError:
    """One part of a clause twice."""
    return PlanError(f"This part of {clause} was said before. Say it once.")


def no_query() -> PlanError:
    """Nothing to run."""
    return PlanError("The text has no SELECT. Write one behind the CREATE STREAM statements.")


def many_queries() -> PlanError:
    """More than one SELECT."""
    return PlanError(
        "There is a second query here. Give each its own ev.sql(): only CREATE STREAM may precede a SELECT."
    )


def not_here(what: str, mend: str) -> PlanError:
    """SQL that Eventide does not do."""
    return PlanError(f"{what} is not supported. {mend}")


def no_such_table(name: str, known: Iterable[str]) -> PlanError:
    """A table that nobody gave."""
    known = list(known)
    hint = did_you_mean(name, known) if known else f"Give its rows: ev.sql(query, {name}=rows)."
    return PlanError(f"There is no table {name!r}. {hint}")


def no_such_column(name: str, table: str, known: Iterable[str]) -> PlanError:
    """A column that a table does not have."""
    return PlanError(f"There is no column {name!r} in {table!r}. {did_you_mean(name, known)}")


def no_such_alias(name: str, known: Iterable[str]) -> PlanError:
    """A qualifier that names no table of the query."""
    return PlanError(f"There is no table {name!r} in this FROM. {did_you_mean(name, known)}")


def no_such_function(name: str, known: Iterable[str]) -> PlanError:
    """A table function or trigger that does not exist."""
    return PlanError(f"There is no function {name}. {did_you_mean(name.upper(), [one.upper() for one in known])}")


def window_arguments(kind: str, example: str) -> PlanError:
    """A window function that is called wrongly."""
    return PlanError(f"{kind} cannot be called like this. Write {example}.")


def descriptor_twice(kind: str) -> PlanError:
    """A second column of time."""
    return PlanError(
        f"{kind} has one time: DESCRIPTOR names one column. The key is what the query groups by; name it in GROUP BY."
    )


def watermark_in_brackets() -> PlanError:
    """WATERMARK FOR among the columns."""
    return PlanError(
        "WATERMARK FOR stands behind the columns: CREATE STREAM orders (ts TIMESTAMP) WATERMARK FOR ts AS …."
    )


def not_a_text(query: object) -> PlanError:
    """A query that is no text."""
    return PlanError(f"The query is {type(query).__name__}. Give it as a text: ev.sql('SELECT …', orders=rows).")


def partition_by(kind: str) -> PlanError:
    """PARTITION BY of a table that is cut into windows."""
    return PlanError(f"PARTITION BY in {kind} is not supported. Leave it out: the key is what the query groups by.")


def unknown_argument(kind: str, name: str, known: Iterable[str]) -> PlanError:
    """A named argument of a window function."""
    return PlanError(f"{kind} has no argument {name!r}. {did_you_mean(name, known)}")


def not_a_length(text: str) -> PlanError:
    """A length of time was expected."""
    return PlanError(f"{text} is not a length of time. Write INTERVAL '30' SECOND.")


def not_a_number(text: str) -> PlanError:
    """A whole number was expected."""
    return PlanError(f"{text} is not a whole number.")


def not_a_constant(text: str, function: str) -> PlanError:
    """An argument that must not depend on rows."""
    return PlanError(f"{function}: {text} must be a number or a text, not an expression.")


def not_a_plain_column(text: str, what: str) -> PlanError:
    """A column was expected."""
    return PlanError(f"{what}: {text} is not a column. Name a column; compute one in a subquery, if need be.")


def watermark_form(time: str) -> PlanError:
    """WATERMARK FOR … AS something else."""
    return PlanError(
        f"A watermark is one of: WATERMARK FOR {time} AS {time} - INTERVAL '30' SECOND; AS {time} (rows are in order); "
        "AS CURRENT_TIMESTAMP - INTERVAL '30' SECOND; AS PUNCTUATED BY column; AS NOTED BY 'sqlite:///shop.db#orders'; "
        "AS NONE."
    )


def watermark_twice(time: str) -> PlanError:
    """Two watermarks for one column."""
    return PlanError(f"WATERMARK FOR {time} was said before. A column has one watermark.")


def other_time(time: str, table: str, known: Sequence[str]) -> PlanError:
    """DESCRIPTOR names a column without a watermark."""
    return PlanError(
        f"The windows go by {time!r}, but the watermark of {table!r} is for {' and '.join(map(repr, known))}. "
        f"Window by that column, or add WATERMARK FOR {time} to CREATE STREAM {table}."
    )


def no_time(table: str) -> PlanError:
    """A stream whose event time nobody has said."""
    return PlanError(
        f"The event time of {table!r} is not known. Say it before the query: "
        f"CREATE STREAM {table} WATERMARK FOR ts AS ts - INTERVAL '30' SECOND;"
    )


def when_or_phases() -> PlanError:
    """EMIT WHEN beside EARLY or LATE."""
    return PlanError("EMIT WHEN … is the whole trigger. Leave out EARLY, LATE and ON WINDOW CLOSE, or leave out WHEN.")


def emit_inside() -> PlanError:
    """EMIT of a subquery that is no pipeline."""
    return PlanError("EMIT belongs to the SELECT that groups by windows, or joins them. Move it there.")


def nothing_to_do() -> PlanError:
    """A query of plain rows."""
    return PlanError(
        "This query neither groups nor joins, so it needs no event time: Spark does it by itself with spark.sql(). "
        "Group by a window: FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY window_start, window_end."
    )


def windows_not_grouped(kind: str) -> PlanError:
    """A window function without GROUP BY."""
    return PlanError(
        f"{kind} gives rows their windows, and this query does not group by them. "
        "Add GROUP BY window_start, window_end, or an aggregate such as COUNT(*)."
    )


def no_windows_here(name: str) -> PlanError:
    """window_start without windows."""
    return PlanError(
        f"There are no windows here that {name} could be of. Use FROM TUMBLE(…), HOP(…), SESSION(…) or their like."
    )


def not_grouped(text: str) -> PlanError:
    """A column that is neither a key nor aggregated."""
    return PlanError(f"{text} is neither in GROUP BY nor inside an aggregate. Add it to GROUP BY, or use LAST({text}).")


def aggregate_in_where(name: str) -> PlanError:
    """An aggregate where rows are filtered."""
    return PlanError(
        f"{name} in WHERE, ON or GROUP BY: rows are filtered and keyed before they are aggregated. Use HAVING."
    )


def window_in_where(name: str) -> PlanError:
    """A bound of windows where rows are filtered."""
    return PlanError(f"{name} in WHERE: rows are filtered before they have windows. Use HAVING.")


def told_again(*, inherited: bool) -> PlanError:
    """An outer query over panes that are told more than once."""
    mend = "Add RETRACTING to its EMIT" if inherited else "Group by its window_start and window_end with RETRACTING"
    return PlanError(
        f"The inner query tells its windows more than once, so the outer one would count them twice. {mend}, or let it "
        "emit once, on window close."
    )


def not_repeated(field: str) -> PlanError:
    """A filter of panes by what differs in a retraction."""
    return PlanError(
        f"{field} is not repeated when a pane is taken back, so with RETRACTING a filter by it would let through one "
        "of the two only. Select it, and filter what you read."
    )


def aggregate_arguments(name: str, example: str) -> PlanError:
    """An aggregate that is called wrongly."""
    return PlanError(f"{name} cannot be called like this. Write {example}.")


def aggregate_in_python(name: str) -> PlanError:
    """Reduce and fold."""
    return PlanError(
        f"{name} needs a function of Python's. Build this pipeline in Python: .agg(x=ev.{name.lower()}(…))."
    )


def distinct_not_for(name: str) -> PlanError:
    """DISTINCT in an aggregate that has no use for it."""
    return PlanError(f"{name}(DISTINCT …) is not supported. COUNT, MIN, MAX and ARRAY_AGG take DISTINCT.")


def filter_not_for(name: str) -> PlanError:
    """FILTER for an aggregate that does not pass over nulls."""
    return PlanError(
        f"{name}(…) FILTER (WHERE …) is not supported, because {name} counts nulls. Filter rows with WHERE."
    )


def bad_ordinal(number: str, most: int) -> PlanError:
    """GROUP BY 7."""
    return PlanError(f"GROUP BY {number}: SELECT has {most} columns. Name one of them, or give its number from 1.")


def numbered_rows_filtered(table: str, option: str) -> PlanError:
    """A filter on rows that the watermark counts."""
    return PlanError(
        f"WHERE would drop rows of {table!r} whose {option} the watermark counts, so that it would wait for them for "
        "ever. Use COUNT(*) FILTER (WHERE …), or HAVING."
    )


def watermark_column_changed(column: str, table: str) -> PlanError:
    """A subquery that computes a column which the watermark reads."""
    return PlanError(
        f"The watermark of {table!r} reads {column!r}, which this SELECT computes anew. Give it another name."
    )


def not_plain_inside() -> PlanError:
    """A subquery whose result is computed, below another pipeline."""
    return PlanError(
        "This query aggregates the result of another, which passes on what it computed with its progress. So the inner "
        "SELECT may name keys, window_start, window_end and aggregates, without HAVING or WHERE; compute outside."
    )
