"""Estimates how many bytes of memory the rows of a batch take, before anything is read.

Spark's logs name files and Kafka offsets. Data on disk is compressed and has other columns, so a first estimate errs on
the large side, and later ones are corrected by what earlier batches took.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from eventide._paths import on_disk
from eventide.spark.source_log import BatchLog

_FIXED = 8  # bytes of a number or a time
_SHORT = 32  # bytes at least of a text or a nested value
_PAYLOAD = 1 << 10  # bytes of one in a message, of which only the number is known
_PLAIN = 4  # bytes in memory for each byte of a text file
_COMPRESSED = 16  # and for each of another file
_TEXT_FILES = (".csv", ".json", ".txt")
_UNREAD = 128 << 10  # bytes on disk up to which no footer is read
_TELLING = 1 << 20  # bytes in memory from which a batch says something of others: files have overhead
_LOOKED_UP = 64  # footers that one batch reads
_REMEMBERED = 10  # batches

_VARIABLE = (pl.String, pl.Binary, pl.List, pl.Array, pl.Struct, pl.Object)


class SizeEstimate:
    """The size of the batches of a query, as rows with these columns.

    >>> estimate = SizeEstimate([{"t": pl.Int64(), "text": pl.String()}])
    >>> estimate.columns
    2
    """

    def __init__(self, schemas: Iterable[Mapping[str, pl.DataType]]) -> None:
        columns = [(name, dtype) for schema in schemas for name, dtype in schema.items()]
        self.columns = len(columns)
        self._variable = [name for name, dtype in columns if isinstance(dtype, _VARIABLE)]
        self._fixed_bytes = _FIXED * (len(columns) - len(self._variable))
        self._corrections: deque[float] = deque(maxlen=_REMEMBERED)
        self._last: int | None = None  # bytes of the last batch that had rows
        self._guessed: tuple[BatchLog, int | None] | None = None  # for the last batch that was asked for

    def of(self, log: BatchLog) -> int | None:
        """Return the bytes of a batch. Where its sources log no size, they are those of the last one; None at first."""
        guess = self._guess(log)
        return self._last if guess is None else int(guess * max(self._corrections, default=1.0))

    def learn(self, log: BatchLog, size: int) -> None:
        """Correct later estimates: the rows of a batch took ``size`` bytes."""
        if not size:
            return
        self._last = size
        guess = self._guess(log)
        if guess and max(guess, size) >= _TELLING:
            self._corrections.append(size / guess)

    def _guess(self, log: BatchLog) -> int | None:
        if self._guessed is None or self._guessed[0] is not log:
            self._guessed = log, self._from_log(log)
        return self._guessed[1]

    def _from_log(self, log: BatchLog) -> int | None:
        sizes = log.file_sizes
        if log.messages is None or None in sizes.values():
            return None
        row = self._fixed_bytes + _PAYLOAD * len(self._variable)
        return log.messages * row + self._in_files({path: size or 0 for path, size in sizes.items()})

    def _in_files(self, sizes: Mapping[str, int]) -> int:
        """Return the bytes of the rows in files, at least roughly from the footers of Parquet on this machine."""
        is_close = sum(sizes.values()) > _UNREAD and len(sizes) <= _LOOKED_UP
        total = 0
        for path, size in sizes.items():
            rows = self._in_parquet(path) if is_close else None
            factor = _PLAIN if path.endswith(_TEXT_FILES) else _COMPRESSED
            total += size * factor if rows is None else rows
        return total

    def _in_parquet(self, path: str) -> int | None:
        """Return the bytes of the rows in a file; None if it is no Parquet file on this machine.

        The footer has the number of rows and the uncompressed size of each column. Repeated values are stored once, so
        a value counts as no less than a short text. A column of another name may be computed from any of the file.
        """
        local = on_disk(path)
        if local is None or not path.endswith(".parquet"):
            return None
        try:
            footer = pq.read_metadata(local)
        except (OSError, pa.ArrowInvalid):
            return None
        stored: dict[str, int] = {}
        groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
        for group in groups:
            for place in range(group.num_columns):
                column = group.column(place)
                name = column.path_in_schema.partition(".")[0]
                stored[name] = stored.get(name, 0) + column.total_uncompressed_size
        everything = sum(stored.values())
        variable = sum(max(stored.get(name, everything), footer.num_rows * _SHORT) for name in self._variable)
        return int(footer.num_rows * self._fixed_bytes + variable)
