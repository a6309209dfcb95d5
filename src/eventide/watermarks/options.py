"""The options that watermark strategies share, and their checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeAlias

import polars as pl

from eventide._arguments import is_integer
from eventide._column_refs import named
from eventide.errors import PlanError, did_you_mean, shown
from eventide.time import duration, format_duration
from eventide.watermarks.errors import not_a_column
from eventide.watermarks.watermark import check_key

OnReturn = Literal["hold", "catch_up"]
Gaps = Literal["wait", "allowed"]
Length: TypeAlias = str | timedelta

MAX_FUTURE_SKEW = 86_400_000_000
"""The default of ``max_future_skew``, one day: longer than clocks and time zones differ, shorter than a wrong year."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Checked options; durations are microseconds.

    ``origin`` names the column of the source of a row; without it all rows have one origin.
    ``sequence``, ``chunk`` and ``last_chunk`` number what an origin sends, so that gaps show. ``first_sequence`` is the
    number that an origin begins with, and ``gaps`` whether the watermark waits for missing numbers.
    ``idle_timeout`` is how long an origin may send nothing before the watermark stops waiting for it, and
    ``on_return`` what happens when it returns behind the watermark. ``forget_after`` is how far the watermark is past
    an idle origin when the origin is forgotten (see ``eventide.watermarks.expiry``). ``max_future_skew`` is how far
    ahead of the batch's time a row may be (None: any distance). ``expect_origins`` (and ``origins_timeout``) hold the
    watermark until all have been seen. ``gap_timeout`` is how long to wait for a missing sequence number.

    A pipeline sets the last four: ``deduplicate``, whether rows whose number was seen are
    rejected; ``ids``, columns whose values occur once ``ids_within`` a span of event time; ``offset``, the column by
    whose values rows are windowed.
    """

    origin: str | None = None
    sequence: str | None = None
    first_sequence: int = 1
    gaps: Gaps = "wait"
    chunk: str | None = None
    last_chunk: str | None = None
    first_chunk: int = 1
    idle_timeout: int | None = None
    forget_after: int | None = None
    on_return: OnReturn = "hold"
    max_future_skew: int | None = MAX_FUTURE_SKEW
    expect_origins: int | tuple[str, ...] | None = None
    origins_timeout: int | None = None
    gap_timeout: int | None = None
    watermark_key: int = 0
    deduplicate: bool = False
    ids: tuple[str, ...] = ()
    ids_within: int = 0
    offset: str | None = None

    def columns(self) -> tuple[str, ...]:
        """The columns that the options name."""
        chosen = (self.origin, self.sequence, self.chunk, self.last_chunk, *self.ids, self.offset)
        return tuple(column for column in chosen if column is not None)

    @property
    def shift(self) -> int:
        """The number to add to sequences, so that the first one is 1."""
        return 1 - self.first_sequence

    def describe(self) -> list[str]:
        """The options that differ from their defaults, a few words each."""
        parts = [f"per {self.origin!r}"] if self.origin is not None else []
        if self.sequence is not None:
            chunks = f" in chunks {self.chunk!r}" if self.chunk is not None else ""
            how = "gap-free by" if self.gaps == "wait" else "numbered by"
            first = "" if self.first_sequence == 1 else f" from {self.first_sequence}"
            parts.append(f"{how} {self.sequence!r}{chunks}{first}")
        if self.deduplicate:
            parts.append("repeated numbers are dead letters")
        if self.ids:
            names = " and ".join(map(repr, self.ids))
            parts.append(f"repeats of {names} within {format_duration(self.ids_within)} are dead letters")
        if self.gap_timeout is not None:
            parts.append(f"gaps skipped after {format_duration(self.gap_timeout)}")
        if self.idle_timeout is not None:
            parts.append(f"idle after {format_duration(self.idle_timeout)}")
        if self.forget_after is not None:
            parts.append(f"idle origins forgotten after {format_duration(self.forget_after)}")
        if self.on_return == "catch_up":
            parts.append("origins that return are left out until they catch up")
        if self.expect_origins is not None:
            expected = self.expect_origins
            count = expected if isinstance(expected, int) else len(expected)
            origins_timeout = (
                f" for at most {format_duration(self.origins_timeout)}" if self.origins_timeout is not None else ""
            )
            parts.append(f"waits for {count} origins{origins_timeout}")
        if self.watermark_key:
            parts.append(f"watermark key {self.watermark_key}")
        return parts


COLUMN_OPTIONS = ("origin", "sequence", "chunk", "last_chunk")
"""The options that name a column."""

_DURATIONS = ("idle_timeout", "forget_after", "max_future_skew", "origins_timeout", "gap_timeout")
_NEEDS = (
    ("chunk", "sequence", "chunks are the parts of a sequence"),
    ("last_chunk", "chunk", "it flags the last one of a sequence's chunks"),
    ("chunk", "last_chunk", "without it no sequence is ever known to be complete"),
    ("first_chunk", "chunk", "it is the number of a sequence's first chunk"),
    ("expect_origins", "origin", "a stream without an origin column has one origin only"),
    ("forget_after", "origin", "a stream without an origin column has one origin only"),
    ("forget_after", "idle_timeout", "an origin that the watermark waits for is never forgotten"),
    ("origins_timeout", "expect_origins", "it limits how long they are waited for"),
    ("gap_timeout", "sequence", "only numbered rows can have gaps"),
    ("gaps", "sequence", "only numbered rows can have gaps"),
    ("first_sequence", "sequence", "it is the number that an origin begins with"),
)


def read_options(strategy: str, arguments: Mapping[str, Any]) -> Options:
    """Read and check the options of ``strategy``.

    >>> read_options("bounded_delay", {"origin": "device", "idle_timeout": "2m"}).idle_timeout
    120000000
    """
    read = {name: named(value) for name, value in arguments.items() if value is not None}
    for name in ("first_chunk", "first_sequence"):
        first = read.pop(name, 1)
        if not is_integer(first, at_least=0):
            raise _bad_first(strategy, name, first)
        if first != 1:
            read[name] = first
    gaps = read.pop("gaps", "wait")
    if gaps not in ("wait", "allowed"):
        raise _unknown_gaps(strategy, gaps)
    if gaps != "wait":
        read["gaps"] = gaps
        for name in ("gap_timeout", "chunk"):
            if name in read:
                raise PlanError(
                    f"{strategy}(): with gaps='allowed' no number is waited for, so {name}= has no effect. Remove it."
                )
    _check_columns(strategy, read)
    for option, needed, why in _NEEDS:
        if option in read and needed not in read:
            raise PlanError(f"{strategy}(): {option} needs {needed}: {why}. Add {needed}=, or leave {option} out.")
    for name in _DURATIONS:
        if name in read:
            read[name] = duration(read[name], what=f"{name} of {strategy}()", zero=name == "max_future_skew")
    if read.get("on_return", "hold") not in ("hold", "catch_up"):
        raise PlanError(
            f"{strategy}(): on_return={shown(read['on_return'])} is not known. "
            f"{did_you_mean(str(read['on_return']), ['hold', 'catch_up'])} "
            "'hold': the watermark waits for an origin that returns behind it; "
            "'catch_up': that origin is left out until it has caught up, and its rows may be late."
        )
    if "expect_origins" in read:
        read["expect_origins"] = _expected(strategy, read["expect_origins"])
    check_key(read.get("watermark_key", 0))
    return Options(**{"max_future_skew": None} | read)


def check_type(strategy: str, option: str, column: str, dtype: pl.DataType) -> None:
    """Raise an error if a column has the wrong type for an option.

    >>> check_type("lag", "sequence", "offset", pl.Int64())
    """
    if option == "origin" and (dtype.is_nested() or dtype in (pl.Binary, pl.Object)):
        raise PlanError(
            f"{strategy}(): origin column {column!r} is {dtype}, which has no text form to name an origin by. "
            "Cast it to a string first."
        )
    if option in ("sequence", "chunk") and not dtype.is_integer():
        raise PlanError(
            f"{strategy}(): {option} column {column!r} is {dtype}; it must hold whole numbers. Cast it to "
            "an integer first."
        )
    if option == "last_chunk" and dtype != pl.Boolean:
        raise PlanError(
            f"{strategy}(): last_chunk column {column!r} is {dtype}; it must be a boolean that is true in the rows "
            "of a sequence's last chunk."
        )


def _check_columns(strategy: str, read: Mapping[str, Any]) -> None:
    used: dict[str, list[str]] = {}
    for option in COLUMN_OPTIONS:
        if option not in read:
            continue
        column = read[option]
        if not isinstance(column, str) or not column:
            raise not_a_column(strategy, option, column)
        used.setdefault(column, []).append(option)
    for column, options in used.items():
        if len(options) > 1:
            raise PlanError(
                f"{strategy}(): column {column!r} is given as {' and as '.join(options)}. "
                "Each of them is a different number; name a column for each."
            )


def _expected(strategy: str, value: object) -> int | tuple[str, ...]:
    if is_integer(value, at_least=1):
        return value
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        names = list(value)
        if names and all(isinstance(name, str | int) and not isinstance(name, bool) for name in names):
            return tuple(dict.fromkeys(map(str, names)))
    raise PlanError(
        f"{strategy}(): expect_origins={shown(value)} is neither a number of origins nor their names. "
        "Write expect_origins=8, or expect_origins=['berlin', 'paris']."
    )


def _bad_first(strategy: str, option: str, value: object) -> PlanError:
    """The error about a first number that is negative or not an integer."""
    what = option.removeprefix("first_")
    return PlanError(
        f"{strategy}(): {option}={shown(value)} is not a {what} number: it must be an integer of at least 0. "
        f"Write {option}=0 if {what}s are counted from zero, and leave it out if they are counted from one."
    )


def _unknown_gaps(strategy: str, value: object) -> PlanError:
    """The error about a misspelt ``gaps``."""
    hint = did_you_mean(str(value), ["wait", "allowed"])
    return PlanError(
        f"{strategy}(): gaps={shown(value)} is not known. {hint} 'wait': the watermark "
        "waits for missing numbers; 'allowed': numbers have holes, as offsets of Kafka."
    )
