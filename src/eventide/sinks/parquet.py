"""Parquet files of a local directory, written without a Spark job."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write_parquet(rows: pa.Table, folder: Path, compression: str) -> None:
    """Replace a directory by one Parquet file, durably. Readers see the old directory, none, or the new one."""
    unfinished = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    unfinished.mkdir(parents=True)
    try:
        with (unfinished / "part-00000.parquet").open("wb") as out:
            pq.write_table(rows, out, compression=compression, store_schema=False)
            os.fsync(out.fileno())
        if folder.exists():
            shutil.rmtree(folder)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
