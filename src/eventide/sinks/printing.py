"""Batches printed as they come, for development."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from eventide.errors import sinks as errors
from eventide.sinks.flat import Field, flat_fields, flat_rows
from eventide.sinks.sink import About, Sink
from eventide.time import format_instant, instant

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from eventide.sinks.batch import SinkBatch

_SHOWN = ("pane_timing", "pane_index")  # of a pane's own columns
_STYLES = {"EARLY": "yellow", "ON_TIME": "green", "LATE": "red"}


def console(rows: int = 20) -> Sink:
    """Print every batch, its first ``rows`` rows; with colours where ``rich`` is installed. A replay prints again.

    >>> console(rows=5)
    console(rows=5)
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise errors.bad_option("console", "rows", rows, "a number of rows, at least 1")
    return ConsoleSink(rows)


@dataclass(frozen=True)
class ConsoleSink:
    """Prints. It needs no column to recognise a row by, so a query is printed with the columns that it selects."""

    rows: int

    as_selected = True

    def __repr__(self) -> str:
        return f"console(rows={self.rows})"

    def open(self, schema: StructType, about: About) -> None:
        """Nothing to prepare."""

    def write(self, batch: SinkBatch, batch_id: int, about: About) -> None:
        """Print the first rows; nothing, where there are none."""
        rows = batch.arrow.num_rows  # all of them: a limit alone would leave partitions, and so their state, behind
        if not rows:
            return
        shown = flat_rows(batch.head(self.rows), _shown(batch.schema, about))
        header, lines = _lines(shown, about)
        title = f"{about.output}, batch {batch_id}: {_count(rows, len(lines))}"
        _print(title, header, lines)

    def close(self) -> None:
        """Nothing to let go of."""


def _shown(schema: StructType, about: About) -> list[Field]:
    fields = flat_fields(schema, panes=about.output == "panes" and about.tells != "rows")
    return [field for field in fields if field.path[0] != "pane" or len(field.path) == 1 or field.name in _SHOWN]


def _lines(frame: pl.DataFrame, about: About) -> tuple[list[str], list[list[str]]]:
    """The names and the cells, with the two bounds of a window as one."""
    names = frame.columns
    header = [name.removeprefix("pane_") if name in _SHOWN else name for name in names]
    lines = [[_cell(value) for value in row] for row in frame.rows()]
    if about.output == "panes" and about.tells != "rows" and "window_start" in names:
        at = names.index("window_start")
        header[at : at + 2] = ["window"]
        lines = [[*line[:at], f"[{line[at]}, {line[at + 1]})", *line[at + 2 :]] for line in lines]
    return header, lines


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
    diff = header.index("diff") if "diff" in header else None
    styled = [Text(title, "bold"), Text(head, "underline")]
    for line, cells in zip(rest, lines, strict=True):
        styled.append(Text(line, "dim" if diff is not None and cells[diff] == "-1" else ""))
        for timing, colour in _STYLES.items():
            styled[-1].highlight_words([f" {timing} "], colour)
    # What does not fit into the terminal is for the terminal to wrap: nothing is cut off.
    Console(file=sys.stdout).print(*styled, "", sep="\n", soft_wrap=True)


def aligned(header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """Columns of text: numbers to the right, the rest to the left.

    >>> for line in aligned(["shop", "n"], [["kiel", "7"], ["rom", "12"]]):
    ...     print(line)
    shop   n
    kiel   7
    rom   12
    """
    right = [_numbers(lines, i) for i in range(len(header))]
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in (header, *lines)
    ]


def _numbers(lines: Sequence[Sequence[str]], column: int) -> bool:
    return all(_is_number(line[column]) for line in lines)


def _is_number(cell: str) -> bool:
    try:
        float(cell or "0")
    except ValueError:
        return False
    return True


def _count(rows: int, shown: int) -> str:
    if shown < rows:
        return f"{shown} of {rows:,} rows"
    return f"{rows} row" if rows == 1 else f"{rows} rows"
