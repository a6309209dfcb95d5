"""What the table of an output looks like: its columns, and which of them say that two rows are the same window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from eventide.errors import sinks as errors
from eventide.sinks.flat import Field, flat_fields
from eventide.sinks.sink import About

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

INDEX, DIFF = "pane_index", "diff"
_WINDOW = ("window_start", "window_end")
_PANE = ("pane_timing", INDEX, "pane_is_last", "pane_at")


@dataclass(frozen=True)
class Shape:
    """The columns of a table. Without an identity its rows are appended; with one, a row replaces its like.

    Where an identity has many rows (``many``), they are replaced together (``"all"``), or each is put and taken back
    by itself (``"each"``).
    """

    fields: tuple[Field, ...]
    identity: tuple[str, ...] = ()
    order: tuple[Field, ...] = ()  # what says which of a batch's rows is the last, if the table does not have it
    many: Literal["all", "each"] | None = None

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [field.name for field in self.fields]

    @property
    def values(self) -> list[str]:
        """The columns that a row of the same identity replaces."""
        return [name for name in self.columns if name not in self.identity]

    @property
    def said(self) -> list[str]:
        """The columns that a row is known by when it is taken back: all but those that say how it was told."""
        return [field.name for field in self.fields if field.path[0] != "pane"]

    @property
    def read(self) -> tuple[Field, ...]:
        """What is read from a batch."""
        return (*self.fields, *self.order)


def shape_of(schema: StructType, about: About, columns: Sequence[str] | None = None) -> Shape:
    """The table of an output, with all of its columns or with those that are chosen."""
    windowed = about.output == "panes" and about.tells != "rows"
    fields = flat_fields(schema, panes=windowed)
    identity: tuple[str, ...] = ()
    order: list[Field] = []
    if about.output == "panes" and not windowed:
        # What joins give has a diff that is always 1; a processor may have a column of that name that says something.
        fields = [field for field in fields if (field.path, field.kind) != (("diff",), "byte")]
    if windowed:
        # The window is first: what a batch touches lies together in the index, because batches follow time.
        identity = (*_WINDOW, *about.key, *([INDEX] if about.mode == "discarding" else []))
        order = [field for field in fields if field.name in (INDEX, DIFF)]
        fields = [field for field in fields if field.path[0] != "diff" and _kept(field)]
    if columns is not None:
        fields = _chosen(fields, identity, columns)
    _check_names(fields)
    names = {field.name for field in fields}
    many: Literal["all", "each"] | None = None
    if windowed and about.tells == "pairs":
        identity = () if about.mode == "discarding" else identity  # nothing is taken back: rows are appended
        many = {"accumulating": "all", "retracting": "each"}.get(about.mode)  # type: ignore[assignment]
    return Shape(tuple(fields), identity, tuple(field for field in order if field.name not in names), many)


def _kept(field: Field) -> bool:
    return field.path[0] != "pane" or field.name in _PANE


def _chosen(fields: Sequence[Field], identity: Sequence[str], columns: Sequence[str]) -> list[Field]:
    if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
        raise errors.not_columns(columns)
    known = [field.name for field in fields]
    unknown = [name for name in columns if name not in known]
    if unknown:
        raise errors.unknown_columns(unknown, known)
    chosen = [field for field in fields if field.name in columns or field.name in identity]
    if not chosen:
        raise errors.no_columns()
    return chosen


def _check_names(fields: Sequence[Field]) -> None:
    seen: set[str] = set()
    for field in fields:
        if field.name.lower() in seen:  # SQLite and Spark do not tell them apart
            raise errors.two_columns(field.name)
        seen.add(field.name.lower())
