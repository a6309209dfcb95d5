"""The options that watermark strategies share, read and checked when a strategy is written down."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, TypedDict

import polars as pl

from eventide.columns import named
from eventide.errors import watermarks as errors
from eventide.time import duration, format_duration
from eventide.watermarks.watermark import check_key

OnReturn = Literal["hold", "catch_up"]

MAX_FUTURE_SKEW = 86_400_000_000
"""The default of ``max_future_skew``, one day: longer than clocks and time zones differ, shorter than a wrong year."""

CLOCK_OPTIONS = ("max_future_skew", "watermark_key")
"""What a strategy can use that does not look at origins."""


class ClockOptions(TypedDict, total=False):
    """Options of strategies that follow no origin."""

    max_future_skew: str | timedelta | None
    watermark_key: int


class OriginOptions(ClockOptions, total=False):
    """Options of strategies that follow the rows of each origin. ``Options`` says what each means."""

    origin: str | None
    sequence: str | None
    chunk: str | None
    last_chunk: str | None
    first_chunk: int
    idle_timeout: str | timedelta | None
    on_return: OnReturn
    expect_origins: int | Collection[str | int] | None
    origins_timeout: str | timedelta | None
    gap_timeout: str | timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Checked options; durations are microseconds.

    ``origin`` names the column that says where a row comes from; without it all rows have one origin.
    ``sequence``, ``chunk`` and ``last_chunk`` number what an origin sends, so that gaps show.
    ``idle_timeout`` is how long an origin may be silent before the watermark stops waiting for it, and
    ``on_return`` what happens when it returns behind the watermark. ``max_future_skew`` is how far ahead of the
    batch's time a row may be (None: any distance). ``expect_origins`` (and ``origins_timeout``) hold the watermark
    until all have been seen. ``gap_timeout`` is how long to wait for a missing sequence number.

    What a pipeline adds is not written here by users, and is no part of how options are shown: ``deduplicate``, whether
    rows whose number has been seen are set aside; ``offset``, the column by whose values rows are windowed.
    """

    origin: str | None = None
    sequence: str | None = None
    chunk: str | None = None
    last_chunk: str | None = None
    first_chunk: int = 1
    idle_timeout: int | None = None
    on_return: OnReturn = "hold"
    max_future_skew: int | None = MAX_FUTURE_SKEW
    expect_origins: int | tuple[str, ...] | None = None
    origins_timeout: int | None = None
    gap_timeout: int | None = None
    watermark_key: int = 0
    deduplicate: bool = field(default=False, repr=False)
    offset: str | None = field(default=None, repr=False)

    def columns(self) -> tuple[str, ...]:
        """The columns that the options name."""
        chosen = (self.origin, self.sequence, self.chunk, self.last_chunk, self.offset)
        return tuple(column for column in chosen if column is not None)

    def describe(self) -> list[str]:
        """What was chosen, in a few words each."""
        said = [f"per {self.origin!r}"] if self.origin is not None else []
        if self.sequence is not None:
            chunks = f" in chunks {self.chunk!r}" if self.chunk is not None else ""
            said.append(f"gap-free by {self.sequence!r}{chunks}")
        if self.deduplicate:
            said.append("repeated numbers are dead letters")
        if self.gap_timeout is not None:
            said.append(f"gaps skipped after {format_duration(self.gap_timeout)}")
        if self.idle_timeout is not None:
            said.append(f"idle after {format_duration(self.idle_timeout)}")
        if self.on_return == "catch_up":
            said.append("origins that return are left out until they catch up")
        if self.expect_origins is not None:
            expected = self.expect_origins
            count = expected if isinstance(expected, int) else len(expected)
            origins_timeout = (
                f" for at most {format_duration(self.origins_timeout)}" if self.origins_timeout is not None else ""
            )
            said.append(f"waits for {count} origins{origins_timeout}")
        if self.watermark_key:
            said.append(f"watermark key {self.watermark_key}")
        return said


ORIGIN_OPTIONS = tuple(name for name, own in Options.__dataclass_fields__.items() if own.repr)
"""Every option that users write."""
COLUMN_OPTIONS = ("origin", "sequence", "chunk", "last_chunk")
"""The options that name a column."""

_DURATIONS = ("idle_timeout", "max_future_skew", "origins_timeout", "gap_timeout")
_NEEDS = (
    ("chunk", "sequence", "chunks are the parts of a sequence"),
    ("last_chunk", "chunk", "it flags the last one of a sequence's chunks"),
    ("chunk", "last_chunk", "without it no sequence is ever known to be complete"),
    ("first_chunk", "chunk", "it is the number of a sequence's first chunk"),
    ("expect_origins", "origin", "a stream without an origin column has one origin only"),
    ("origins_timeout", "expect_origins", "it limits how long they are waited for"),
    ("gap_timeout", "sequence", "only numbered rows can have gaps"),
)


def read_options(
    strategy: str,
    given: Mapping[str, Any],
    *,
    allowed: Collection[str],
    max_future_skew: int | None = MAX_FUTURE_SKEW,
) -> Options:
    """Read and check the options of ``strategy``. ``max_future_skew`` is the value where the user gives none.

    >>> read_options("lag", {"origin": "device", "idle_timeout": "2m"}, allowed=ORIGIN_OPTIONS).idle_timeout
    120000000
    """
    for name in given:
        if name not in allowed:
            raise errors.unknown_option(strategy, name, allowed)
    read = {name: named(value) for name, value in given.items() if value is not None}
    first = read.pop("first_chunk", 1)
    if isinstance(first, bool) or not isinstance(first, int) or first < 0:
        raise errors.bad_first_chunk(strategy, first)
    if first != 1:
        read["first_chunk"] = first
    _check_columns(strategy, read)
    for option, needed, why in _NEEDS:
        if option in read and needed not in read:
            raise errors.option_needs(strategy, option, needed, why)
    for name in _DURATIONS:
        if name in read:
            read[name] = duration(read[name], what=f"{name} of {strategy}()", zero=name == "max_future_skew")
    if read.get("on_return", "hold") not in ("hold", "catch_up"):
        raise errors.unknown_return(strategy, read["on_return"])
    if "expect_origins" in read:
        read["expect_origins"] = _expected(strategy, read["expect_origins"])
    check_key(read.get("watermark_key", 0))
    if "max_future_skew" not in given:
        read["max_future_skew"] = max_future_skew
    return Options(**{"max_future_skew": None} | read)


def check_type(strategy: str, option: str, column: str, dtype: pl.DataType) -> None:
    """Refuse a column whose type does not serve the option.

    >>> check_type("lag", "sequence", "offset", pl.Int64())
    """
    if option == "origin" and (dtype.is_nested() or dtype in (pl.Binary, pl.Object)):
        raise errors.not_an_origin(strategy, column, dtype)
    if option in ("sequence", "chunk") and not dtype.is_integer():
        raise errors.not_whole_numbers(strategy, option, column, dtype)
    if option == "last_chunk" and dtype != pl.Boolean:
        raise errors.not_flags(strategy, column, dtype)


def _check_columns(strategy: str, read: Mapping[str, Any]) -> None:
    used: dict[str, list[str]] = {}
    for option in COLUMN_OPTIONS:
        if option not in read:
            continue
        column = read[option]
        if not isinstance(column, str) or not column:
            raise errors.not_a_column(strategy, option, column)
        used.setdefault(column, []).append(option)
    for column, options in used.items():
        if len(options) > 1:
            raise errors.column_used_twice(strategy, column, options)


def _expected(strategy: str, value: object) -> int | tuple[str, ...]:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        names = list(value)
        if names and all(isinstance(name, str | int) and not isinstance(name, bool) for name in names):
            return tuple(dict.fromkeys(map(str, names)))
    raise errors.bad_expected_origins(strategy, value)
