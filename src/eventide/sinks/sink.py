"""The sink contract: what exactly once means, and what users may write where a sink is expected.

Exactly once: Spark repeats a batch after a failure, with the same number, and a sink that has written it must not
change again. With state in the driver, a repeated batch has the same rows in the same order. With state on the
executors, it is computed again: its rows may come in another order, and lack those of deleted source files. Each sink
recognises a repeated batch in its own way, which the docstring of its module describes:

- ``table_merge``: the transaction that changes the table also claims the batch.
- ``lake_table``: the commit that changes the table names the batch (Delta Lake, Iceberg).
- ``spark_writers``: a batch has its own directory, which a repeated batch replaces. ``spark_format`` repeats the rows.
- ``marks_stream``: the rows of a batch are one transaction under its number (``spark/marks_sink.py``).
- ``development``: the console prints a repeated batch again; the view in memory replaces it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from eventide._addresses import FILES, Address, read_address
from eventide.errors import PlanError, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from eventide.sinks.batch import SinkBatch

Output: TypeAlias = Literal["panes", "late", "dead"]
RowGrain: TypeAlias = Literal["windows", "pairs", "rows"]
"""What a row of the panes is: a key and window, a pair of rows in a window, or a row without a window."""

AnySink: TypeAlias = "Sink | str | Callable[[DataFrame, int], object]"
"""What users write where a sink is expected: a sink, the address of a sink, or a function ``(batch, batch_id)``."""

_SINKS = (
    "Use one of eventide.sinks (table, delta, iceberg, files, stream, spark_format, console, memory, noop), an address "
    "such as 'sqlite:///shop.db#revenue', or a function (batch, batch_id)"
)


@dataclass(frozen=True)
class OutputInfo:
    """Which output of which query the rows are.

    >>> info = OutputInfo("panes", key=("shop",), mode="retracting")
    >>> info.output, info.key, info.row_grain
    ('panes', ('shop',), 'windows')
    """

    output: Output
    key: tuple[str, ...]
    mode: Literal["accumulating", "discarding", "retracting"]
    row_grain: RowGrain = "windows"
    query: str = ""  # Spark's query id, the same after a restart from the checkpoint; empty before its first start
    state: Literal["driver", "executors"] = "driver"  # where the query keeps its state, and where its rows are


@runtime_checkable
class Sink(Protocol):
    """Writes the batches of an output, on the driver.

    A batch that a failure interrupted is written again, with the same number. Its rows are the same with state in the
    driver; computed again on the executors, they may come in another order, or lack those of deleted source files. A
    sink is exactly once if writing a batch again changes nothing. ``batch`` gives its rows as an Arrow table or as a
    DataFrame.

    >>> class Discard:
    ...     def open(self, schema, info): ...
    ...     def write(self, batch, batch_id, info): ...
    ...     def close(self): ...
    >>> isinstance(Discard(), Sink)
    True
    """

    def open(self, schema: StructType, info: OutputInfo) -> None:
        """Prepare an output, or reject it. Called once for each output, before the query starts."""
        ...

    def write(self, batch: SinkBatch, batch_id: int, info: OutputInfo) -> None:
        """Write all of a batch, or nothing."""
        ...

    def close(self) -> None:
        """Release connections. Called once, after the query has ended."""
        ...


@runtime_checkable
class WatermarkSink(Protocol):
    """A sink that also gets the output watermark of the query."""

    def advance(self, output_watermark: int, info: OutputInfo) -> None:
        """Record that no pane with an earlier time follows. Called after each batch; a replay repeats the call."""
        ...


@runtime_checkable
class CollectingSink(Protocol):
    """A sink for which the driver holds each batch in memory, also if the executors have its rows."""

    @property
    def collects(self) -> bool:
        """Whether the sink collects batches in the driver."""
        ...


@dataclass(frozen=True)
class FunctionSink:
    """Calls a function of the user with every batch as a DataFrame. It is exactly once if the function is."""

    function: Callable[[DataFrame, int], Any]

    def open(self, schema: StructType, info: OutputInfo) -> None:
        """Do nothing."""

    def write(self, batch: SinkBatch, batch_id: int, info: OutputInfo) -> None:
        """Call the function."""
        self.function(batch.dataframe, batch_id)

    def close(self) -> None:
        """Do nothing."""


def as_sink(value: AnySink) -> Sink:
    """Return a sink for what users write where a sink is expected: a sink, an address, or a function.

    >>> as_sink("console"), as_sink("sqlite:///shop.db#revenue")
    (console(rows=20), table('sqlite:///shop.db', name='revenue'))
    >>> as_sink("consol")
    Traceback (most recent call last):
    eventide.errors.PlanError: The sink 'consol': there is no kind 'consol'. Did you mean 'console'? ...
    """
    from eventide import sinks  # which imports this module

    if isinstance(value, str):
        return sink_at(read_address(value, "sink"))
    if isinstance(value, PurePath):
        raise PlanError(f"{str(value)!r} is a path. For files use sinks.files({str(value)!r}).")
    if isinstance(value, Sink) and not isinstance(value, type):  # a class has the methods of its instances, too
        return value
    if isinstance(value, type) or not callable(value):
        raise PlanError(f"{shown(value)} ({type(value).__name__}) is not a sink. {_SINKS}.")
    name = getattr(value, "__name__", repr(value))
    if getattr(sinks, name, None) is value:
        raise PlanError(f"sinks.{name} makes a sink, but is none itself. Call it: sinks.{name}(…).")
    if not _accepts_batch(value):
        raise PlanError(
            f"{name} is called as {name}(batch, batch_id), which it does not allow. Let it take two arguments."
        )
    return FunctionSink(value)


def _accepts_batch(function: Callable[..., Any]) -> bool:
    """Return whether a function can be called with a batch and its number, as far as its signature is known."""
    try:
        inspect.signature(function).bind(None, 0)
    except TypeError:
        return False
    except ValueError:  # a function in C without a signature
        return True
    return True


def sink_at(address: Address) -> Sink:
    """Return the sink of an address.

    >>> from eventide._addresses import read_address
    >>> sink_at(read_address("sqlite:///shop.db#revenue", "sink"))
    table('sqlite:///shop.db', name='revenue')
    >>> sink_at(read_address("out/panes.csv?header=true", "sink"))
    files('out/panes.csv', format='csv', header='true')
    """
    from eventide import sinks  # which imports this module

    options: dict[str, Any] = dict(address.options)
    if address.kind == "console":
        return sinks.console()
    if address.kind == "noop":
        return sinks.noop()
    if address.kind in FILES:
        return sinks.files(address.place, format=address.kind, **options)
    if address.kind == "kafka":
        options |= {"kafka.bootstrap.servers": address.name, "topic": address.place}
        return sinks.spark_format("kafka", **options)
    if address.kind == "delta":
        return sinks.delta(address.place, storage_options=options)
    if address.kind == "iceberg":
        return sinks.iceberg(address.place, **options)
    if address.kind == "eventide":
        return sinks.stream(address.place, **options)
    return sinks.table(address.place, name=address.name)
