"""Errors that several aggregates raise."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from eventide.aggregates.suggestions import aggregates, of_expression, of_pair, of_text
from eventide.errors import PlanError, shown


def not_an_aggregate(name: str, value: object) -> PlanError:
    """The value is no aggregate, such as a string or Python's own ``sum``."""
    text = repr(str(value)) if isinstance(value, str) else str(value) if isinstance(value, pl.Expr) else shown(value)
    return PlanError(f"{name}={text} is not an aggregate. {_suggestion(name, value)}")


def unnamed_aggregate(value: object) -> PlanError:
    """A result has no name."""
    name, code = "n", None
    if isinstance(value, pl.Expr):
        output = value.meta.output_name(raise_if_undetermined=False)
        name = output if output and output.isidentifier() else name
        advice = of_expression(value, name).partition("Write ")[2].removesuffix(".")
        code = advice.removeprefix(f"{name}=") if advice.startswith(f"{name}=ev.") and "," not in advice else None
    elif isinstance(value, str):
        code = of_text(value)
    elif isinstance(value, Mapping) and value:
        code = of_pair(next(iter(value.items())))
    text = str(value) if isinstance(value, pl.Expr) else shown(value)
    return PlanError(f".agg({text}): each result has a name, such as .agg({name}={code or 'ev.count()'}).")


def _suggestion(name: str, value: object) -> str:
    """What to write in place of a value."""
    word = getattr(value, "__name__", None)
    if isinstance(value, pl.Expr):
        return of_expression(value, name)
    if callable(value) and getattr(value, "__module__", "").startswith("eventide."):
        return f"Call it: {name}={of_text(word or '') or f'ev.{word}(…)'}."
    if word in {"sum", "min", "max"}:
        return f'That is Python\'s own {word}. Write {name}=ev.{word}("price").'
    if isinstance(value, str) and value in aggregates() - {"count"}:
        return f"Call it with a column: {name}={of_text(value)}."
    is_text = isinstance(value, str) or type(value).__module__.startswith("pyspark.")
    code = of_text(str(value)) if is_text else of_text(word) if isinstance(word, str) and word != "len" else None
    if isinstance(value, tuple | list) and len(value) == 2:
        code = of_pair(value)
    if code is not None and "(expression" in code:
        return f"Write {name}={code} with an expression of Polars, such as pl.col('price') * 2."
    if code is not None:
        return f"Write {name}={code}."
    if isinstance(value, str):
        return f"Name what to do with the column: {name}=ev.sum({shown(value)})."
    return f'Write for example {name}=ev.sum("price").'


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
