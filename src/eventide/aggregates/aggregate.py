"""The contract of aggregates: a frozen description that, bound to rows, names its accumulators and its result.

An accumulator is a column of partial results. Rows *start* it, partial results *merge*, and the *result* is read from
it. Accumulators with equal names are computed and stored once: ``mean("price")``, ``sum("price")`` and
``count("price")`` share theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, TypeAlias

import polars as pl

from eventide._column_refs import SparkColumn, not_a_column_name
from eventide._hints import with_option_hints
from eventide.aggregates.errors import no_aggregates, not_an_aggregate, unfinished_aggregate
from eventide.errors import PlanError, did_you_mean, shown

if TYPE_CHECKING:
    from eventide.aggregates.row_functions import RowWise
    from eventide.kernels.grouping import Adder

    AnyAccumulator: TypeAlias = "Accumulator | OwnPass | RowWise"

Result: TypeAlias = pl.Expr | Callable[[pl.DataFrame], pl.Series]
"""How a result column is read from accumulator columns: an expression, or a function of the cells."""

Addends: TypeAlias = pl.Series | Literal["rows", "no sum"]
"""A series of integers without nulls to add up in 64 bits, the number of rows, or neither."""
ROWS: Final = "rows"
NO_SUM: Final = "no sum"


@dataclass(frozen=True)
class Source:
    """The schema of the rows that an aggregate reads."""

    name: str
    """The result column that the aggregate fills."""
    schema: Mapping[str, pl.DataType]
    time: str
    """The column of event times, Int64 microseconds."""
    diff: str | None = None
    """The column of +1 and -1, where rows can be retracted."""
    read_columns: set[str] = field(default_factory=set)
    """The columns that are read: those whose type was requested."""
    computed: frozenset[str] = frozenset()
    """The columns that expressions of the aggregate compute. They are part of the schema."""

    def dtype(self, column: str, aggregate: Aggregate) -> pl.DataType:
        """Return the type of a column. An unknown column is an error that suggests the right name."""
        if not isinstance(column, str):
            raise not_a_column_name(aggregate.word, column)
        if column not in self.schema and isinstance(column, SparkColumn):
            raise PlanError(
                f"{aggregate.word}: {str(column)!r} is a Spark expression, which only Spark can compute. "
                f"Run the pipeline on a Spark DataFrame, or use a Polars one: ev.{aggregate.word}(pl.col('price') * 2)."
            )
        if column not in self.schema:
            raise PlanError(f"{aggregate}: there is no column {column!r}. {did_you_mean(column, self.schema)}")
        self.read_columns.add(column)
        return self.schema[column]


class Preparation(Protocol):
    """Columns that several accumulators read, computed before rows are grouped."""

    @property
    def name(self) -> str:
        """Preparations with equal names are computed once."""

    @property
    def reads(self) -> Sequence[str]:
        """The columns of rows that are read."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns that it computes. Of several with one name, the one with the most columns is computed."""

    def adder(self, rows: pl.DataFrame, size: int) -> Adder | None:
        """Return what adds up the columns by group number; None if addition is not enough."""

    def of_rows(self, rows: pl.DataFrame, *, per_row: bool) -> Mapping[str, pl.Series]:
        """Return the columns of rows, under the names that they have in cells.

        With ``per_row``, the result for a row depends only on this row. Without it, the result may depend on all rows.
        That is cheaper, but cells for which ``needs_recompute`` is true must be computed again.
        """

    def needs_recompute(self) -> pl.Expr | None:
        """Return which cells must be computed again per row; None: no cell."""

    def needs_alignment(self, frame: pl.DataFrame) -> bool:
        """Return whether rows or cells must be aligned before they are grouped."""

    def align(self, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the rows or cells with columns that can be grouped."""


@dataclass(frozen=True, eq=False)
class Accumulator:
    """A column of partial results, as expressions: ``start`` over rows, ``merge`` over partial cells.

    Both return one value per group. Cells are in the order of arrival.

    >>> import polars as pl
    >>> total = Accumulator("total", pl.Int64(), pl.col("price").sum(), pl.col("total").sum(), empty=0)
    >>> list(total.reads)
    ['price']
    """

    name: str
    dtype: pl.DataType
    start: pl.Expr
    merge: pl.Expr
    empty: object = None
    """The partial result of zero rows."""
    keeps_rows: bool = False
    """Its size grows with the rows, not with the keys."""
    ordered: bool = True
    """Whether the order of rows may matter. False allows a faster group-by."""
    prepared: Preparation | None = None
    """What is computed before ``start`` and ``merge``, which read its columns."""

    @property
    def reads(self) -> Sequence[str]:
        """The columns of rows that are read."""
        return self.start.meta.root_names() if self.prepared is None else self.prepared.reads

    def addends(self, frame: pl.DataFrame, *, starting: bool) -> Addends:
        """Return what to add up for each group, if addition is enough."""
        return NO_SUM

    def of_totals(self, totals: pl.DataFrame, frame: pl.DataFrame) -> pl.Series:
        """Return the partial result from the totals of the addends."""
        return totals[self.name]

    def starting(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.Expr:
        """Return ``start`` for these rows. Overridden where the data allows a cheaper form or needs a check."""
        return self.start

    def merging(self, cells: pl.DataFrame, by: Sequence[str]) -> pl.Expr:
        """Return ``merge`` for these cells."""
        return self.merge


class OwnPass(Protocol):
    """An accumulator that no expression can compute, so that it needs its own pass.

    The column ``GROUP`` has the number of each row's group.
    """

    @property
    def name(self) -> str:
        """The name of its column."""

    @property
    def dtype(self) -> pl.DataType:
        """The type of its column."""

    @property
    def empty(self) -> object:
        """The partial result of zero rows."""

    @property
    def keeps_rows(self) -> bool:
        """Its size grows with the rows, not with the keys."""

    def start(self, rows: pl.DataFrame, groups: int) -> pl.Series:
        """Return a partial result for each group, in the order of group numbers."""

    def merge(self, cells: pl.DataFrame, groups: int) -> pl.Series:
        """Return a merged partial result for each group."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The accumulators of an aggregate, and the result that is read from them.

    >>> import polars as pl
    >>> total = Accumulator("total", pl.Int64(), pl.col("price").sum(), pl.col("total").sum(), empty=0)
    >>> Parts([total], pl.col("total") / 100).result_of(pl.DataFrame({"total": [250]})).to_list()
    [2.5]
    """

    accumulators: Sequence[AnyAccumulator]
    result: Result

    def result_of(self, cells: pl.DataFrame) -> pl.Series:
        """Return the result column of cells."""
        if isinstance(self.result, pl.Expr):
            return cells.select(self.result).to_series()
        return self.result(cells)


class Aggregate:
    """Describes one result column of a window. Subclass it in one of two ways.

    **As Polars expressions**: override ``bind`` and return ``Parts``. Built-in aggregates work
    like this, and yours is as fast.

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
    ...     def merge(self, first, second):
    ...         return max(first, second, key=len)
    >>> try_out({"name": ["ann", "robert", "bob"]}, longest=Longest())
    {'longest': 'robert'}
    """

    word: ClassVar[str] = ""
    """The name of the public constructor, for messages."""
    mergeable: ClassVar[bool] = True
    """Partial results merge; otherwise rows are kept, and the work is done when a pane is emitted."""
    invertible: ClassVar[bool] = False
    """A row can be retracted by arithmetic, without keeping rows."""
    needs_rows: ClassVar[bool] = False
    """The state grows with the rows of a window."""
    python: ClassVar[bool] = False
    """User-written code runs for each row."""

    dtype: pl.DataType | None = None
    """Row by row: the type of the results."""
    reads: str | Sequence[str] | None = None
    """Row by row: the columns of ``row``. None means all, except ``diff`` and ``pane`` where
    rows can be retracted; a single name gives the bare values, without nulls."""
    on_error: Literal["dead", "raise"] = "dead"
    """Row by row: whether a row on which ``add`` raises becomes a dead letter, or stops the job."""

    def __init_subclass__(cls) -> None:
        # The inherited one, in place of the one that @dataclass would generate.
        cls.__repr__ = cls.__repr__  # type: ignore[method-assign]
        if cls.add is not Aggregate.add:
            cls.python = True
            cls.mergeable = cls.merge is not Aggregate.merge
            cls.needs_rows = not cls.mergeable
            cls.invertible = cls.remove is not Aggregate.remove

    def bind(self, source: Source) -> Parts:
        """Return the accumulators and the result for rows of this schema."""
        # Imported here, because row-wise aggregates are defined in terms of this class.
        from eventide.aggregates.row_functions import bind_rowwise

        return bind_rowwise(self, source)

    def create(self) -> Any:
        """Return the state of no rows."""
        raise unfinished_aggregate(self, "create")

    def add(self, state: Any, row: Any) -> Any:
        """Return the state with one more row."""
        raise unfinished_aggregate(self, "add")

    def remove(self, state: Any, row: Any) -> Any:
        """Return the state with a row retracted, possibly before it was added. Optional."""
        raise NotImplementedError

    def merge(self, first: Any, second: Any) -> Any:
        """Return the state of the rows of both; ``first`` arrived before ``second``. Optional."""
        raise NotImplementedError

    def result(self, state: Any) -> Any:
        """Return the value that a pane shows."""
        return state

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        word = self.word or type(self).__name__
        parts: list[str] = [_argument(self, f) for f in fields(self)] if is_dataclass(self) else []
        return f"{word}({', '.join(text for text in parts if text)})"


def _argument(aggregate: Aggregate, option: Field[Any]) -> str:
    value = getattr(aggregate, option.name)
    if option.default is MISSING:
        return str(value)
    return "" if value == option.default else f"{option.name}={value}"


@dataclass(frozen=True)
class Composite(Aggregate):
    """A struct with one field per aggregate."""

    fields: tuple[tuple[str, Aggregate], ...]

    word: ClassVar[str] = "composite"

    def __post_init__(self) -> None:
        aggregates = [aggregate for _, aggregate in self.fields]
        # A composite has a capability if all parts have it, and a cost if any part has it.
        for flag in ("mergeable", "invertible"):
            object.__setattr__(self, flag, all(getattr(a, flag) for a in aggregates))
        for flag in ("needs_rows", "python"):
            object.__setattr__(self, flag, any(getattr(a, flag) for a in aggregates))

    def bind(self, source: Source) -> Parts:
        parts = {name: aggregate.bind(replace(source, name=f"{source.name}.{name}")) for name, aggregate in self.fields}
        accumulators = [accumulator for part in parts.values() for accumulator in part.accumulators]

        def results(cells: pl.DataFrame) -> pl.Series:
            return pl.DataFrame([part.result_of(cells).alias(name) for name, part in parts.items()]).to_struct()

        return Parts(accumulators, results)

    def __str__(self) -> str:
        return f"composite({', '.join(f'{name}={aggregate}' for name, aggregate in self.fields)})"


@with_option_hints
def composite(**aggregates: Aggregate) -> Composite:
    """Combine several aggregates into one struct.

    >>> from eventide.aggregates import max, min, try_out
    >>> try_out({"price": [5, 7, 6]}, range=composite(low=min("price"), high=max("price")))
    {'range': {'low': 5, 'high': 7}}
    """
    if not aggregates:
        raise no_aggregates()
    for name, aggregate in aggregates.items():
        if name == "where" and not isinstance(aggregate, Aggregate):
            raise PlanError(
                f"composite(where={shown(aggregate)}): conditions belong to the aggregates in it, such as "
                "ev.composite(total=ev.sum('price', where=…), n=ev.count(where=…))."
            )
        if not isinstance(aggregate, Aggregate):
            raise not_an_aggregate(name, aggregate)
    return Composite(tuple(aggregates.items()))
