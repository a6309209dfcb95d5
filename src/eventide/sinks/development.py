"""Sinks for development: ``console`` prints batches, ``memory`` keeps the last batches as a view for SQL.

Exactly once: a repeated batch is printed again; in the view it replaces itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eventide._arguments import is_integer
from eventide._hints import with_option_hints
from eventide.panes import DIFF, PANE, PANE_INDEX, PANE_TIMING
from eventide.sinks.batch import Field, flat_fields, read_flat
from eventide.sinks.errors import bad_option, not_opened, second_output
from eventide.sinks.sink import Output, OutputInfo, Sink
from eventide.time import format_instant, instant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from eventide.sinks.batch import SinkBatch

_PRINTED = (PANE_TIMING, PANE_INDEX)  # of the columns about the pane itself
_STYLES = {"EARLY": "yellow", "ON_TIME": "green", "LATE": "red"}


@with_option_hints
def console(rows: int = 20) -> Sink:
    """Print the first ``rows`` rows of every batch, with colours if ``rich`` is installed. A replay prints again.

    >>> console(rows=5)
    console(rows=5)
    """
    if not is_integer(rows, at_least=1):
        raise bad_option("console", "rows", rows, "a number of rows, at least 1")
    return ConsoleSink(rows)


@dataclass(frozen=True)
class ConsoleSink:
    """Prints batches. It needs no column to identify a row, so a query is printed with the columns that it selects."""

    rows: int

    as_selected = True

    def __repr__(self) -> str:
        return f"console(rows={self.rows})"

    def open(self, schema: StructType, info: OutputInfo) -> None:
        """Do nothing."""

    def write(self, batch: SinkBatch, batch_id: int, info: OutputInfo) -> None:
        """Print the first rows, if there are any."""
        count = batch.arrow.num_rows  # reads all rows: with a limit, Spark would not compute all partitions
        if not count:
            return
        rows = read_flat(batch.head(self.rows), _printed_fields(batch.schema, info))
        lines = [[_cell(value) for value in row] for row in rows.rows()]
        _print(f"{info.output}, batch {batch_id}: {_count(count, len(lines))}", rows.columns, lines)

    def close(self) -> None:
        """Do nothing."""


def _printed_fields(schema: StructType, info: OutputInfo) -> list[Field]:
    hidden = set(PANE) - set(_PRINTED) if info.output == "panes" and info.row_grain != "rows" else set()
    return [field for field in flat_fields(schema) if field.name not in hidden]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return format_instant(instant(value)) if value.tzinfo else value.isoformat(sep=" ")
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _print(title: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    head, *rest = aligned(header, lines)
    try:
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        print(title, head, *rest, "", sep="\n", flush=True)
        return
    diff = header.index(DIFF) if DIFF in header else None
    styled = [Text(title, "bold"), Text(head, "underline")]
    for line, cells in zip(rest, lines, strict=True):
        styled.append(Text(line, "dim" if diff is not None and cells[diff] == "-1" else ""))
        for timing, colour in _STYLES.items():
            styled[-1].highlight_words([f" {timing} "], colour)
    # The terminal wraps long lines: nothing is cut off.
    Console(file=sys.stdout).print(*styled, "", sep="\n", soft_wrap=True)


def aligned(header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines of text: numbers are aligned to the right, other columns to the left.

    >>> for line in aligned(["shop", "n"], [["kiel", "7"], ["rom", "12"]]):
    ...     print(line)
    shop   n
    kiel   7
    rom   12
    """
    is_numeric = [all(_is_number(line[column]) for line in lines) for column in range(len(header))]
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, is_numeric, strict=True)
        ).rstrip()
        for line in (header, *lines)
    ]


def _is_number(cell: str) -> bool:
    try:
        float(cell or "0")
    except ValueError:
        return False
    return True


def _count(rows: int, printed: int) -> str:
    if printed < rows:
        return f"{printed} of {rows:,} rows"
    return f"{rows} row" if rows == 1 else f"{rows} rows"


@with_option_hints
def memory(name: str, *, rows: int = 100_000) -> Sink:
    """A temporary view ``name`` of the session, with the rows of the last batches. A replayed batch replaces itself.

    The rows are kept on the driver, and each batch replaces the view. With more than ``rows`` rows, the oldest batches
    are dropped as a whole; the newest batch always stays.

    >>> memory("panes")
    memory('panes', rows=100000)
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise bad_option("memory", "name", name, "a name as SQL has them: letters, digits and underscores")
    if not is_integer(rows, at_least=1):
        raise bad_option("memory", "rows", rows, "a number of rows, at least 1")
    return MemorySink(name, rows)


@dataclass
class MemorySink:
    """Keeps the last batches."""

    name: str
    rows: int
    _output: Output | None = field(default=None, repr=False)
    _schema: StructType | None = field(default=None, repr=False)
    _spark: SparkSession | None = field(default=None, repr=False)
    _batches: dict[int, pa.Table] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"memory({self.name!r}, rows={self.rows})"

    def open(self, schema: StructType, info: OutputInfo) -> None:
        """Create the view, so that it can be queried before the first batch."""
        from pyspark.sql import SparkSession

        if self._output not in (None, info.output):
            raise second_output(repr(self), str(self._output), info.output)
        self._output, self._schema = info.output, schema
        # Spark runs a batch in another session, whose views are private, so this keeps the session of the user.
        self._spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        self._replace_view()

    def write(self, batch: SinkBatch, batch_id: int, info: OutputInfo) -> None:
        """Keep the batch, and drop the oldest ones."""
        if self._schema is None:
            raise not_opened(repr(self), info.output)
        self._batches.pop(batch_id, None)
        if batch.arrow.num_rows:
            self._batches[batch_id] = batch.arrow
        while len(self._batches) > 1 and sum(rows.num_rows for rows in self._batches.values()) > self.rows:
            del self._batches[min(self._batches)]
        self._replace_view()

    def close(self) -> None:
        """Keep the view."""

    def _replace_view(self) -> None:
        assert self._spark is not None and self._schema is not None
        if self._batches:
            rows = pa.concat_tables(self._batches[batch_id] for batch_id in sorted(self._batches))
            view = self._spark.createDataFrame(rows, schema=self._schema)
        else:
            view = self._spark.createDataFrame([], schema=self._schema)
        view.createOrReplaceTempView(self.name)
