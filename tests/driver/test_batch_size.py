"""How large a batch is taken for, before its rows are read."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from eventide.spark import batch_size
from eventide.spark.batch_size import SizeEstimate
from eventide.spark.driver_input import _LARGE as LARGE
from eventide.spark.source_log import BatchLog, Positions
from eventide.spark.storage import LocalStorage

NUMBERS: dict[str, pl.DataType] = {"t": pl.Int64(), "n": pl.Int64()}
PAYLOADS: dict[str, pl.DataType] = {"t": pl.Int64(), "value": pl.Binary()}
KILOBYTE = 1 << 10


class Source:
    """A checkpoint with the offsets that Spark logs: of a source, of the control directory, and of ticks."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.batch = 0

    def kafka(self, messages: int, *, ticks: bool = False) -> BatchLog:
        self._begin({"orders": {"0": 0}})
        self._log(0, {"orders": {"0": 0}}, ticks=ticks)
        self._log(1, {"orders": {"0": messages}}, ticks=ticks)
        return BatchLog(LocalStorage(self.place), 1, 0)

    def first_of_kafka(self, begins: object, ends: int) -> BatchLog:
        self._begin({"orders": {"0": begins}})
        self._log(0, {"orders": {"0": ends}})
        return BatchLog(LocalStorage(self.place), 0, 0)

    def files(self, *files: Path) -> BatchLog:
        self._log(0, {"logOffset": 0})
        entries = [json.dumps({"path": f"file://{file}", "timestamp": 0, "batchId": 0}) for file in files]
        (self.place / "sources" / "0").mkdir(parents=True, exist_ok=True)
        (self.place / "sources" / "0" / "0").write_text("\n".join(["v1", *entries]))
        return BatchLog(LocalStorage(self.place), 0, 0)

    def other(self) -> BatchLog:
        self._log(0, {"offset": 5, "timestamp": 7})
        return BatchLog(LocalStorage(self.place), 0, 0)

    def like_kafka(self, positions: int) -> BatchLog:
        self._log(0, {"orders": {"0": 0}})
        self._log(1, {"orders": {"0": positions}})
        return BatchLog(LocalStorage(self.place), 1, 0)

    def _begin(self, positions: object) -> None:
        """Write the log of a Kafka source, as it does before its first batch."""
        path = self.place / "sources" / "0" / "0"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"\0v1\n{json.dumps(positions)}")

    def _log(self, batch: int, offset: object, *, ticks: bool = False) -> None:
        path = self.place / "offsets" / str(batch)
        path.parent.mkdir(exist_ok=True)
        tick = [json.dumps({"offset": batch, "timestamp": batch})] if ticks else []
        path.write_text("\n".join(["v1", "{}", json.dumps(offset), "-", *tick]))


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


def estimated(estimate: SizeEstimate, log: BatchLog) -> int:
    size = estimate.of(log)
    assert size is not None
    return size


def test_numbers_of_messages_have_a_known_size(source: Source) -> None:
    assert estimated(SizeEstimate([NUMBERS]), source.kafka(1000)) == 16_000


def test_many_payloads_of_unknown_size_are_taken_for_large(source: Source) -> None:
    estimate = SizeEstimate([PAYLOADS])
    assert estimated(estimate, source.kafka(300_000)) > LARGE
    assert estimated(estimate, source.kafka(1000)) < LARGE


@pytest.mark.parametrize("ticks", [False, True], ids=["", "with ticks"])
def test_the_size_of_messages_is_learned_from_earlier_batches(source: Source, ticks: bool) -> None:
    estimate = SizeEstimate([PAYLOADS])
    estimate.learn(source.kafka(1000, ticks=ticks), 1000 * 5 * KILOBYTE)
    assert estimated(estimate, source.kafka(300_000, ticks=ticks)) == pytest.approx(300_000 * 5 * KILOBYTE, rel=0.01)
    for _ in range(20):
        estimate.learn(source.kafka(2000, ticks=ticks), 2000 * 20)
    assert estimated(estimate, source.kafka(300_000, ticks=ticks)) < LARGE, "messages have become smaller"


def test_a_batch_with_few_bytes_corrects_nothing(source: Source) -> None:
    estimate = SizeEstimate([PAYLOADS])
    estimate.learn(source.kafka(10), 10 * 20)
    assert estimated(estimate, source.kafka(300_000)) > LARGE


def test_repeated_values_in_parquet_count_as_they_are_in_memory(source: Source, tmp_path: Path) -> None:
    rows = pl.DataFrame({"t": range(1_000_000), "n": 7, "value": b"kiel"}, schema=NUMBERS | PAYLOADS)
    rows.write_parquet(tmp_path / "a.parquet")
    on_disk = (tmp_path / "a.parquet").stat().st_size
    size = estimated(SizeEstimate([NUMBERS | PAYLOADS]), source.files(tmp_path / "a.parquet"))
    assert size >= rows.to_arrow().nbytes > 2 * on_disk


def test_only_columns_that_are_read_count(source: Source, tmp_path: Path) -> None:
    rows = pl.DataFrame({"t": range(3000), "n": 7, "value": [bytes(str(n), "ascii") * 1000 for n in range(3000)]})
    rows.write_parquet(tmp_path / "a.parquet", compression="uncompressed")
    log = source.files(tmp_path / "a.parquet")
    assert estimated(SizeEstimate([NUMBERS]), log) == 3000 * 16
    assert estimated(SizeEstimate([PAYLOADS]), log) > 3000 * 3000
    computed = SizeEstimate([{"t": pl.Int64(), "text": pl.String()}])
    assert estimated(computed, log) > 3000 * 3000, "a column of another name may come from any of the file"


def test_files_without_a_footer_are_taken_for_compressed(source: Source, tmp_path: Path) -> None:
    for name, factor in {"a.json": 4, "a.json.gz": 16, "broken.parquet": 16}.items():
        (tmp_path / name).write_bytes(b"x" * 200_000)
        assert estimated(SizeEstimate([NUMBERS]), source.files(tmp_path / name)) == 200_000 * factor


def test_small_files_are_not_opened(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pl.DataFrame({"t": range(1000), "n": 7}).write_parquet(tmp_path / "a.parquet")
    monkeypatch.setattr(batch_size, "pq", None)
    assert estimated(SizeEstimate([NUMBERS]), source.files(tmp_path / "a.parquet")) < LARGE


def test_a_source_without_sizes_is_as_large_as_its_last_batch(source: Source) -> None:
    estimate = SizeEstimate([NUMBERS])
    log = source.other()
    assert estimate.of(log) is None
    estimate.learn(log, 5000)
    estimate.learn(log, 0)
    assert estimate.of(log) == 5000


def test_offsets_of_another_source_that_look_like_those_of_kafka_have_no_known_size(source: Source) -> None:
    assert SizeEstimate([NUMBERS]).of(source.like_kafka(1000)) is None


def test_the_first_batch_of_kafka_has_a_known_size(source: Source) -> None:
    assert estimated(SizeEstimate([NUMBERS]), source.first_of_kafka(400, 1400)) == 16_000


@pytest.mark.parametrize("begins", ["earliest", "latest", None, True])
def test_positions_that_are_no_numbers_have_no_known_size(source: Source, begins: object) -> None:
    assert SizeEstimate([NUMBERS]).of(source.first_of_kafka(begins, 1400)) is None


def test_a_file_source_is_not_taken_for_kafka(source: Source, tmp_path: Path) -> None:
    assert SizeEstimate([NUMBERS]).of(source.files()) == 0
    assert BatchLog(LocalStorage(source.place), 0, 0)._beginning(0) is None


def test_where_a_source_began_is_read_once(source: Source) -> None:
    reads: list[str] = []

    class Counted(LocalStorage):
        def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
            reads.append(name)
            return super().read(name, offset, length)

    beginnings: dict[int, Positions | None] = {}
    source.kafka(1000)
    for _ in range(3):
        assert BatchLog(Counted(source.place), 1, 0, beginnings=beginnings).messages == 1000
    assert reads.count("sources/0/0") == 1
