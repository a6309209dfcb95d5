"""Messages about joins in SQL. Each is shown with the line of the query that it is about."""

from __future__ import annotations

from collections.abc import Sequence

from eventide.errors.kinds import PlanError


def ambiguous_column(name: str, tables: Sequence[str]) -> PlanError:
    """A column of both sides."""
    both = " and ".join(map(repr, tables))
    return PlanError(f"{name!r} is a column of {both}. Say whose it is: {tables[0]}.{name}.")


def whose_column(name: str, tables: Sequence[str]) -> PlanError:
    """A column of a join whose tables are not known."""
    return PlanError(
        f"The columns of {' and '.join(map(repr, tables))} are not known, so nobody can say whose {name!r} is. "
        f"Write {tables[0]}.{name}, or declare the columns: CREATE STREAM {tables[0]} ({name} INT, …)."
    )


def which_time(table: str, known: Sequence[str]) -> PlanError:
    """A join of a stream with several watermarks."""
    return PlanError(
        f"{table!r} has watermarks for {' and '.join(map(repr, known))}; a join goes by one of them. Compare that one "
        "in ON: … AND b.time BETWEEN a.time AND a.time + INTERVAL '1' HOUR."
    )


def emit_of_rows() -> PlanError:
    """EMIT for a join of rows."""
    return PlanError(
        "EMIT has no meaning for a join of rows: each pair is told once, as soon as both rows are there. Leave it out; "
        "a join of windows, JOIN TUMBLE(…) b ON … AND a.window_start = b.window_start, takes it."
    )


def too_many_joins() -> PlanError:
    """Three tables."""
    return PlanError(
        "A third table is joined here. Two streams are joined at a time; join the result in a second query."
    )


def no_condition(example: str) -> PlanError:
    """A join without equal columns."""
    return PlanError(f"A join of streams needs columns that are equal: ON {example}.")


def no_bound(left: str, right: str, right_time: str, left_time: str) -> PlanError:
    """A join without a bound in time."""
    return PlanError(
        f"Nothing says how near in time rows of {left!r} and {right!r} must be, so they would be kept for ever. Add to "
        f"ON: AND {right}.{right_time} BETWEEN {left}.{left_time} AND {left}.{left_time} + INTERVAL '1' HOUR; or join "
        f"{right} OVER (ROWS 3 PRECEDING), or windows of both."
    )


def half_windowed(plain: str) -> PlanError:
    """A window on one side of a join only."""
    return PlanError(
        f"One side of this join has windows and {plain!r} has none. Give both the same windows, or write "
        "OVER (RANGE INTERVAL '2' MINUTE PRECEDING) for a window on one side."
    )


def unlike_windows() -> PlanError:
    """Sides with different windows."""
    return PlanError("The two sides of this join have different windows. Give both the same function and lengths.")


def windows_not_joined() -> PlanError:
    """A window join without window_start = window_start."""
    return PlanError(
        "Rows of windows meet in the same window: add AND a.window_start = b.window_start AND a.window_end = "
        "b.window_end to ON."
    )


def over_preceding_side() -> PlanError:
    """OVER on the first table."""
    return PlanError("OVER stands behind the joined table: FROM shipments JOIN orders OVER (ROWS 3 PRECEDING) ON ….")


def key_of_missing_row(table: str) -> PlanError:
    """The key of a side that may have no row, where no column tells whether it has."""
    return PlanError(
        f"Of pairs without a row of {table!r} nobody could say that this is null, because the event time of {table!r} "
        f"is no column of its own. Name it without {table}., or name that of the other side."
    )


def over_windows(kind: str) -> PlanError:
    """OVER on a table of windows."""
    return PlanError(
        f"OVER behind {kind}(…) is not supported: a row meets rows of its window, or rows before it. Leave one of them "
        "out."
    )


def bound_beside_over() -> PlanError:
    """Times compared in ON, where OVER says which rows are met."""
    return PlanError(
        "A bound of time beside OVER is not supported: OVER says which rows are met. Leave OVER out and say the whole "
        "bound in ON; or, in an inner join, ask for it in WHERE."
    )


def key_of_preceding(column: str) -> PlanError:
    """RANGE by another column than the time."""
    return PlanError(
        f"OVER (ORDER BY {column} …): the range goes by the event time of the stream, which is another column."
    )


def no_windows() -> PlanError:
    """Joined rows that are grouped without windows."""
    return PlanError(
        "The rows of this join have no windows to group by. Give them windows: "
        "FROM TUMBLE((SELECT … FROM a JOIN b ON …), DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY …."
    )
