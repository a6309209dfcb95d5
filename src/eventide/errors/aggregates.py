"""What can be wrong with an aggregate, or with the rows it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eventide.errors.kinds import DataError, PlanError, did_you_mean
from eventide.errors.values import shown

_NULLARY = {"count"}  # aggregates that need no column


def not_an_aggregate(name: str, value: object) -> PlanError:
    """Something else stands where an aggregate belongs, such as a string or Python's own ``sum``."""
    word = getattr(value, "__name__", None)
    if isinstance(value, str) and value in _NULLARY:
        hint = f"Write {name}=ev.{value}()."
    elif callable(value) and getattr(value, "__module__", "").startswith("eventide."):
        hint = f"Call it: {name}=ev.{word}({'' if word in _NULLARY else 'column'})."
    elif isinstance(value, str):
        hint = f"Name what to do with the column: {name}=ev.sum({shown(value)})."
    elif word in {"sum", "min", "max"}:
        hint = f'That is Python\'s own {word}. Write {name}=ev.{word}("price").'
    else:
        hint = f'Write for example {name}=ev.sum("price").'
    return PlanError(f"{name}={shown(value)} is not an aggregate. {hint}")


def no_aggregates() -> PlanError:
    """Nothing to compute."""
    return PlanError('There is no aggregate. Write for example n=ev.count(), total=ev.sum("price").')


def missing_column(aggregate: object, column: str, known: Iterable[str]) -> PlanError:
    """The rows have no such column."""
    return PlanError(f"{aggregate}: there is no column {column!r}. {did_you_mean(column, known)}")


def not_a_column_name(aggregate: str, value: object) -> PlanError:
    """A column is given by its name."""
    return PlanError(
        f'{aggregate} takes the name of a column, not {shown(value)}. Write for example ev.{aggregate}("price").'
    )


def wrong_type(aggregate: object, column: str, dtype: object, needs: str, hint: str) -> PlanError:
    """The column's type does not fit the aggregate."""
    return PlanError(f"{aggregate}: column {column!r} is {dtype}, but {needs}. {hint}")


def bad_quantile(aggregate: str, q: object) -> PlanError:
    """A quantile lies between 0 and 1."""
    hint = ""
    if isinstance(q, (int, float)) and 1 < q <= 100:
        hint = f" For percent, divide by 100: {q / 100:g}."
    return PlanError(f"{aggregate}: q={shown(q)} is not between 0 and 1.{hint}")


def bad_number(aggregate: str, option: str, value: object, allowed: str) -> PlanError:
    """An option that is a number is out of its range."""
    return PlanError(f"{aggregate}: {option}={shown(value)} is not {allowed}.")


def not_callable(aggregate: str, option: str, value: object) -> PlanError:
    """A function was expected."""
    return PlanError(f"{aggregate}: {option}={shown(value)} is not a function.")


def bad_on_error(aggregate: str, value: object) -> PlanError:
    """``on_error`` has two values."""
    return PlanError(f'{aggregate}: on_error={shown(value)} is not one of "dead_letter", "raise".')


def dtype_needed(aggregate: object, value: object) -> PlanError:
    """The type of the result cannot be told from the initial value."""
    return PlanError(
        f"{aggregate}: the type of the result cannot be told from {shown(value)}. "
        "Give it: dtype=pl.List(pl.Int64), for example."
    )


def no_retractions(aggregate: object, instead: str) -> PlanError:
    """The input carries retractions, and this aggregate cannot take a row back."""
    return PlanError(f"{aggregate} cannot take rows back, and its input carries retractions. {instead}")


def blind_to_retractions(aggregate: object, accumulator: str) -> PlanError:
    """A user's own expressions would count a retraction as one more row."""
    return PlanError(
        f"{aggregate}: its input carries retractions, but the accumulator {shown(accumulator)} does not read them. "
        "Multiply by pl.col(source.diff) in its start expression, where source.diff is not None."
    )


def clashing_accumulators(name: str, one: object, other: object) -> PlanError:
    """Equal names mean shared state, so they must mean the same computation."""
    return PlanError(
        f"{one} and {other} both call an accumulator {name!r} but compute it differently. Rename one of them."
    )


def unfinished_aggregate(aggregate: object, method: str) -> PlanError:
    """A user's own aggregate lacks a method."""
    return PlanError(
        f"{aggregate} has no {method}. One's own aggregate overrides either bind (Polars expressions), "
        "or create, add, merge and result (row by row)."
    )


def only_in_cogroup(aggregate: object) -> PlanError:
    """An aggregate of several inputs over the rows of one."""
    return PlanError(
        f"{aggregate} accumulates the rows of several inputs. Use it in ev.cogroup(…, agg=…); over one input, subclass "
        "ev.Aggregate."
    )


def undeclared_result(aggregate: object) -> PlanError:
    """A row-wise aggregate must say what type its results have."""
    return PlanError(f"{aggregate} does not say what type its results have. Set dtype = pl.Float64(), for example.")


def key_clash(name: str) -> PlanError:
    """A key column has the name of an accumulator."""
    return PlanError(f"The key column {name!r} has the name of an accumulator. Rename it first.")


def sketches_missing(aggregate: object) -> PlanError:
    """The optional package is not installed."""
    return PlanError(f"{aggregate} needs a package that is not installed: pip install 'pyspark-eventide[sketches]'")


def sum_overflow(name: str, kind: str, key: Mapping[str, object]) -> DataError:
    """A sum left the range of its type."""
    hint = "Cast the column to Decimal(38, 0) or Float64 first." if kind == "Int64" else "Use Float64 instead."
    return DataError(f"{name} does not fit into {kind}{_of(key)}. {hint}")


def row_failed(function: str, row: object, cause: BaseException) -> DataError:
    """A user's function raised on one row."""
    return DataError(f"{function} failed on the row {row!r}: {_said(cause)}")


def merge_failed(function: str, key: Mapping[str, object], cause: BaseException) -> DataError:
    """A user's function raised while partial results were merged or finished."""
    return DataError(f"{function} failed{_of(key)}: {_said(cause)}")


def result_misfit(aggregate: object, dtype: object, cause: BaseException) -> DataError:
    """A user's function returned something that is not of the promised type."""
    return DataError(f"{aggregate}: a result is not {dtype}, as dtype= promises: {_said(cause)}")


def not_picklable(aggregate: object, cause: BaseException) -> DataError:
    """The state of a row-wise aggregate cannot be stored."""
    return DataError(f"{aggregate}: its state cannot be pickled, so it cannot be stored: {_said(cause)}")


def reason(function: str, cause: BaseException) -> str:
    """An exception in one line, as a dead letter carries it.

    >>> reason("fold: add_up", KeyError("price"))
    "KeyError: 'price' (in fold: add_up)"
    """
    return f"{_said(cause)} (in {function})"


def _said(cause: BaseException) -> str:
    return f"{type(cause).__name__}: {cause}"


def _of(key: Mapping[str, object]) -> str:
    own = [f"{name}={shown(value)}" for name, value in key.items() if not name.startswith("__")]
    return f" for {', '.join(own)}" if own else ""
