"""Files of ``ev.scan_parquet`` that the driver reads itself: no Spark job, no Python worker, no rows in the JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eventide._paths import on_disk
from eventide.operators.operator import Stamp
from eventide.spark.dataflow import SparkInput
from eventide.spark.driver_input import Collected, StampInput
from eventide.spark.environment import machine_cores
from eventide.spark.errors import bad_file
from eventide.spark.scan import ParquetScan, Scan, Unreadable
from eventide.spark.shuffle_pages import Stage
from eventide.spark.source_log import BatchLog
from eventide.spark.stamp import unreadable_stamp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_SMALL = 64 << 20  # bytes of a batch up to which the driver of a cluster reads files by itself
_PART = 4 << 20  # bytes of a file that are worth a thread


@dataclass(frozen=True)
class _Piece:
    """A part of a file, for one thread."""

    edge: int
    path: str
    part: int
    parts: int


class ScanInput:
    """Files that Spark plans and logs, and the driver reads.

    On one machine the driver reads all files that Spark has logged for the batch, in parts that threads share. It
    keeps their stamps only, so memory grows with the cells. On a cluster it reads small batches, and tasks stamp the
    others.
    """

    def __init__(self, stage: Stage, inputs: Sequence[SparkInput]) -> None:
        self._stage = stage
        self._scans: list[ParquetScan] = [input.rows for input in inputs if isinstance(input.rows, ParquetScan)]
        self._tasks = StampInput(stage, inputs)
        self._reads_all = all(map(reads_all_files, self._scans))
        self.columns = self._tasks.columns
        self.transport = "the driver reads files" + ("" if self._reads_all else " up to 64 MB, then stamps of tasks")

    def dataframe(self) -> DataFrame:
        """Return the stamps of all files as pages. Spark computes them only if tasks read the files."""
        return self._tasks.dataframe()

    def collect(self, batch: DataFrame, log: BatchLog, watermark: int) -> Collected:
        """Read the files here, or let tasks stamp them."""
        files = [log.files(edge) for edge in range(len(self._scans))]
        if not self._reads(log):
            return self._tasks.collect(batch, log, watermark)
        pieces = [piece for edge, paths in enumerate(files) for piece in _pieces(edge, paths, log)]
        self._stage.operator()  # bound once, not by each thread
        with ThreadPoolExecutor(machine_cores()) as threads:
            stamps = threads.map(lambda piece: list(self._stamps(piece, log, watermark)), pieces)
            return Collected([stamp for part in stamps for stamp in part])

    def _reads(self, log: BatchLog) -> bool:
        """Return whether the driver reads the files of a batch itself."""
        if self._reads_all:
            return True
        sizes = log.file_sizes.values()
        return all(on_disk(path) is None for path in log.file_sizes) and (
            None not in sizes and sum(size or 0 for size in sizes) <= _SMALL
        )

    def _stamps(self, piece: _Piece, log: BatchLog, watermark: int) -> Iterator[Stamp]:
        scan, operator = self._scans[piece.edge], self._stage.operator()
        schema = self._stage.schemas[piece.edge]
        part: dict[str, Any] = {"path": piece.path, "part": piece.part}
        for rows in scan.reader(piece.parts)(part, schema):
            if not isinstance(rows, Unreadable):
                yield operator.stamp(rows, log.time, watermark, piece.edge)
            elif scan.keeps_unreadable:
                yield unreadable_stamp(operator, rows.message, log.time, piece.edge)
            else:
                raise bad_file(rows.rows, log.batch, rows.reason)


def reads_all_files(scan: Scan) -> bool:
    """Return whether the driver reads all files of a scan, however many: Spark has no other machine."""
    return isinstance(scan, ParquetScan) and str(scan.spark.sparkContext.master).startswith("local")


def _pieces(edge: int, paths: Sequence[str], log: BatchLog) -> Iterator[_Piece]:
    """Split the files of an input into parts: as many as there are cores, unless the files are small."""
    for path in paths:
        cores = -(-machine_cores() // len(paths))
        parts = max(1, min(cores, (log.file_sizes.get(path) or 0) // _PART))
        for part in range(parts):
            yield _Piece(edge, path, part, parts)
