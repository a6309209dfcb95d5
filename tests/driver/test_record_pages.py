"""State pages in commit records: which records stay, and which pages move to the current one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random

import polars as pl
import pytest

from eventide.spark.commit_log import CommitLog, RecordPages
from eventide.spark.inspection import read_driver_state
from eventide.spark.storage import LocalStorage
from eventide.state.commit_record import RecordBuilder
from tests.driver.harness import Checkpoint
from tests.driver.test_commit_log import SCHEMA, driver

MIB = 1 << 20
SECOND = 1_000_000


class Log:
    """A log of pages that are put and dropped by hand."""

    def __init__(self, directory: Path, *, retain: int) -> None:
        self.log = CommitLog(LocalStorage(directory), retain=retain)
        self.log.take_epoch()
        self.pages = RecordPages(self.log)
        self._batch = 0
        self._manifest = b""

    def batch(self, put: Mapping[int, bytes] | None = None, drop: Iterable[int] = ()) -> None:
        """Commit a batch that puts and drops pages."""
        builder = RecordBuilder()
        self.pages.start(self._batch, builder)
        for page in drop:
            self.pages.drop(page)
        for page, body in (put or {}).items():
            self.pages.put(page, body)
        self.pages.compact()
        self._manifest = self.pages.manifest()
        self.log.commit(self._batch, builder, {})
        self.pages.finish()
        self.log.expire(self._batch, self.pages.needed())
        self._batch += 1

    def restart(self) -> None:
        """Open the pages as a new driver does."""
        self.pages = RecordPages(self.log, self._manifest, self._batch - 1)

    def records(self) -> set[int]:
        """The records that are left."""
        return self.log.batches()


@pytest.mark.parametrize("page", [5 * MIB, 3 * MIB])
def test_a_large_page_does_not_keep_the_pages_after_it_in_sparse_records(tmp_path: Path, page: int) -> None:
    log = Log(tmp_path, retain=2)
    log.batch({0: b"x" * page, 1: b"x" * (4 * page)})
    log.batch(dict.fromkeys(range(10, 110), b"y" * 1000) | {9: b"z" * 2 * MIB})
    log.batch(drop=[1, *range(9, 109)])
    for _ in range(9):
        log.batch()
    assert not log.records() & {0, 1}, "both records were sparse"
    assert (log.pages.get(0), log.pages.get(109)) == (b"x" * page, b"y" * 1000)


def test_one_batch_moves_a_bounded_number_of_bytes(tmp_path: Path) -> None:
    log = Log(tmp_path, retain=2)
    log.batch(dict.fromkeys(range(40), b"x" * MIB))
    log.batch(drop=range(9, 40))
    moved = (tmp_path / "eventide/commits/1").stat().st_size
    assert 3 * MIB < moved < 5 * MIB


def test_a_restart_forgets_no_record_that_a_retained_one_refers_to(tmp_path: Path) -> None:
    log = Log(tmp_path, retain=4)
    log.batch({0: b"first"})
    log.batch({1: b"second"}, drop=[0])
    log.batch()
    log.restart()
    log.batch()
    log.batch()
    log.restart()
    log.batch()
    assert 0 in log.records()
    log.batch()
    assert 0 not in log.records()


def test_a_restart_does_not_take_a_sparse_record_for_a_full_one(tmp_path: Path) -> None:
    log = Log(tmp_path, retain=2)
    log.batch(dict.fromkeys(range(10), b"x" * 1000))
    log.batch(drop=range(1, 8))  # 3 of 10 pages are live: not sparse yet
    log.restart()
    log.batch(drop=[8])
    for _ in range(3):
        log.batch()
    assert 0 not in log.records()


def test_all_retained_records_can_be_read_however_often_the_driver_restarts(tmp_path: Path) -> None:
    checkpoint, random = Checkpoint(tmp_path / "checkpoint"), Random(5)
    retain = 5
    for number in range(16):
        time = number * 40 * SECOND
        frame = pl.DataFrame(
            {"t": [time + random.randrange(SECOND) for _ in range(4)], "k": [random.choice("abcdef") for _ in range(4)]}
        ).with_columns(v=pl.lit(1, pl.Int64))
        checkpoint.log_offsets(number, time)
        driver(checkpoint, retain=retain).batch(number, [frame.cast(pl.Schema(SCHEMA))])
        log = CommitLog(LocalStorage(checkpoint.directory))
        for retained in range(max(0, number - retain + 1), number + 1):
            assert list(read_driver_state(log, log.read(retained)))
