"""Functions and stateful processors that Spark sends to its tasks.

This module is light to import. Each query starts a process that only lists the state variables, and it needs no Polars.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessor, StatefulProcessorHandle, ValueState
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

if TYPE_CHECKING:
    from eventide.spark.shuffle_pages import Stage

HEADER = "header"
PAGES = "pages"
HEADER_PAGE = 0
"""The number under which a header is imported: pages are numbered from 1."""

# Types, not text: every task would ask the JVM to parse text.
_HEADER = StructType().add("version", StringType()).add("facts", StringType()).add("body", BinaryType())
_PAGE = StructType().add("page", LongType())
_BODY = StructType().add("body", BinaryType())

_CLIENTS = ("_statefulProcessorApiClient", "stateful_processor_api_client")  # the attribute, by version of Spark
_MAX_STAGES = 64  # in the cache of a worker

_stages: dict[bytes, Stage] = {}  # by their pickled form


def _silence_planning_process() -> None:
    """Discard what Spark's planning process prints, if this is that process.

    When a query starts, Spark runs ``transform_with_state_driver_worker`` to list the state variables. It prints its
    progress, with the whole processor, to the terminal of the user and has no setting to turn that off. Results and
    errors travel through a socket, so nothing is lost. Unpickling the processor imports this module, before most of
    the output.
    """
    name = getattr(sys.modules["__main__"].__spec__, "name", "")
    if name.endswith("transform_with_state_driver_worker"):
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


_silence_planning_process()


def task_function(function: Callable[[Iterator[Any]], Iterator[Any]]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function that imports Eventide when it runs, not when Spark unpickles it.

    Without Eventide on the workers, unpickling would fail with an obscure error. The returned function is pickled by
    value, so it refers to nothing of Eventide. The error names the module that the worker has found, because a project
    on PyPI has the same import name.
    """
    packed: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]  # has no types

    def run(batches: Any) -> Any:
        import pickle

        try:
            unpacked = pickle.loads(packed)
        except ImportError as cause:
            if (cause.name or "").partition(".")[0] not in ("eventide", "pyspark_eventide"):
                raise
            import importlib.util

            spec = importlib.util.find_spec("eventide")
            origin = None if spec is None else spec.origin or ", ".join(spec.submodule_search_locations or ())
            reason = "there is no module eventide" if spec is None else f"the module at {origin} is another project"
            raise ImportError(
                f"The workers cannot import Eventide ({cause.name}): {reason}. Install pyspark-eventide on them."
            ) from cause
        return unpacked(batches)

    return run


class OperatorProcessor(StatefulProcessor):
    """Runs an operator of a query on Spark's state."""

    def __init__(self, stage: Stage) -> None:
        self._pickled: bytes = cloudpickle.dumps(stage)  # type: ignore[no-untyped-call]  # has no types

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables."""
        self._header, self._page_map = state_variables(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Process the pages of one bucket in this batch."""
        from eventide.spark.state_store import BucketStateStore
        from eventide.spark.stateful import process_bucket

        stage = self._stage()
        return process_bucket(stage, BucketStateStore(self._header, self._page_map, stage), key[0], rows)

    def close(self) -> None:
        """Do nothing: the processor holds no resources."""

    def _stage(self) -> Stage:
        stage = _stages.get(self._pickled)
        if stage is None:
            if len(_stages) > _MAX_STAGES:
                _stages.clear()
            stage = _stages[self._pickled] = pickle.loads(self._pickled)
        return stage


class TrackerProcessor(OperatorProcessor):
    """Tracks the progress of an operator's origins on Spark's state, for all of its buckets."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Process the pages that arrive at one bucket in this batch."""
        from eventide.spark.coalesced_progress import process_summaries
        from eventide.spark.state_store import BucketStateStore

        stage = self._stage()
        store = BucketStateStore(self._header, self._page_map, stage, tracks_all=True)
        return process_summaries(stage, store, key[0], rows)


class ImportProcessor(StatefulProcessor):
    """Stores the pages of one stateful operator of Spark, and forwards those of later ones (``state_import``)."""

    def __init__(self, number: int, facts: str, version: str) -> None:
        self._number, self._facts, self._version = number, facts, version

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the same state variables as the operator does."""
        self._header, self._page_map = state_variables(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Store the pages of one bucket."""
        from pyspark.sql import Row

        from eventide.spark.state_store import SparkPageStore
        from eventide.state.format import StateHeader

        pages, header, count, others = SparkPageStore(self._page_map), None, 0, []
        for row in rows:
            if row["store"] != self._number:
                others.append(Row(**row.asDict()))
            elif row["page"] == HEADER_PAGE:
                header = bytes(row["body"])
            else:
                pages.put(row["page"], bytes(row["body"]))
                count += 1
        if header is not None:
            in_header = pages.flush()
            body = StateHeader(header, in_header, count - len(in_header)).to_bytes()
            self._header.update((self._version, self._facts, body))
        return iter(others)

    def close(self) -> None:
        """Do nothing: the processor holds no resources."""


def state_variables(handle: StatefulProcessorHandle) -> tuple[ValueState, Callable[[], MapState]]:
    """Return the header of a bucket, and a function that returns the map of its pages."""
    return handle.getValueState(HEADER, _HEADER), lazy_page_map(handle)


def lazy_page_map(handle: StatefulProcessorHandle) -> Callable[[], MapState]:
    """Return a function that declares the map of pages when a task first needs it.

    The JVM generates code for each variable that a task declares, which costs milliseconds in every task of every
    batch. Spark accepts declarations only while the handle is new, so its state is set back during the declaration.
    Where the handle is not as expected, and in the process that lists the state variables, the map is declared at once.
    """

    @cache
    def declare() -> MapState:
        return handle.getMapState(PAGES, _PAGE, _BODY)

    client = next((getattr(handle, name) for name in _CLIENTS if hasattr(handle, name)), None)
    created = getattr(client, "handle_state", None)
    if client is None or getattr(created, "name", None) != "CREATED" or not hasattr(client, "set_handle_state"):
        declare()
        return declare

    @cache
    def declare_later() -> MapState:
        current = client.handle_state
        client.set_handle_state(created)
        page_map = declare()
        client.set_handle_state(current)
        return page_map

    return declare_later
