"""A query that is killed: ``python -m tests.spark.chaos_job PLACE MASTER PLAN``. It says what it has done.

``EVENTIDE_DIE`` (``before:3``, ``after:3``) lets the driver die with SIGKILL in that batch: before its panes are in the
sink, or after, when Spark has not yet written down that the batch is done.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import eventide as ev
from eventide.sinks.table_sink import table
from tests.spark.chaos import JOIN, PIPELINE, ROWS, SCHEMA, SIDES


class Dying:
    """A sink that lets its process die in a chosen batch."""

    def __init__(self, inner: Any, when: str) -> None:
        self._inner = inner
        point, _, batch = when.partition(":")
        self._point, self._batch = point, int(batch or -1)

    def open(self, schema: Any, about: Any) -> None:
        self._inner.open(schema, about)

    def write(self, batch: Any, batch_id: int, about: Any) -> None:
        self._die("before", batch_id)
        self._inner.write(batch, batch_id, about)
        self._die("after", batch_id)

    def close(self) -> None:
        self._inner.close()

    def _die(self, point: str, batch_id: int) -> None:
        if (point, batch_id) == (self._point, self._batch):
            os.killpg(0, signal.SIGKILL)  # the JVM, too


def main(place: Path, master: str, plan: str) -> None:
    spark = ev.spark_session("chaos", master=master, partitions=2, config={"spark.local.dir": str(place / "local")})
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    rows = [reader.parquet(str(place / name)) for name in (SIDES if plan == "join" else ("in",))]
    sink = Dying(table(f"sqlite:///{place}/panes.db", name="panes"), os.environ.get("EVENTIDE_DIE", ""))
    {"windows": PIPELINE, "join": JOIN, "rows": ROWS}[plan].run(
        rows,
        sink=sink,
        checkpoint=os.environ["EVENTIDE_CHECKPOINT"],
        available_now=True,
        drain=True,
        state=os.environ.get("EVENTIDE_STATE", "driver"),  # type: ignore[arg-type]
        on_batch=lambda batch: print("batch", batch.batch, flush=True),
    )
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
