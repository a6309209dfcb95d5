"""An operator as Spark ships it to its tasks.

Light to import: every query starts a process that only asks which state there is.
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
    from eventide.spark.stage import Stage

HEAD = "head"
PAGES = "pages"

# As types, not as text: text would be parsed by the JVM, with every task, on request.
_HEAD = StructType().add("version", StringType()).add("about", StringType()).add("body", BinaryType())
_PAGE = StructType().add("page", LongType())
_BODY = StructType().add("body", BinaryType())

# That process prints what it does to the user's terminal.
if getattr(sys.modules["__main__"].__spec__, "name", "").endswith("transform_with_state_driver_worker"):
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115

_KEPT = 64
_CLIENTS = ("_statefulProcessorApiClient", "stateful_processor_api_client")  # as versions of Spark call it

_unpacked: dict[bytes, Stage] = {}  # in each worker


class Operate(StatefulProcessor):
    """One operator on Spark's state."""

    def __init__(self, stage: Stage) -> None:
        self._packed: bytes = cloudpickle.dumps(stage)  # type: ignore[no-untyped-call]

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state that there is."""
        self._head, self._pages = state_variables(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """One bucket's pages of this batch."""
        from eventide.spark.keeping import Keeper
        from eventide.spark.stateful import operated

        stage = _unpacked.get(self._packed)
        if stage is None:
            if len(_unpacked) > _KEPT:
                _unpacked.clear()
            stage = _unpacked[self._packed] = pickle.loads(self._packed)
        return operated(stage, Keeper(self._head, self._pages, stage), key[0], rows)

    def close(self) -> None:
        """Nothing is held."""


def state_variables(handle: StatefulProcessorHandle) -> tuple[ValueState, Callable[[], MapState]]:
    """Return the head of a bucket, and what gives the map of its pages."""
    return handle.getValueState(HEAD, _HEAD), pages_when_needed(handle)


def pages_when_needed(handle: StatefulProcessorHandle) -> Callable[[], MapState]:
    """Gives the map of pages. A task asks for it when it first needs it; elsewhere it is asked for at once.

    The JVM generates code for each variable that a task names: that costs milliseconds, in every task of every batch.
    Spark lets variables be named only while the handle is new, so it is made new again for that moment. Where the
    handle is not as it is known to be, and in the process that gathers which state there is, nothing is put off.
    """

    @cache
    def pages() -> MapState:
        return handle.getMapState(PAGES, _PAGE, _BODY)

    client = next((getattr(handle, name) for name in _CLIENTS if hasattr(handle, name)), None)
    new = getattr(client, "handle_state", None)
    if client is None or getattr(new, "name", None) != "CREATED" or not hasattr(client, "set_handle_state"):
        pages()
        return pages

    @cache
    def late() -> MapState:
        stands = client.handle_state
        client.set_handle_state(new)
        found = pages()
        client.set_handle_state(stands)
        return found

    return late
