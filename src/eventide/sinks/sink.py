"""What a sink is: opened before the query starts, then given one batch after the other."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from eventide.errors import sinks as errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from eventide.sinks.batch import SinkBatch

Output: TypeAlias = Literal["panes", "late", "dead"]
Tells: TypeAlias = Literal["windows", "pairs", "rows"]


@dataclass(frozen=True)
class About:
    """Which output of which query the rows are."""

    output: Output
    key: tuple[str, ...]
    mode: Literal["accumulating", "discarding", "retracting"]
    tells: Tells = "windows"  # one row for each key and window, pairs of rows in windows, or rows without a window
    query: str = ""  # Spark's query id: the same after a restart from the checkpoint; empty until the query has started


@runtime_checkable
class Sink(Protocol):
    """Takes the batches of an output, on the driver.

    A batch that a failure interrupted is written again, with the same number and the same rows. A sink is exactly once
    if writing a batch again changes nothing. ``batch`` is an Arrow table or a DataFrame, whichever the sink asks for.
    """

    def open(self, schema: StructType, about: About) -> None:
        """Refuse what cannot work. Called once for each output, before the query starts."""
        ...

    def write(self, batch: SinkBatch, batch_id: int, about: About) -> None:
        """Write a batch, all of it or nothing."""
        ...

    def close(self) -> None:
        """Let go of connections. Called once, when the query has ended."""
        ...


@runtime_checkable
class Advancing(Protocol):
    """A sink that also wants to know how far the query has come."""

    def advance(self, promise: int, about: About) -> None:
        """No pane with an earlier time will come. Called after a batch was written; a replay says the same again."""
        ...


@dataclass(frozen=True)
class FunctionSink:
    """A function of the user's, called with every batch as a DataFrame."""

    function: Callable[[DataFrame, int], Any]

    def open(self, schema: StructType, about: About) -> None:
        """Nothing to prepare."""

    def write(self, batch: SinkBatch, batch_id: int, about: About) -> None:
        """Call the function."""
        self.function(batch.dataframe, batch_id)

    def close(self) -> None:
        """Nothing to let go of."""


def as_sink(value: Any) -> Sink:
    """What users write where a sink belongs: a sink, a function ``(batch, batch_id)``, ``"console"`` or ``"noop"``.

    >>> as_sink("console")
    console(rows=20)
    >>> as_sink("consol")
    Traceback (most recent call last):
    eventide.errors.kinds.PlanError: There is no sink 'consol'. Did you mean 'console'?
    """
    from eventide import sinks  # they are made of what is above

    if isinstance(value, str):
        if value not in ("console", "noop"):
            raise errors.unknown_sink(value)
        return sinks.console() if value == "console" else sinks.noop()
    if isinstance(value, type):  # a class has the methods of its instances, too
        raise errors.not_a_sink(value)
    if isinstance(value, Sink):
        return value
    if not callable(value):
        raise errors.not_a_sink(value)
    for maker in (sinks.console, sinks.files, sinks.memory, sinks.noop, sinks.spark_format, sinks.stream, sinks.table):
        if value is maker:
            raise errors.not_called(maker.__name__)
    if not _takes_two(value):
        raise errors.wrong_arguments(value)
    return FunctionSink(value)


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, 0)
    except TypeError:
        return False
    except ValueError:  # written in C, without a signature: it will be seen
        return True
    return True
