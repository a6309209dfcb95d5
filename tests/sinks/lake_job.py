"""A writer of a table of a lakehouse that kills itself: ``python -m tests.sinks.lake_job FORMAT FOLDER BATCH ROWS``.

It dies when data files of the batch are written, and before the commit that names them.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.sinks.panes import output_info, schema
from tests.sinks.test_lake_tables import LAKES, large_batch, put


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_before_the_commit(kind: str, folder: Path) -> None:
    if kind == "iceberg":
        from pyiceberg.table import Transaction

        Transaction.set_properties = die  # type: ignore[assignment, method-assign]  # follows the data in a commit
        return
    import deltalake

    write, files = deltalake.write_deltalake, set(folder.rglob("*.parquet"))

    def write_and_die(table: Any, rows: pa.Table, **options: Any) -> None:
        def batches() -> Iterator[pa.RecordBatch]:
            yield from rows.to_batches(max_chunksize=1_000)
            end = time.monotonic() + 30
            while set(folder.rglob("*.parquet")) <= files and time.monotonic() < end:  # threads write them
                time.sleep(0.005)
            die()

        reader = pa.RecordBatchReader.from_batches(rows.schema, batches())
        write(table, reader, target_file_size=10_000, **options)

    deltalake.write_deltalake = write_and_die


def main(kind: str, folder: str, batch_id: int, size: int) -> None:
    sink = LAKES[kind](Path(folder)).sink(output_info(), schema())
    die_before_the_commit(kind, Path(folder))
    put(sink, large_batch(batch_id, size), batch_id, output_info())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
