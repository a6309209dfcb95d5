"""The commit log: what a driver finds after a crash, what it rejects, and which of two drivers wins."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.errors import DataError
from eventide.spark import storage
from eventide.spark.commit_log import CommitLog
from eventide.spark.driver_state import Delivery
from eventide.spark.storage import LocalStorage
from eventide.watermarks import Watermark
from tests.driver.harness import Checkpoint, Driver

SECOND = 1_000_000
SCHEMA = {"t": pl.Int64(), "k": pl.String(), "v": pl.Int64()}
PIPELINE = (
    ev.stream(time="t", key="k", watermark=ev.bounded_delay("10 seconds"))
    .window(ev.tumbling("1 minute"))
    .trigger(ev.after_watermark(early=ev.on_update()), mode="retracting")
    .agg(n=ev.count(), total=ev.sum("v"))
)


def rows(second: int, *values: int) -> pl.DataFrame:
    """A row of each value, all of one key and second."""
    return pl.DataFrame({"t": [second * SECOND] * len(values), "k": "kiel", "v": [*values]}, schema=SCHEMA)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "checkpoint")


def driver(checkpoint: Checkpoint, **options: Any) -> Driver:
    return Driver(checkpoint, PIPELINE, [SCHEMA], **options)


def run(running: Driver, checkpoint: Checkpoint, number: int, frame: pl.DataFrame) -> Delivery:
    checkpoint.log_offsets(number, number * SECOND)
    return running.batch(number, [frame])


def totals(delivery: Delivery) -> list[tuple[int, int]]:
    """The totals that a batch emits, with their diffs."""
    panes = delivery.tables.get(("panes", 0))
    return [] if panes is None else list(zip(panes["total"].to_pylist(), panes["diff"].to_pylist(), strict=True))


def record(checkpoint: Checkpoint, number: int) -> Path:
    return checkpoint.directory / "eventide" / "commits" / str(number)


def test_a_new_driver_continues_where_the_last_record_ends(checkpoint: Checkpoint) -> None:
    run(driver(checkpoint), checkpoint, 0, rows(1, 5))
    assert totals(run(driver(checkpoint), checkpoint, 1, rows(2, 7))) == [(5, -1), (12, 1)]


def test_a_repeated_batch_delivers_its_record_although_its_rows_have_changed(checkpoint: Checkpoint) -> None:
    first = run(driver(checkpoint), checkpoint, 0, rows(1, 5))
    again = driver(checkpoint).batch(0, [rows(1, 999)])
    assert again.restored and totals(again) == totals(first) == [(5, 1)]


def test_a_batch_that_failed_before_its_record_is_computed_again(checkpoint: Checkpoint) -> None:
    run(driver(checkpoint), checkpoint, 0, rows(1, 5))
    checkpoint.log_offsets(1, SECOND)  # Spark logged batch 1, then the driver died
    assert totals(driver(checkpoint).batch(1, [rows(2, 7)])) == [(5, -1), (12, 1)]


def test_spark_s_logs_of_a_batch_are_durable_before_its_record(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    link, flush = os.link, storage.sync

    def flushed(path: Path) -> None:
        events.append(path.relative_to(checkpoint.directory).as_posix())
        flush(path)

    def linked(source: Path, target: Path) -> None:
        events.append(f"+{target.relative_to(checkpoint.directory).as_posix()}")
        link(source, target)

    def log_files(source: int, *names: str) -> None:
        for name in names:
            path = checkpoint.directory / "sources" / str(source) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("v1")

    running = driver(checkpoint)
    (checkpoint.directory / "metadata").write_text('{"id": "a"}')
    monkeypatch.setattr(storage, "sync", flushed)
    monkeypatch.setattr(os, "link", linked)
    for number, files in enumerate([["0"], ["1"], ["2", "3.compact"]]):
        log_files(0, *files)
        log_files(1, "0")  # a source that logs where it begins
        checkpoint.log_offsets(number, number * SECOND, {"logOffset": (0, 1, 3)[number]})
        events.clear()
        running.batch(number, [rows(1, 5)])
        before = events[: events.index(f"+eventide/commits/{number}")]
        logs = {f"offsets/{number}", "offsets", "sources/0", *(f"sources/0/{file}" for file in files)}
        assert logs | ({"metadata", ".", "sources", "sources/1", "sources/1/0"} if number == 0 else set()) <= {*before}
    assert "sources/0/1" not in events, "it was durable before"


def test_a_torn_record_is_never_seen(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    running = driver(checkpoint)
    run(running, checkpoint, 0, rows(1, 5))

    def crash(source: object, target: object) -> None:
        raise KeyboardInterrupt("killed before the record got its name")

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "link", crash)
        run(running, checkpoint, 1, rows(2, 7))
    assert not record(checkpoint, 1).exists()
    assert totals(run(driver(checkpoint), checkpoint, 1, rows(2, 7))) == [(5, -1), (12, 1)]


def test_a_full_disk_leaves_no_record(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    running = driver(checkpoint)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    run(running, checkpoint, 0, rows(1, 5))
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(os, "fsync", full)
        run(running, checkpoint, 1, rows(1, 5))
    assert [path.name for path in record(checkpoint, 0).parent.iterdir()] == ["0"]
    assert totals(run(driver(checkpoint), checkpoint, 1, rows(2, 7))) == [(5, -1), (12, 1)]


def test_a_flipped_byte_is_detected_and_the_file_is_named(checkpoint: Checkpoint) -> None:
    run(driver(checkpoint), checkpoint, 0, rows(1, 5))
    path = record(checkpoint, 0)
    intact = path.read_bytes()
    detected = 0
    for place in [*range(0, len(intact), 97), *range(len(intact) - 20, len(intact))]:  # the end has the footer's length
        path.write_bytes(intact[:place] + bytes([intact[place] ^ 1]) + intact[place + 1 :])
        try:
            delivery = run(driver(checkpoint), checkpoint, 1, rows(2, 7))
        except DataError as error:
            assert f"{path} is damaged" in str(error)
            detected += 1
        else:  # in bytes that this batch does not need, such as outputs that were delivered
            assert totals(delivery) == [(5, -1), (12, 1)]
            record(checkpoint, 1).unlink()
    assert detected > len(intact) // 97 // 3


def test_a_file_that_was_cut_off_is_detected(checkpoint: Checkpoint) -> None:
    run(driver(checkpoint), checkpoint, 0, rows(1, 5))
    path = record(checkpoint, 0)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="the end of the file is missing"):
        run(driver(checkpoint), checkpoint, 1, rows(2, 7))


def test_a_missing_record_is_an_error_and_never_an_empty_state(checkpoint: Checkpoint) -> None:
    run(driver(checkpoint), checkpoint, 0, rows(1, 5))
    record(checkpoint, 0).unlink()
    with pytest.raises(DataError, match="Batch 1 needs the commit record of batch 0"):
        run(driver(checkpoint), checkpoint, 1, rows(2, 7))


def test_records_above_the_batch_are_rejected(checkpoint: Checkpoint) -> None:
    running = driver(checkpoint)
    for number in range(3):
        run(running, checkpoint, number, rows(number, 5))
    with pytest.raises(DataError, match=r"Spark starts batch 1, but .* has commit records up to batch 2"):
        driver(checkpoint).batch(1, [rows(2, 7)])


def test_a_batch_repeated_with_other_offsets_is_rejected_with_both_digests(checkpoint: Checkpoint) -> None:
    run(driver(checkpoint), checkpoint, 0, rows(1, 5))
    checkpoint.log_offsets(0, 0, offsets="other files")
    with pytest.raises(DataError, match=r"other source offsets \(digest \w{16}\) than Spark repeats it with"):
        driver(checkpoint).batch(0, [rows(1, 5)])


def test_a_driver_that_wakes_up_after_its_successor_writes_nothing(checkpoint: Checkpoint) -> None:
    paused = driver(checkpoint)
    run(paused, checkpoint, 0, rows(1, 5))
    successor = driver(checkpoint)
    run(successor, checkpoint, 1, rows(2, 7))
    before = record(checkpoint, 1).read_bytes()
    with pytest.raises(DataError, match=r"Another driver \(epoch 2\) runs the query of this checkpoint now"):
        run(paused, checkpoint, 1, rows(2, 999))
    assert record(checkpoint, 1).read_bytes() == before


def test_a_driver_that_is_paused_before_its_sinks_is_fenced_by_the_next_epoch(checkpoint: Checkpoint) -> None:
    paused = driver(checkpoint)
    checkpoint.log_offsets(0, 0)
    paused.state.begin(0)
    first = paused.chain.operators[0]
    offsets = paused.log.offsets(0)
    paused.state.process(offsets, [first.stamp(rows(1, 5), 0, paused.state.watermark)])
    assert driver(checkpoint).batch(0, [rows(1, 5)]).restored
    with pytest.raises(DataError, match="stops before it writes anything else"):
        paused.log.check_epoch()


def test_a_driver_that_is_paused_before_its_record_creates_none_once_another_has_taken_over(
    checkpoint: Checkpoint,
) -> None:
    paused = driver(checkpoint)
    checkpoint.log_offsets(0, 0)
    paused.state.begin(0)
    stamp = paused.chain.operators[0].stamp(rows(1, 5), 0, paused.state.watermark)
    successor = driver(checkpoint)
    successor.state.begin(0)
    with pytest.raises(DataError, match=r"Another driver \(epoch 2\) runs the query"):
        paused.state.process(paused.log.offsets(0), [stamp])
    assert not record(checkpoint, 0).exists()
    assert totals(successor.batch(0, [rows(1, 5)])) == [(5, 1)]


def test_a_record_that_an_older_driver_created_after_its_check_stops_the_newer_one(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, successor = driver(checkpoint), driver(checkpoint)
    checkpoint.log_offsets(0, 0)
    paused.state.begin(0)
    stamp = paused.chain.operators[0].stamp(rows(1, 5), 0, paused.state.watermark)
    successor.state.begin(0)
    with monkeypatch.context() as patch:  # the check came just before the successor started
        patch.setattr(paused.log, "check_epoch", lambda: None)
        paused.state.process(paused.log.offsets(0), [stamp])
    with pytest.raises(DataError, match=r"Another driver has written .*/eventide/commits/0 .* Start the query again"):
        successor.batch(0, [rows(1, 5)])
    assert driver(checkpoint).batch(0, []).restored


def test_a_driver_is_fenced_however_many_drivers_have_followed_it(tmp_path: Path) -> None:
    paused, *successors = [CommitLog(LocalStorage(tmp_path)) for _ in range(20)]
    paused.take_epoch()
    for number, successor in enumerate(successors, start=2):
        successor.take_epoch()
        with pytest.raises(DataError, match=rf"Another driver \(epoch {number}\)"):
            paused.check_epoch()


def test_a_batch_that_the_same_driver_repeats_is_delivered_from_its_record(checkpoint: Checkpoint) -> None:
    running = driver(checkpoint)
    run(running, checkpoint, 0, rows(1, 5))
    first = run(running, checkpoint, 1, rows(2, 7))
    again = running.batch(1, [rows(2, 999)])
    assert again.restored and totals(again) == totals(first)
    assert totals(run(running, checkpoint, 2, rows(3, 1))) == [(12, -1), (13, 1)]


MANY = rows(1, *range(5000)).with_columns(k=pl.col("v").cast(pl.String))


ON_TIME = (
    ev.stream(time="t", key="k", watermark=ev.bounded_delay("10 seconds"))
    .window(ev.tumbling("1 minute"))
    .agg(n=ev.count(), total=ev.sum("v"))
)


def test_cells_can_leave_memory_and_panes_cannot(checkpoint: Checkpoint, tmp_path: Path) -> None:
    cells = Driver(checkpoint, ON_TIME, [SCHEMA])
    run(cells, checkpoint, 0, MANY)
    assert cells.state.pinned_bytes == 0
    panes = driver(other := Checkpoint(tmp_path / "panes"))
    run(panes, other, 0, MANY)
    assert panes.state.pinned_bytes > 5000 * 8


@pytest.mark.parametrize("early", [False, True], ids=["cells", "cells and panes"])
def test_operators_of_a_chain_share_the_memory_that_pinned_state_leaves(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    per_hour = ev.stream(time="window_time", key="k").window(ev.tumbling("1 hour")).agg(most=ev.max("total"))
    pipeline = (PIPELINE if early else ON_TIME).then(per_hour)
    closed = pl.concat([MANY, MANY.with_columns(t=pl.col("t") + 300 * SECOND)])
    ample = Driver(other := Checkpoint(tmp_path / "ample"), pipeline, [SCHEMA])
    run(ample, other, 0, closed)
    assert (ample.state.pinned_bytes > 0) == early
    chained = Driver(checkpoint, pipeline, [SCHEMA], memory=ample.state.pinned_bytes + 300)
    kept: list[int] = []
    for operator in chained.chain.operators:
        evict = operator.evict
        monkeypatch.setattr(
            operator, "evict", lambda *a, keep, evict=evict: (kept.append(keep), evict(*a, keep=keep))[1]
        )
    run(chained, checkpoint, 0, closed)
    assert len(kept) == 2 and all(kept) != early and 290 < sum(kept) <= 300


def test_large_outputs_are_files_next_to_the_record_until_the_next_batch(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventide.spark.driver_state._EMBEDDED", 10)
    running = driver(checkpoint)
    checkpoint.log_offsets(0, 0)
    delivery = running.batch(0, [rows(1, 5)])
    folder = record(checkpoint, 0).parent
    assert [path.name for path in sorted(folder.iterdir())] == ["0", "0.panes.0.1"]
    again = driver(checkpoint).batch(0, [rows(1, 5)])
    assert totals(again) == totals(delivery)
    run(driver(checkpoint), checkpoint, 1, rows(2))
    assert [path.name for path in sorted(folder.iterdir())] == ["0", "1"]


def test_panes_between_two_operators_are_not_stored_in_the_record(checkpoint: Checkpoint) -> None:
    overall = (
        ev.stream(time="window_time")
        .window(ev.inherit())
        .emit(mode="retracting")
        .agg(keys=ev.count(), most=ev.max("total"))
    )
    checkpoint.log_offsets(0, 0)
    delivery = Driver(checkpoint, PIPELINE.then(overall), [SCHEMA]).batch(0, [pl.concat([rows(1, 5), rows(130, 7)])])
    assert list(delivery.tables) == [("panes", 1)]
    again = Driver(checkpoint, PIPELINE.then(overall), [SCHEMA]).batch(0, [])
    assert again.restored and list(again.tables) == [("panes", 1)]


def test_a_damaged_large_output_is_named(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventide.spark.driver_state._EMBEDDED", 10)
    run(driver(checkpoint), checkpoint, 0, rows(1, 5))
    path = record(checkpoint, 0).with_name("0.panes.0.1")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"0\.panes\.0\.1 is damaged"):
        driver(checkpoint).batch(0, [rows(1, 5)])


def test_old_records_expire_but_for_those_that_hold_live_pages(checkpoint: Checkpoint) -> None:
    running = driver(checkpoint, retain=3)
    for number in range(12):
        run(running, checkpoint, number, rows(number, 5))
    left = sorted(int(path.name) for path in record(checkpoint, 0).parent.iterdir())
    assert left[-3:] == [9, 10, 11] and len(left) < 10
    assert totals(run(driver(checkpoint), checkpoint, 12, rows(12, 1)))[-1] == (61, 1)


def test_state_that_no_longer_exists_leaves_few_records(checkpoint: Checkpoint) -> None:
    running = driver(checkpoint, retain=2)
    for number in range(40):
        checkpoint.log_offsets(number, number * SECOND)
        frame = rows(number * 60, *range(50))
        running.batch(number, [frame], [Watermark(0, number * 60 * SECOND)])
    assert len(list(record(checkpoint, 0).parent.iterdir())) <= 8


def test_epochs_are_taken_in_turn(tmp_path: Path) -> None:
    logs = [CommitLog(LocalStorage(tmp_path)) for _ in range(3)]
    for log in logs:
        log.take_epoch()
    assert [log.epoch for log in logs] == [1, 2, 3]
    logs[2].check_epoch()
    with pytest.raises(DataError, match="epoch 3"):
        logs[0].check_epoch()


def test_a_driver_removes_what_a_killed_one_has_not_finished_once_it_has_fenced_others(checkpoint: Checkpoint) -> None:
    run(driver(checkpoint), checkpoint, 0, rows(1, 5))
    leftovers = [record(checkpoint, 0).with_name(f".{name}.{'0f' * 16}") for name in ("1", "1.panes.0.1")]
    for leftover in leftovers:
        leftover.write_bytes(b"torn")
    running = driver(checkpoint)
    assert all(leftover.exists() for leftover in leftovers)
    run(running, checkpoint, 1, rows(2, 7))
    assert sorted(path.name for path in record(checkpoint, 0).parent.iterdir()) == ["0", "1"]


def test_a_record_that_its_writer_did_not_make_durable_is_made_so_before_it_is_delivered(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[Path] = []
    flush = storage.sync

    def killed(path: Path) -> None:
        if path == record(checkpoint, 0).parent:
            raise KeyboardInterrupt("killed before the directory was flushed")
        flush(path)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(storage, "sync", killed)
        run(driver(checkpoint), checkpoint, 0, rows(1, 5))
    monkeypatch.setattr(storage, "sync", lambda path: (flushed.append(path), flush(path)))
    assert driver(checkpoint).batch(0, []).restored
    assert record(checkpoint, 0).parent in flushed


def test_a_driver_that_is_replaced_while_it_starts_deletes_no_unfinished_file_of_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, successor = CommitLog(LocalStorage(tmp_path)), CommitLog(LocalStorage(tmp_path))
    unfinished = tmp_path / "eventide" / "commits" / f".0.{'0f' * 16}"
    create = LocalStorage.create

    def pause(storage: LocalStorage, name: str, pieces: Sequence[bytes]) -> bool:
        created = create(storage, name, pieces)
        monkeypatch.setattr(LocalStorage, "create", create)
        successor.take_epoch()
        unfinished.parent.mkdir()
        unfinished.write_bytes(b"half a record")
        return created

    monkeypatch.setattr(LocalStorage, "create", pause)
    with pytest.raises(DataError, match=r"Another driver \(epoch 2\)"):
        paused.take_epoch()
    assert unfinished.exists()


def test_a_driver_that_is_replaced_while_it_writes_a_record_says_so(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = driver(checkpoint)
    run(paused, checkpoint, 0, rows(1, 5))
    link = LocalStorage._link

    def pause(storage: LocalStorage, unfinished: Path, path: Path) -> bool:
        monkeypatch.setattr(LocalStorage, "_link", link)
        run(driver(checkpoint), checkpoint, 1, rows(2, 8))
        return link(storage, unfinished, path)

    checkpoint.log_offsets(1, SECOND)
    monkeypatch.setattr(LocalStorage, "_link", pause)
    with pytest.raises(DataError, match=r"Another driver \(epoch 2\)"):
        run(paused, checkpoint, 1, rows(2, 7))
    assert totals(driver(checkpoint).batch(1, [])) == [(5, -1), (13, 1)]
