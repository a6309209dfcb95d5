"""Messages that several modules of this package raise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from eventide.errors import DataError, PlanError, shown
from eventide.time import format_instant


@contextmanager
def naming_input(name: str | None) -> Iterator[None]:
    """Add the name of an input to an error about its rows; None: there is only one input.

    >>> with naming_input("left"):
    ...     raise PlanError("there is no column 'ts'.")
    Traceback (most recent call last):
    eventide.errors.PlanError: input 'left': there is no column 'ts'.
    """
    try:
        yield
    except (PlanError, DataError) as cause:
        if name is None:
            raise
        raise type(cause)(f"input {name!r}: {cause}") from cause


def not_a_column(strategy: str, option: str, value: object) -> PlanError:
    """The error about a value that is not the name of a column."""
    return PlanError(
        f"{strategy}(): {option}={shown(value)} is a {type(value).__name__}, not the name of a column. "
        f"Write {option}='some_column'."
    )


def went_back(key: int, source: str, before: int, after: int) -> DataError:
    """The error about a declared watermark below an earlier one."""
    return DataError(
        f"The watermark with key {key} went back on {source}: it was {format_instant(before)} and is now "
        f"{format_instant(after)}. A declared watermark promises that nothing before it follows. Fix the "
        "producer, or use bounded_delay() or ascending(), which take the highest time seen."
    )
