"""What a sink can know of a batch without a job of Spark."""

from __future__ import annotations

from typing import Any

from eventide.sinks.batch import SinkBatch


class Frame:
    """A DataFrame that counts its jobs."""

    def __init__(self, rows: int) -> None:
        self.rows, self.jobs = rows, 0

    def count(self) -> int:
        self.jobs += 1
        return self.rows

    def select(self, *columns: str) -> Frame:
        return self


def batch(frame: Any, **known: Any) -> SinkBatch:
    return SinkBatch(frame, None, **known)  # type: ignore[arg-type]


def test_a_batch_that_is_known_to_have_rows_needs_no_job() -> None:
    frame = Frame(3)
    assert not batch(frame, has_rows=True).is_empty()
    assert not batch(frame, has_rows=True).select("n").is_empty()
    assert frame.jobs == 0


def test_other_batches_are_counted_as_a_whole() -> None:
    assert batch(Frame(0)).is_empty()
    assert not batch(Frame(3)).is_empty()
    other: Any = Frame(0)
    assert batch(Frame(3), has_rows=True).with_dataframe(other).is_empty()
