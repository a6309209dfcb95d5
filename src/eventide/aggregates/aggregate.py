"""What an aggregate is: a frozen description that, bound to rows, names its accumulators and its result.

An accumulator is a column of partial results. Rows *start* it, partial results *merge* into one, and the
*result* is read from it. Equal names are one accumulator, computed and stored once: ``mean("price")``,
``sum("price")`` and ``count("price")`` share theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, TypeAlias

import polars as pl

from eventide.errors import aggregates as errors

if TYPE_CHECKING:
    from eventide.aggregates.dense import Adder
    from eventide.aggregates.rowwise import RowWise

    AnyAccumulator: TypeAlias = "Accumulator | OwnPass | RowWise"

Result: TypeAlias = pl.Expr | Callable[[pl.DataFrame], pl.Series]
"""How a result column is read from accumulator columns: an expression, or a function of the cells."""

Addends: TypeAlias = pl.Series | Literal["rows", "no sum"]
"""A series of integers without nulls to add up in 64 bits, or the number of rows; or no such simple thing."""
ROWS: Final = "rows"
NO_SUM: Final = "no sum"


@dataclass(frozen=True)
class Source:
    """The rows that an aggregate will read, known by their schema."""

    name: str
    """The result column that the aggregate fills."""
    schema: Mapping[str, pl.DataType]
    time: str
    """The column of event times, Int64 microseconds."""
    diff: str | None = None
    """The column of +1 and -1, where rows can be taken back."""
    asked: set[str] = field(default_factory=set)
    """The columns whose type was asked for: those that are read."""

    def dtype(self, column: str, aggregate: Aggregate) -> pl.DataType:
        """The type of a column, or an error that suggests the right name."""
        if not isinstance(column, str):
            raise errors.not_a_column_name(aggregate.word, column)
        if column not in self.schema:
            raise errors.missing_column(aggregate, column, self.schema)
        self.asked.add(column)
        return self.schema[column]


class Preparation(Protocol):
    """Columns that several accumulators read, computed before rows are grouped."""

    @property
    def name(self) -> str:
        """Equal names are one preparation."""

    @property
    def reads(self) -> Sequence[str]:
        """The columns of rows that are looked at."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns that it computes. Of several with one name, the one with the most columns is computed."""

    def adder(self, rows: pl.DataFrame, size: int) -> Adder | None:
        """What adds up the columns of rows by group number, where that is all there is to do."""

    def of_rows(self, rows: pl.DataFrame, *, apart: bool) -> Mapping[str, pl.Series]:
        """The columns of rows, under the names that they have in cells.

        With ``apart``, what is computed for a row depends on this row alone. Without it, it may depend on all rows;
        it is then cheaper, but cells for which ``unsure`` holds must be computed again.
        """

    def unsure(self) -> pl.Expr | None:
        """Which cells must be computed again, from rows that were not computed apart."""

    def spread(self, frame: pl.DataFrame) -> bool:
        """Whether rows or cells must be aligned before they are grouped."""

    def aligned(self, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """The rows or cells with columns that can be grouped."""


@dataclass(frozen=True, eq=False)
class Accumulator:
    """A column of partial results, as expressions: ``start`` over rows, ``merge`` over partial cells.

    Both must give one value per group. Cells stand in the order of arrival, older ones first.
    """

    name: str
    dtype: pl.DataType
    start: pl.Expr
    merge: pl.Expr
    empty: object = None
    """What zero rows leave behind."""
    keeps_rows: bool = False
    """It grows with the rows, not with the keys."""
    ordered: bool = True
    """The order of rows may matter. False allows faster ways."""
    prepared: Preparation | None = None
    """What must be computed before: ``start`` and ``merge`` read its columns."""

    @property
    def reads(self) -> Sequence[str]:
        """The columns of rows that are looked at."""
        return self.start.meta.root_names() if self.prepared is None else self.prepared.reads

    def addends(self, frame: pl.DataFrame, *, starting: bool) -> Addends:
        """What to add up for each group, where that is all there is to do."""
        return NO_SUM

    def of_totals(self, totals: pl.DataFrame, frame: pl.DataFrame) -> pl.Series:
        """The partial result, from what the addends of all accumulators add up to."""
        return totals[self.name]

    def starting(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.Expr:
        """``start``, for these rows: overridden where the data allow a cheaper form or need a check."""
        return self.start

    def merging(self, cells: pl.DataFrame, by: Sequence[str]) -> pl.Expr:
        """``merge``, for these cells."""
        return self.merge


class OwnPass(Protocol):
    """An accumulator that no expression can compute, so that it makes a pass of its own.

    Groups come numbered in the column ``GROUP`` (see ``numbering``), keys do not matter here.
    """

    @property
    def name(self) -> str:
        """Its column."""

    @property
    def dtype(self) -> pl.DataType:
        """The type of that."""

    @property
    def empty(self) -> object:
        """What zero rows leave behind."""

    @property
    def keeps_rows(self) -> bool:
        """It grows with the rows, not with the keys."""

    def start(self, rows: pl.DataFrame, groups: int) -> pl.Series:
        """One partial result for each of the groups, in their order."""

    def merge(self, cells: pl.DataFrame, groups: int) -> pl.Series:
        """One partial result for each of the groups, from partial results."""


@dataclass(frozen=True, eq=False)
class Parts:
    """What binding gives: the accumulators, and the result read from them."""

    accumulators: Sequence[AnyAccumulator]
    result: Result

    def result_of(self, cells: pl.DataFrame) -> pl.Series:
        """The result column of some cells."""
        if isinstance(self.result, pl.Expr):
            return cells.select(self.result).to_series()
        return self.result(cells)


class Aggregate:
    """Describes one result column of a window. Subclass it for one's own, in one of two ways.

    **As Polars expressions**: override ``bind`` and return ``Parts``. This is how the built-in ones work,
    and it is as fast.

    >>> import polars as pl
    >>> from eventide.aggregates import Accumulator, Aggregate, Parts, try_out
    >>> class Product(Aggregate):
    ...     def __init__(self, column):
    ...         self.column = column
    ...     def bind(self, source):
    ...         name = f"product({self.column})"
    ...         start, merge = pl.col(self.column).product(), pl.col(name).product()
    ...         return Parts([Accumulator(name, pl.Int64(), start, merge, empty=1)], pl.col(name))
    >>> try_out({"price": [2, 3, 7]}, all=Product("price"))
    {'all': 42}

    **Row by row, in Python**: override ``create``, ``add``, ``merge`` and, where the state is not the result,
    ``result``; ``dtype`` is the type of the results. States are pickled. ``add`` may change the state that it
    is given, or return a new one; nothing else may depend on it, since a row can be added more than once.
    Without ``merge``, rows are kept and added in the order of event time when a result is asked for.

    >>> class Longest(Aggregate):
    ...     dtype = pl.String()
    ...     def create(self):
    ...         return ""
    ...     def add(self, longest, row):
    ...         return max(longest, row["name"], key=len)
    ...     def merge(self, one, other):
    ...         return max(one, other, key=len)
    >>> try_out({"name": ["ann", "robert", "bob"]}, longest=Longest())
    {'longest': 'robert'}
    """

    word: ClassVar[str] = ""
    """The name of the public constructor, for messages."""
    mergeable: ClassVar[bool] = True
    """Partial results merge; otherwise rows are kept, and the work is done when a pane is emitted."""
    invertible: ClassVar[bool] = False
    """A row can be taken back by arithmetic, without keeping rows."""
    needs_rows: ClassVar[bool] = False
    """The state grows with the rows of a window."""
    python: ClassVar[bool] = False
    """User-written code runs for each row."""

    dtype: pl.DataType | None = None
    """Row by row: the type of the results."""
    reads: str | Sequence[str] | None = None
    """Row by row: the columns of ``row``. None means all, except ``diff`` and ``pane`` where
    rows can be taken back; a single name gives the bare values, without nulls."""
    on_error: Literal["dead_letter", "raise"] = "dead_letter"
    """Row by row: what happens to a row on which ``add`` raises, and so to the job."""

    def __init_subclass__(cls) -> None:
        if cls.add is not Aggregate.add:
            cls.python = True
            cls.mergeable = cls.merge is not Aggregate.merge
            cls.needs_rows = not cls.mergeable
            cls.invertible = cls.remove is not Aggregate.remove

    def bind(self, source: Source) -> Parts:
        """The accumulators and the result, for rows of this schema."""
        # Late, because row-wise code is written in terms of this class.
        from eventide.aggregates.rowwise import bind_rowwise

        return bind_rowwise(self, source)

    def create(self) -> Any:
        """The state of no rows."""
        raise errors.unfinished_aggregate(self, "create")

    def add(self, state: Any, row: Any) -> Any:
        """The state with one more row."""
        raise errors.unfinished_aggregate(self, "add")

    def remove(self, state: Any, row: Any) -> Any:
        """The state with a row taken back, perhaps before it was added. Optional."""
        raise NotImplementedError

    def merge(self, one: Any, other: Any) -> Any:
        """The state of the rows of both; ``one`` arrived before ``other``. Optional."""
        raise NotImplementedError

    def result(self, state: Any) -> Any:
        """What a pane shows."""
        return state

    def __str__(self) -> str:
        word = self.word or type(self).__name__
        shown: list[str] = [_shown(self, f) for f in fields(self)] if is_dataclass(self) else []
        return f"{word}({', '.join(text for text in shown if text)})"


def _shown(aggregate: Aggregate, option: Field[Any]) -> str:
    value = getattr(aggregate, option.name)
    if option.default is MISSING:
        return str(value)
    return "" if value == option.default else f"{option.name}={value}"
