"""Files of ``ev.scan_parquet`` that the driver reads by itself: no Spark job, no Python worker, no rows in the JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eventide.errors import spark as errors
from eventide.operators.bundle import Stamp
from eventide.spark.addresses import on_disk
from eventide.spark.batch_log import BatchLog
from eventide.spark.driver_input import Collected, StampInput
from eventide.spark.feeding import Feed
from eventide.spark.scan import Scan, Unreadable
from eventide.spark.scanning import Files
from eventide.spark.stage import Stage
from eventide.spark.stamping import unreadable_stamp
from eventide.spark.surroundings import machine_cores

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

    The batch's files are those that Spark has logged. On one machine the driver reads all of them, in parts that the
    threads share, and keeps their stamps, so memory follows the cells. On a cluster it reads small batches only, and
    tasks stamp the others.
    """

    def __init__(self, stage: Stage, feeds: Sequence[Feed]) -> None:
        self._stage = stage
        self._scans: list[Files] = [feed.rows for feed in feeds if isinstance(feed.rows, Files)]
        self._tasks = StampInput(stage, feeds)
        self._alone = all(map(reads_alone, self._scans))
        self.columns = self._tasks.columns
        self.transport = "the driver reads files" + ("" if self._alone else " up to 64 MB, then stamps of tasks")

    def dataframe(self) -> DataFrame:
        """The stamps of all files as pages. Spark computes them only if tasks are asked to read."""
        return self._tasks.dataframe()

    def collect(self, batch: DataFrame, log: BatchLog, watermark: int) -> Collected:
        """Read the files here, or let tasks stamp them."""
        files = [log.files(edge) for edge in range(len(self._scans))]
        if not all(self._reads(path, log) for paths in files for path in paths):
            return self._tasks.collect(batch, log, watermark)
        pieces = [piece for edge, paths in enumerate(files) for piece in _pieces(edge, paths, log)]
        self._stage.operator()  # bound once, not by each thread
        with ThreadPoolExecutor(machine_cores()) as threads:
            stamps = threads.map(lambda piece: list(self._stamps(piece, log, watermark)), pieces)
            return Collected([stamp for part in stamps for stamp in part])

    def _reads(self, path: str, log: BatchLog) -> bool:
        """Whether the driver can, and should, read a file by itself."""
        if self._alone:
            return True
        return on_disk(path) is None and log.size is not None and log.size <= _SMALL

    def _stamps(self, piece: _Piece, log: BatchLog, watermark: int) -> Iterator[Stamp]:
        scan, operator = self._scans[piece.edge], self._stage.operator()
        schema = self._stage.schemas[piece.edge]
        about: dict[str, Any] = {"path": piece.path, "part": piece.part}
        for rows in scan.reading(piece.parts)(about, schema):
            if not isinstance(rows, Unreadable):
                yield operator.stamp(rows, log.time, watermark, piece.edge)
            elif scan.keeps_unreadable:
                yield unreadable_stamp(operator, rows.message, log.time, piece.edge)
            else:
                raise errors.bad_file(rows.what, log.batch, rows.why)


def reads_alone(scan: Scan) -> bool:
    """Return whether the driver reads all files of a scan, however many: Spark has no other machine."""
    return isinstance(scan, Files) and str(scan.spark.sparkContext.master).startswith("local")


def _pieces(edge: int, paths: Sequence[str], log: BatchLog) -> Iterator[_Piece]:
    """The files of an input in parts: as many as there are cores, unless the files are small."""
    for path in paths:
        cores = -(-machine_cores() // len(paths))
        parts = max(1, min(cores, (log.size_of(path) or 0) // _PART))
        for part in range(parts):
            yield _Piece(edge, path, part, parts)
