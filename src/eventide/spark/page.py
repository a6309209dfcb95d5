"""Pages: what moves between the stages. A page is a row with a few plain columns and a body of columnar data.

Few fat rows, not many thin ones, cross the shuffle and the border between Python and the JVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from eventide.operators.bundle import Stamp
from eventide.operators.outcome import Stamped
from eventide.state import snapshot
from eventide.state.compact import Compression

SCHEMA = "bucket int, kind string, sequence bigint, now bigint, body binary, counts map<string,bigint>, detail string"

# Kinds of pages on their way to an operator.
STAMP = "stamp"  # a task's rows as cells
ROWS = "rows"  # a task's rows as they came: the watermark that stood was not known there
PROMISE = "promise"  # what the operator before promises of its output times
CONTROL = "control"  # a command
TICK = "tick"  # time passes

# Kinds of pages on their way out of one. What is not for the next operator passes through it, so these but panes also
# say how deep in the chain their operator stands: ``late.0``.
PANES = "panes"
LATE = "late"
DEAD = "dead"
PROGRESS = "progress"

_COMPRESSION: Compression = "lz4"  # Spark compresses what it shuffles
_CHUNKS = 1 << 20  # chunks of one task: the sequence of a page is its task's number, then its own


@dataclass(frozen=True)
class Page:
    """One page. Only what a kind needs is filled."""

    bucket: int
    kind: str
    sequence: int
    now: int
    body: bytes | None = None
    counts: dict[str, int] | None = None
    detail: str | None = None

    def row(self) -> dict[str, Any]:
        """As Spark takes it."""
        return self.__dict__


def sequence(task: int, chunk: int) -> int:
    """The order in which pages are absorbed: by task, then as each task made them. A replay has the same."""
    return task * _CHUNKS + chunk


def at_depth(kind: str, depth: int) -> str:
    """The kind of a page of the operator at some depth.

    >>> at_depth(LATE, 1), at_depth(PANES, 1)
    ('late.1', 'panes')
    """
    return kind if kind == PANES else f"{kind}.{depth}"


def stamp_to_bytes(stamp: Stamp) -> bytes:
    """A stamp as the body of a page."""
    parts = {name: getattr(stamp.stamped, name) for name in ("cells", "rows", "late", "outside", "failed")}
    return snapshot.dump(
        {
            "rows": stamp.rows,
            "dead": list(stamp.dead),
            "summary": stamp.summary,
            "behind": stamp.behind,
            "stamped": parts,
            "edge": stamp.edge,
        },
        compression=_COMPRESSION,
    )


def stamp_from_bytes(body: bytes) -> Stamp:
    """The stamp that is a page's body."""
    content = snapshot.load(body)
    return Stamp(**content | {"stamped": Stamped(**content["stamped"])})


def rows_to_bytes(rows: pl.DataFrame, summary: pl.DataFrame, edge: int) -> bytes:
    """Rows as they came on an input, and what all rows of their task say of the watermark."""
    return snapshot.dump({"rows": rows, "summary": summary, "edge": edge}, compression=_COMPRESSION)


def rows_from_bytes(body: bytes) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """The rows and the summary of a page, and the number of the input."""
    content = snapshot.load(body)
    return content["rows"], content["summary"], content["edge"]
