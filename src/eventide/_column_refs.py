"""Columns by name or as an expression. Polars expressions are computed per row, Spark expressions by the host."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import polars as pl

from eventide._familiar_options import EXAMPLES
from eventide.errors import PlanError, shown

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkExpression


T = TypeVar("T")

Column: TypeAlias = "str | pl.Expr | SparkExpression"
"""A column as users write it."""

TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns"]

_ALIAS = re.compile(r" AS `?([^`]+?)`?$")
_SHOWN = re.compile(r"^Column<'(.*)'>$", re.DOTALL)
_COMPARISON = re.compile(r"\s*(\w+)\s*(<>|[<>=!]=|[<>=])\s*(.+?)\s*")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
# Expressions whose text is complete. In other texts, literals are shortened or rounded.
_PLAIN = re.compile(
    r'(?:[\[\]() +*/%<>=!&|.-]|col\("[^"]*"\)|dyn int: -?\d+|"[^"]{0,20}"|true|false|not|is_null|is_not_null)+'
)


class SparkColumn(str):
    """The name of a column that a Spark expression computes. Outside of Spark it is a name like any other."""

    expression: Any

    def __new__(cls, name: str, expression: Any) -> SparkColumn:
        """Create a name with its expression."""
        named_ = super().__new__(cls, name)
        named_.expression = expression
        return named_

    def __reduce__(self) -> tuple[Any, ...]:
        # Spark has evaluated the expression before the name reaches a task.
        return (str, (str(self),))


class Computed(str):
    """The name of a column that a Polars expression computes per row. Equal expressions have equal names.

    ``condition`` is the part of it that must be a boolean. ``inputs`` are the columns that it consists of.
    """

    expression: pl.Expr
    condition: pl.Expr | None
    inputs: tuple[str, ...]

    def __new__(
        cls, name: str, expression: pl.Expr, condition: pl.Expr | None = None, inputs: tuple[str, ...] = ()
    ) -> Computed:
        """Create a name with its expression."""
        column = super().__new__(cls, name)
        column.expression, column.condition, column.inputs = expression, condition, inputs
        return column

    def __reduce__(self) -> tuple[Any, ...]:
        return (Computed, (str(self), self.expression, self.condition, self.inputs))


class TimeColumn(str):
    """The name of a column of event times that are numbers in a ``unit``."""

    unit: TimeUnit

    def __new__(cls, name: str, unit: TimeUnit) -> TimeColumn:
        """Create a name with its unit."""
        column = super().__new__(cls, name)
        column.unit = unit
        return column

    def __reduce__(self) -> tuple[Any, ...]:
        return (TimeColumn, (str(self), self.unit))


def in_unit(name: str) -> str:
    """Return the unit of a time column as a suffix for descriptions."""
    return f" in {name.unit}" if isinstance(name, TimeColumn) else ""


def named(value: Any) -> Any:
    """Return the name of a Polars or Spark column expression. Other values are returned unchanged."""
    if isinstance(value, pl.Expr):
        return value.meta.output_name() if value.meta.is_column() else value
    kind = type(value)
    if kind.__name__ != "Column" or not kind.__module__.startswith("pyspark.sql"):
        return value
    shown = _SHOWN.match(str(value))
    text = shown.group(1) if shown else str(value)
    if text.isidentifier():
        return text
    alias = _ALIAS.search(text)
    return SparkColumn(alias.group(1) if alias else text, value)


def column(what: str, value: Any) -> Any:
    """Return the name of a column that an aggregate reads. ``what`` names the aggregate in messages.

    >>> column("sum", pl.col("price")), column("sum", pl.col("price") * 2)
    ('price', '[(col("price")) * (dyn int: 2)]')
    """
    expression = named(value.meta.undo_aliases() if isinstance(value, pl.Expr) else value)
    if not isinstance(expression, pl.Expr):
        if not isinstance(expression, str) and not (expression is None and what == "count"):
            raise not_a_column_name(what, value)
        return expression
    if expression.meta.has_multiple_outputs():
        raise PlanError(f"{what}: {value} selects several columns. Name one of them, such as pl.col('price').")
    if (reason := _not_computable(expression)) is not None:
        raise PlanError(f"{what}: {value} {reason}")
    return Computed(expression_text(expression), expression)


def masked(what: str, value: Any, where: Any) -> Any:
    """Return the name of a column that is null unless a condition is true.

    >>> masked("sum", "price", "paid"), masked("sum", "price", None)
    ('price where paid', 'price')
    """
    name = column(what, value)
    if where is None or not isinstance(name, str | None):
        return name
    test, content = condition(what, where), 1 if name is None else expression_of(name)
    masked_ = pl.when(expression_of(test)).then(content)
    inputs = (test,) if name is None else (name, test)
    return Computed(f"{'*' if name is None else name} where {test}", masked_, expression_of(test), inputs)


def condition(what: str, where: Any) -> str:
    """Return the name of the column of a condition."""
    if not isinstance(named(where), str | pl.Expr) or not str(where):
        raise PlanError(
            f"{what}: where={shown(where)} is not a condition. Use the name of a boolean column, or a Polars "
            "expression such as where=pl.col('price') > 5."
        )
    if type(where) is str and (comparison := _COMPARISON.fullmatch(where)):  # not the name of a Spark expression
        left, operator, right = comparison.groups()
        operator = {"=": "==", "<>": "!="}.get(operator, operator)
        raise PlanError(
            f"{what}: where={where!r} would be the name of a column. Write the condition as an expression: "
            f"where=pl.col({left!r}) {operator} {right}."
        )
    name = column(f"{what}(where=…)", where)
    return Computed(str(name), expression_of(name), expression_of(name), (name,))


def expression_of(name: str) -> pl.Expr:
    """Return the expression of a column."""
    return name.expression if isinstance(name, Computed) else pl.col(name)


def is_row_wise(expression: pl.Expr) -> bool:
    """Whether an expression reads one row at a time. User functions are assumed to do so.

    >>> is_row_wise(pl.col("x") * 2), is_row_wise(pl.col("x") / pl.col("x").sum())
    (True, False)
    """
    try:
        return _is_separable(expression)
    except pl.exceptions.PolarsError:
        return True


def _is_separable(expression: pl.Expr) -> bool:
    return expression.meta.is_row_separable() and all(map(_is_separable, expression.meta.pop()))


def _not_computable(expression: pl.Expr) -> str | None:
    """Why an expression cannot be computed per row, and what to do; None: it can."""
    try:
        row_wise = _is_separable(expression) and (expression.meta.is_length_preserving() or expression.meta.is_scalar())
    except pl.exceptions.PolarsError:  # Polars needs the schema of a frame to resolve a part of it
        return (
            "contains a Python function, or a part that cannot be checked to read one row at a time. Compute the "
            "column before: rows.with_columns(…). For a Python function over the rows of a window use ev.fold(…)."
        )
    if not row_wise:
        return (
            "reads several rows at once, so its result would depend on the division into bundles. "
            "Use an expression of one row, such as pl.col('price') * 2, or compute the column before."
        )
    if any(str(leaf) == "element()" for leaf in _leaves(expression)):
        return "is an element of a list, not a column. Name the column, such as pl.col('price')."
    return None


def _leaves(expression: pl.Expr) -> Iterator[pl.Expr]:
    parts = expression.meta.pop()
    if not parts:
        yield expression
    for part in parts:
        yield from _leaves(part)


def with_names(part: T) -> T:
    """Return a frozen description with names in place of Spark columns, at any depth."""
    if is_dataclass(part) and not isinstance(part, type):
        values = {field.name: getattr(part, field.name) for field in fields(part) if field.init}
        changed = {name: new for name, value in values.items() if (new := with_names(value)) is not value}
        return replace(part, **changed) if changed else part
    if isinstance(part, dict):
        entries: Any = {name: with_names(value) for name, value in part.items()}
        return entries if any(entries[name] is not part[name] for name in part) else part
    if isinstance(part, (list, tuple)) and type(part) in (list, tuple):
        parts = [with_names(value) for value in part]
        same = all(new is old for new, old in zip(parts, part, strict=True))
        return part if same else type(part)(parts)
    name: T = named(part)
    return name


def expressions(part: Any) -> dict[str, Any]:
    """Return the Spark expressions of a description, by the names of their columns."""
    return {str(name): name.expression for name in _names(part) if isinstance(name, SparkColumn)}


def computed(part: Any) -> dict[str, Computed]:
    """Return the columns of a description that Polars computes, by name."""
    return {str(name): name for name in _names(part, inputs=False) if isinstance(name, Computed)}


def _names(part: Any, *, inputs: bool = True) -> Iterator[str]:
    """Yield the names of columns in a description, at any depth; with ``inputs``, also those that they consist of."""
    inner: list[Any] = []
    if isinstance(part, (SparkColumn, Computed)):
        yield part
        inner = list(part.inputs) if inputs and isinstance(part, Computed) else []
    elif is_dataclass(part) and not isinstance(part, type):
        inner = [getattr(part, field.name) for field in fields(part)]
    elif isinstance(part, dict):
        inner = list(part.values())
    elif isinstance(part, (list, tuple)):
        inner = list(part)
    for value in inner:
        yield from _names(value, inputs=inputs)


def expression_text(expression: pl.Expr) -> str:
    """Return an expression as text. If the text is incomplete, a digest of the whole expression follows."""
    text = _ADDRESS.sub("", str(expression))
    if _PLAIN.fullmatch(text):
        return text
    try:
        whole = expression.meta.serialize(format="json")
    except pl.exceptions.PolarsError:  # it calls a user function
        whole = text
    return f"{text} #{hashlib.blake2b(whole.encode(), digest_size=4).hexdigest()}"


def not_a_column_name(aggregate: str, value: object) -> PlanError:
    """Return the error about a value that is no column name."""
    example = EXAMPLES.get(aggregate, f'ev.{aggregate}("price")')
    return PlanError(f"{aggregate} takes the name of a column, not {shown(value)}. Write for example {example}.")
