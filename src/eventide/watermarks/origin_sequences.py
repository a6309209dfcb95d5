"""The sequences of a stream's origins: those that the watermark waits for, and those that were really seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from eventide.kernels.intervals import NO_INTS, Ints
from eventide.time import MIN
from eventide.watermarks.options import Options
from eventide.watermarks.sequence_runs import Chunks, LastChunks, Runs, take
from eventide.watermarks.sequences import SequenceProgress

_NUMBERS = ("sequence", "until", "chunk", "chunk_until", "last_chunk")


class _Observed(NamedTuple):
    """The sequences, chunks and last chunks that a summary reports, and the least watermark of each run."""

    runs: Runs
    chunks: Chunks
    last_chunks: LastChunks
    least: Ints


class OriginSequences:
    """The state of ``sequence=``, ``chunk=`` and ``gaps=``."""

    def __init__(self, options: Options, name: Callable[[int], str]) -> None:
        self._options = options
        self.progress = SequenceProgress(first_chunk=options.first_chunk, name=name)
        # The numbers that were really seen, for deduplication: those that were only skipped may still arrive.
        self.seen = SequenceProgress(first_chunk=options.first_chunk) if options.deduplicate else None
        self.renumbered: Ints = NO_INTS
        """Origins that in the last batch sent a number again with a time beyond all that they had reached."""

    def observe(self, summary: pl.DataFrame, origins: Ints, clock: int) -> None:
        """Add the sequences that a summary reports at ``clock``, and skip the gaps that are not waited for."""
        runs, chunks, last_chunks, least = _observed(summary, origins, clock)
        self.renumbered = self.progress.renumbered_origins(runs.origin, runs.start, least)
        self.progress.observe(runs, chunks, last_chunks)
        if self.seen is not None:
            self.seen.observe(runs, chunks)
        if self._options.gap_timeout is not None:
            self.progress.skip_gaps_since(clock - self._options.gap_timeout)
        if self._options.gaps == "allowed":  # a number below one that was seen never arrives
            self.progress.skip_gaps_since(clock)
            if self.seen is not None:
                self.seen.skip_gaps_since(clock)

    def forget(self, origins: Ints) -> None:
        """Drop the state of some origins."""
        self.progress.forget(origins)
        if self.seen is not None:
            self.seen.forget(origins)

    def copy(self, name: Callable[[int], str]) -> OriginSequences:
        """An independent copy."""
        twin = OriginSequences(self._options, name)
        twin.progress = self.progress.copy(name=name)
        twin.seen = self.seen and self.seen.copy()
        twin.renumbered = self.renumbered
        return twin

    def snapshot(self) -> dict[str, Any]:
        """The state as frames."""
        seen = {} if self.seen is None else {"seen": self.seen.snapshot()}
        return {**self.progress.snapshot(), **seen}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from a snapshot."""
        self.progress.restore(snapshot)
        if self.seen is not None:
            self.seen.restore(snapshot["seen"])


def _observed(summary: pl.DataFrame, origin: Ints, clock: int) -> _Observed:
    summary = summary.with_columns(pl.col("watermark", "least").fill_null(MIN), pl.col(_NUMBERS).fill_null(-1))
    sequence, until, chunk, chunk_until, last, watermark, least = (
        summary[name].to_numpy() for name in (*_NUMBERS, "watermark", "least")
    )
    since = np.full(summary.height, clock)
    whole, part = (sequence >= 0) & (chunk < 0), (sequence >= 0) & (chunk >= 0)
    return _Observed(
        take(Runs(origin, sequence, until, watermark, since), whole),
        take(Chunks(origin, sequence, chunk, chunk_until, last, watermark, since), part),
        take(LastChunks(origin, sequence, until, last), whole & (last >= 0)),
        least[whole],
    )
