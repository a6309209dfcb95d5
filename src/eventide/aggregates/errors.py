"""Errors that several aggregates raise."""

from __future__ import annotations

import re
from collections.abc import Mapping

from eventide._familiar import FAMILIAR
from eventide.errors import PlanError, shown

_CALL = re.compile(r"\b(\w+)\((\w*|\*)\)'?>?$")  # as SQL and Spark write an aggregate
_NULLARY = {"count"}  # aggregates that need no column


def not_an_aggregate(name: str, value: object) -> PlanError:
    """The value is no aggregate, such as a string or Python's own ``sum``."""
    word = getattr(value, "__name__", None)
    text = str(value) if isinstance(value, str) or type(value).__module__.startswith("pyspark.") else ""
    call = _CALL.search(text)
    if isinstance(value, str) and value in _NULLARY:
        hint = f"Write {name}=ev.{value}()."
    elif callable(value) and getattr(value, "__module__", "").startswith("eventide."):
        hint = f"Call it: {name}=ev.{word}({'' if word in _NULLARY else 'column'})."
    elif isinstance(value, str) and value in _of_columns():
        hint = f"Call it with a column: {name}=ev.{value}(column)."
    elif call is not None and call[1] in _of_columns() | _NULLARY:
        column = "" if call[2] in ("", "*", "1") else repr(call[2])
        hint = f"Write {name}=ev.{call[1]}({column})."
    elif call is not None and call[1] in FAMILIAR["eventide"]:
        hint = f"Write {name}={FAMILIAR['eventide'][call[1]]}."
    elif isinstance(value, str):
        hint = f"Name what to do with the column: {name}=ev.sum({shown(value)})."
    elif word in {"sum", "min", "max"}:
        hint = f'That is Python\'s own {word}. Write {name}=ev.{word}("price").'
    else:
        hint = f'Write for example {name}=ev.sum("price").'
    return PlanError(f"{name}={shown(value)} is not an aggregate. {hint}")


def _of_columns() -> set[str]:
    """The names of the functions that aggregate a column."""
    from eventide import aggregates  # imports this module

    return {name for name in aggregates.__all__ if name.islower()} - _NULLARY


def no_aggregates() -> PlanError:
    """There is nothing to compute."""
    return PlanError('There is no aggregate. Write for example n=ev.count(), total=ev.sum("price").')


def wrong_type(aggregate: object, column: str, dtype: object, needs: str, hint: str) -> PlanError:
    """The column's type does not fit the aggregate."""
    return PlanError(f"{aggregate}: column {column!r} is {dtype}, but {needs}. {hint}")


def bad_number(aggregate: str, option: str, value: object, allowed: str) -> PlanError:
    """An option that is a number is out of its range."""
    return PlanError(f"{aggregate}: {option}={shown(value)} is not {allowed}.")


def bad_on_error(aggregate: str, value: object) -> PlanError:
    """``on_error`` has two values."""
    return PlanError(f'{aggregate}: on_error={shown(value)} is not one of "dead", "raise".')


def no_retractions(aggregate: object, instead: str) -> PlanError:
    """The input carries retractions, and this aggregate cannot retract a row."""
    return PlanError(f"{aggregate} cannot retract rows, and its input carries retractions. {instead}")


def unfinished_aggregate(aggregate: object, method: str) -> PlanError:
    """A user-defined aggregate lacks a method."""
    return PlanError(
        f"{aggregate} has no {method}. A user-defined aggregate overrides either bind (Polars expressions), "
        "or create, add, merge and result (row by row)."
    )


def _of(key: Mapping[str, object]) -> str:
    fields = [f"{name}={shown(value)}" for name, value in key.items() if not name.startswith("__")]
    return f" for {', '.join(fields)}" if fields else ""
