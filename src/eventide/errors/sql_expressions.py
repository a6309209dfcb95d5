"""Messages about expressions and aggregates in SQL. Each is shown with the line of the query that it is about."""

from __future__ import annotations

from eventide.errors.kinds import PlanError

_SOME = "There are COUNT, SUM, AVG, MIN, MAX, VARIANCE, STDDEV, MEDIAN, QUANTILE, FIRST, LAST, ARRAY_AGG and others."


def no_such_aggregate(name: str, near: str | None) -> PlanError:
    """An aggregate that is misspelt."""
    return PlanError(f"There is no aggregate {name}. {f'Did you mean {near}?' if near else _SOME}")


def other_aggregate(name: str) -> PlanError:
    """An aggregate of other databases."""
    return PlanError(f"{name} is not supported. {_SOME}")


def nulls_not_for(name: str) -> PlanError:
    """IGNORE NULLS for an aggregate that never counts them, or always."""
    return PlanError(f"{name} takes neither IGNORE NULLS nor RESPECT NULLS: FIRST and LAST do. Leave it out.")


def order_not_for(name: str) -> PlanError:
    """ORDER BY inside an aggregate."""
    return PlanError(f"{name}(… ORDER BY …) is not supported. Use SORT(column), or SORT(column, descending => TRUE).")


def number_as_instant(text: str) -> PlanError:
    """A number where an instant is wanted."""
    return PlanError(
        f"{text}: a number is no instant, and databases do not agree on its unit. Give the table with a column of "
        "instants."
    )


def not_an_instant(text: str) -> PlanError:
    """A text that is no instant."""
    return PlanError(f"{text!r} is no instant. Write TIMESTAMP '2026-03-01 12:00:00', in UTC if no zone is said.")


def not_repeated_value(text: str) -> PlanError:
    """A value of a pane that would differ when the pane is taken back."""
    return PlanError(
        f"{text} of a pane is not supported: it would be another one when the pane is told again. Use pane.at, or "
        "compute it in what you read."
    )


def not_a_condition(text: str) -> PlanError:
    """WHERE or HAVING of something that is neither true nor false."""
    return PlanError(f"{text} is neither true nor false. Compare it with something: {text} > 0, {text} IS NOT NULL.")


def chained_comparison(text: str) -> PlanError:
    """Two comparisons in a row, which databases group differently."""
    return PlanError(
        f"{text}: databases order comparisons without brackets differently. Write (a = b) = c, or a = (b = c)."
    )


def wrong_escape(sign: str) -> PlanError:
    """An escape before a character that needs none."""
    return PlanError(f"{sign!r} escapes %, _ and itself only. Leave it out before other characters, or write it twice.")
