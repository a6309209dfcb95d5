"""An operator as Spark ships it to its tasks.

Light to import: every query starts a process that only asks which state there is.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
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

_unpacked: dict[bytes, Stage] = {}  # in each worker


class Operate(StatefulProcessor):
    """One operator on Spark's state."""

    def __init__(self, stage: Stage) -> None:
        self._packed: bytes = cloudpickle.dumps(stage)  # type: ignore[no-untyped-call]

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state that there is."""
        self._head = handle.getValueState(HEAD, _HEAD)
        self._pages = handle.getMapState(PAGES, _PAGE, _BODY)

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
