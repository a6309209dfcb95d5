"""``SELECT`` and ``HAVING``: columns, their names, the projection of panes, and clauses that streams do not support.

Filters and columns are functions of one row. A retraction repeats the values of its row, so the sum of the diffs stays
correct.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl
from sqlglot import exp

from eventide.errors import PlanError
from eventide.panes import DIFF, EMITTED_AT, PANE, PANE_IS_LAST, PANE_TIMING, RESERVED, WINDOW, WINDOW_TIME
from eventide.streamsql.errors import aggregate_in_where, no_such_alias, no_such_column, unsupported
from eventide.streamsql.expressions import (
    column,
    evaluate,
    filter_rows,
    has_aggregate,
    reject_changing,
    reject_unsupported,
)
from eventide.streamsql.source_positions import LocatedError, MissingColumnsError, at_position_of
from eventide.streamsql.spark_expressions import filter_frame, select_columns
from eventide.streamsql.syntax import Preceding, WindowTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table, and its names. Without ``columns`` any name is accepted.

    ``renamed`` has the columns that a subquery calls differently, and what its rows really call them.
    """

    table: str
    columns: tuple[str, ...] | None
    aliases: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)

    def has_table(self, name: str) -> bool:
        """Whether a qualifier refers to this table."""
        return name.lower() in {self.table.lower(), *(alias.lower() for alias in self.aliases)}

    def find(self, name: str) -> str | None:
        """Return the column with this name: exactly, or the only one ignoring case."""
        if self.columns is None or name in self.columns:
            return name
        matches = [column_name for column_name in self.columns if column_name.lower() == name.lower()]
        return matches[0] if len(matches) == 1 else None

    def stored_name(self, name: str) -> str | None:
        """Return the name of a column in the rows."""
        column_name = self.find(name)
        return None if column_name is None else self.renamed.get(column_name, column_name)

    def name(self, node: exp.Column) -> str:
        """Return the name of a column, or raise an error."""
        if node.table and not self.has_table(node.table):
            raise LocatedError(node, no_such_alias(node.table, [self.table, *sorted(self.aliases)]))
        return self._named(node, node.name)

    def resolve(self, node: exp.Expr) -> exp.Expr:
        """Return the expression over the columns of the rows."""
        reject_unsupported(node)
        resolved: exp.Expr = node.transform(lambda part: self._resolved(part) if _is_column(part) else part)
        return resolved

    def _resolved(self, node: exp.Column) -> exp.Expr:
        """Return a column, or a field of a struct column."""
        first, *fields = node.parts
        if fields and self.has_table(first.name):
            first, *fields = fields
        if fields and self.columns is None:  # perhaps a field of a struct
            raise MissingColumnsError(node, no_such_alias(first.name, [self.table, *sorted(self.aliases)]))
        if fields and self.find(first.name) is None:
            raise LocatedError(node, no_such_alias(first.name, [self.table, *sorted(self.aliases)]))
        resolved = at_position_of(column(self._named(node, first.name)), node)
        for field_name in fields:
            resolved = exp.Dot(this=resolved, expression=exp.to_identifier(field_name.name, quoted=True))
        return resolved

    def _named(self, node: exp.Column, name: str) -> str:
        column_name = self.stored_name(name)
        if column_name is None:
            raise LocatedError(node, no_such_column(name, self.table, self.columns or ()))
        return column_name


def _is_column(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and not isinstance(node.this, exp.Star)


def conjunction(nodes: Iterable[exp.Expr]) -> exp.Expr | None:
    """Return the conjunction of conditions; None: there are none."""
    conditions = list(nodes)
    return exp.and_(*conditions, copy=True) if conditions else None


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """Return the conditions that a conjunction consists of."""
    if node is None:
        return []
    if isinstance(node, exp.Paren):
        return conjuncts(node.this)
    return [*conjuncts(node.this), *conjuncts(node.expression)] if isinstance(node, exp.And) else [node]


WINDOW_COLUMNS = (*WINDOW, WINDOW_TIME)
"""Columns that every table of windows has, and that a query can group and join by."""


@dataclass(frozen=True)
class Projection:
    """Expressions over panes, and a condition. ``diff`` is added. Without columns, all are selected."""

    columns: Mapping[str, exp.Expr] | None = None
    where: exp.Expr | None = None

    def __post_init__(self) -> None:
        for expression in self.read:
            reject_changing(expression)

    @property
    def read(self) -> list[exp.Expr]:
        """The selected expressions, and the condition."""
        return [*([] if self.columns is None else self.columns.values()), *([] if self.where is None else [self.where])]

    def pane_column(self) -> str | None:
        """Return a pane column in the condition; None: there is none."""
        return next((name for name in PANE if name in self._condition_columns), None)

    def unrepeated_column(self) -> str | None:
        """Return a column in the condition that a retraction does not repeat; None: there is none."""
        return next((name for name in (DIFF, EMITTED_AT, PANE_IS_LAST) if name in self._condition_columns), None)

    @property
    def _condition_columns(self) -> set[str]:
        """The columns in the condition."""
        return set() if self.where is None else {node.name for node in self.where.find_all(exp.Column)}

    @property
    def every(self) -> dict[str, exp.Expr] | None:
        """The columns of the result."""
        return None if self.columns is None else dict(self.columns) | {DIFF: column(DIFF)}

    def apply_polars(self, panes: pl.DataFrame) -> pl.DataFrame:
        """Return the result of a frame of panes."""
        # SQL compares the timing as text.
        frame = panes.with_columns(pl.col(PANE_TIMING).cast(pl.String)) if PANE_TIMING in panes.columns else panes
        frame = frame if self.where is None else filter_rows(frame, self.where)
        if self.every is None:
            return frame.cast({PANE_TIMING: panes.schema[PANE_TIMING]}) if PANE_TIMING in panes.columns else frame
        return pl.DataFrame([evaluate(frame, expression).alias(name) for name, expression in self.every.items()])

    def apply_spark(self, panes: DataFrame) -> DataFrame:
        """Return the result of a DataFrame of panes."""
        if self.columns is None and self.where is None:
            return panes
        frame = panes if self.where is None else filter_frame(panes, self.where)
        return frame if self.every is None else select_columns(frame, self.every)


_UNSUPPORTED = {
    "order": ("ORDER BY", "A stream has no last row to wait for. Sort what you read from the sink."),
    "limit": ("LIMIT", "A stream does not end. For the greatest values use TOP_N(column, n)."),
    "offset": ("OFFSET", "A stream does not end. Remove it."),
    "qualify": ("QUALIFY", "Use HAVING."),
    "windows": ("WINDOW", "Use a window function in FROM: TUMBLE(…), HOP(…), SESSION(…)."),
    "laterals": ("LATERAL", "Explode rows before they are given to the query."),
    "sample": ("TABLESAMPLE", "Use WHERE."),
    "pivots": ("PIVOT", "Use COUNT(*) FILTER (WHERE …) for each column."),
    "connect": ("CONNECT BY", "Leave it out."),
    "match": ("MATCH_RECOGNIZE", "Write an operator of your own: ev.Processor."),
    "into": ("INTO", "Name the sink where the query is run."),
    "cluster": ("CLUSTER BY", "Leave it out."),
    "distribute": ("DISTRIBUTE BY", "Leave it out."),
    "sort": ("SORT BY", "Leave it out."),
    "joins": ("A join in brackets", "Write SELECT in front of it: (SELECT … FROM a JOIN b ON …)."),
    "locks": ("FOR UPDATE", "Leave it out."),
}
# The supported clauses of each kind of node. All others are rejected by name; none is ignored.
_KNOWN: dict[type[exp.Expr], set[str]] = {
    exp.Select: {"expressions", "from_", "where", "group", "having", "joins", "distinct", "with_", "emit"},
    exp.Group: {"expressions"},
    exp.Distinct: {"expressions"},
    exp.Star: set(),
    exp.Table: {"this", "alias", "over", "db"},
    exp.Subquery: {"this", "alias", "over"},
    exp.TableAlias: {"this"},
    exp.Join: {"this", "on", "using", "side", "kind", "method"},
    exp.Union: {"this", "expression", "distinct", "by_name", "with_"},
    exp.Cube: set(),
    exp.Rollup: set(),
    exp.GroupingSets: set(),
}
_NAMES: dict[tuple[type[exp.Expr], str], str] = {
    (exp.Distinct, "on"): "DISTINCT ON",
    (exp.Star, "except_"): "* EXCEPT",
    (exp.Star, "replace"): "* REPLACE",
    (exp.Group, "rollup"): "ROLLUP",
    (exp.Group, "cube"): "CUBE",
    (exp.Group, "all"): "GROUP BY ALL",
    (exp.TableAlias, "columns"): "An alias with columns",
    (exp.Table, "version"): "A table as of some time",
}


@dataclass(frozen=True)
class SelectItem:
    """A column of SELECT. ``name`` is its alias, or the name of a plain column."""

    name: str | None
    expression: exp.Expr

    @property
    def star(self) -> bool:
        """Whether the item is a star."""
        expression = self.expression
        return isinstance(expression, exp.Star) or (
            isinstance(expression, exp.Column) and isinstance(expression.this, exp.Star)
        )


def select_items(select: exp.Select) -> list[SelectItem]:
    """Return the columns of SELECT."""
    columns = []
    for node in select.expressions:
        if isinstance(node, exp.Alias):
            columns.append(SelectItem(node.alias, node.this))
        else:
            columns.append(SelectItem(node.name if isinstance(node, exp.Column) else None, node))
    return columns


def reject_duplicate(name: str, others: Iterable[str], at: exp.Expr) -> None:
    """Reject a duplicate name, also if only the case differs: not every engine distinguishes case."""
    for other in others:
        if other.lower() == name.lower():
            raise LocatedError(
                at,
                PlanError(f"Two columns are named {name!r}. Give one of them another name with AS.")
                if other == name
                else PlanError(
                    f"Columns named {other!r} and {name!r} are the same for some engines. Give one of them another "
                    "name with AS."
                ),
            )


def result_name(name: str, expression: exp.Expr) -> str:
    """Return the name of a column of SELECT. Reserved columns are lower case."""
    return name.lower() if name.lower() in RESERVED and expression == column(name.lower()) else name


def reject_reserved(name: str, expression: exp.Expr, at: exp.Expr, reserved: Collection[str] = RESERVED) -> None:
    """Reject a reserved name for another column."""
    if name.lower() in reserved and (name not in reserved or expression != column(name)):
        raise LocatedError(at, f"{name!r} is the name of a column that every result has. Choose another name with AS.")


def reject_clauses(query: exp.Expr) -> None:
    """Reject clauses that streams do not support, anywhere in a query."""
    for node in query.walk():
        for clause in [name for name, value in node.args.items() if value and _is_unknown(node, name)]:
            value = node.args[clause]
            part = value[0] if isinstance(value, list) else value
            what, fix = _UNSUPPORTED.get(
                clause, (_NAMES.get((type(node), clause)) or _clause_name(node, clause), "Leave it out.")
            )
            raise LocatedError(part if isinstance(part, exp.Expr) else node, unsupported(what, fix))
        _reject_misplaced(node)
        if isinstance(node, exp.Select) and node.args.get("from_") is None:
            raise LocatedError(node, unsupported("SELECT without FROM", "Name the stream whose rows are read."))


def reject_aggregates(condition: exp.Expr) -> None:
    """Reject aggregates in a condition on rows."""
    reject_unsupported(condition)
    for call in condition.find_all(exp.Anonymous):
        if has_aggregate(call):
            raise LocatedError(call, aggregate_in_where(call.name.upper()))


def _reject_misplaced(node: exp.Expr) -> None:
    """Reject OVER and window functions in the wrong place."""
    over = node.args.get("over")
    if isinstance(over, Preceding) and not isinstance(node.parent, exp.Join):
        raise LocatedError(
            over, "OVER follows the joined table: FROM shipments JOIN orders OVER (ROWS 3 PRECEDING) ON …."
        )
    if isinstance(node, exp.Window) and isinstance(node.this, WindowTable):
        raise LocatedError(
            node,
            f"OVER behind {node.this.args['kind']}(…) is not supported: a row is joined with rows of "
            "its window, or with rows before it. Leave one of them out.",
        )
    if isinstance(node, WindowTable) and isinstance(node.parent, exp.Table):
        around = node.parent.parent
        if isinstance(around, WindowTable):
            fix = "Group by the inner windows in a subquery, and give that its windows."
            raise LocatedError(node, unsupported(f"{node.args['kind']} inside {around.args['kind']}", fix))
        if isinstance(around, exp.Subquery):
            raise LocatedError(node, unsupported(f"{node.args['kind']} in brackets", "Leave the brackets out."))


def _is_unknown(node: exp.Expr, clause: str) -> bool:
    clauses = _KNOWN.get(type(node))
    return clauses is not None and clause not in clauses


def _clause_name(node: exp.Expr, clause: str) -> str:
    if isinstance(node, exp.Cube | exp.Rollup | exp.GroupingSets):
        return "GROUPING SETS" if isinstance(node, exp.GroupingSets) else type(node).__name__.upper()
    return clause.strip("_").replace("_", " ").upper()


def table_of(select: exp.Select) -> exp.Expr:
    """Return the table of FROM, without ``TABLE(…)``."""
    table: exp.Expr = select.args["from_"].this
    return without_table_call(table)


def without_table_call(table: exp.Expr) -> exp.Expr:
    """Return a table without ``TABLE(…)``."""
    inner = table.this
    if isinstance(inner, exp.Anonymous) and inner.name.lower() == "table" and len(inner.expressions) == 1:
        table.set("this", inner.expressions[0])
    return table


def alias_of(table: exp.Expr) -> tuple[str, ...]:
    """Return the alias of a table, if it has one."""
    return (table.alias,) if table.alias else ()


def is_grouped(select: exp.Select) -> bool:
    """Whether a query groups."""
    table = table_of(select)
    if select.args.get("group") or select.args.get("having") or isinstance(table.this, WindowTable):
        return True
    return any(has_aggregate(expression) for expression in select.expressions)
