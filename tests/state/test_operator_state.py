"""An operator whose state is in pages: what a bundle reads and writes, and what is rejected."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import eventide as ev
from eventide.operators.operator import Bundle, Output
from eventide.operators.windowed_aggregate import WindowedAggregate
from eventide.state import format as snapshot
from eventide.state.pages import PAGE_BYTES
from eventide.watermarks import Watermark
from tests.state.harness import Paged, Store

SCHEMA = {"t": pl.Int64(), "k": pl.Int64(), "v": pl.Float64()}
MINUTE = 60_000_000


def stream(window: object, delay: str = "10 seconds") -> ev.Stream:
    return ev.stream(time="t", key="k", watermark=ev.bounded_delay(delay)).window(window)  # type: ignore[arg-type]


def once(window: object = None, delay: str = "10 seconds") -> ev.Pipeline:
    return stream(window or ev.tumbling("1 minute"), delay).agg(n=ev.count(), total=ev.sum("v"))


def often() -> ev.Pipeline:
    early = ev.after_watermark(early=ev.on_update(), late=ev.on_update())
    return stream(ev.tumbling("1 hour")).trigger(early, mode="retracting").agg(n=ev.count(), total=ev.sum("v"))


def paged(pipeline: ev.Pipeline, schema: object = None) -> Paged:
    return Paged(WindowedAggregate(pipeline.plan, schema or SCHEMA))  # type: ignore[arg-type]


def rows(keys: np.ndarray, at: int) -> pl.DataFrame:
    return pl.DataFrame({"t": np.full(len(keys), at), "k": keys, "v": keys / 3.0})


def push(host: Paged, frame: pl.DataFrame, now: int, note: int | None = None) -> Output:
    notes = () if note is None else (Watermark(0, note),)
    return host.step(lambda state: host.operator.step(state, Bundle(frame, now, notes)))


def test_a_bundle_that_fires_nothing_reads_no_page_of_cells() -> None:
    host = paged(once())
    push(host, rows(np.arange(100_000), 1), 1)
    for i in range(5):
        host.restart()
        host.store.got.clear()
        push(host, rows(np.arange(1000), 2), 2 + i)
        assert host.store.got == []


def test_completed_windows_read_their_own_pages_and_drop_them() -> None:
    host = paged(once(delay="1 hour"))
    for minute in range(4):
        push(host, rows(np.arange(60_000), minute * MINUTE), minute)
    before = len(host.store.pages)
    host.restart()
    out = push(host, rows(np.arange(0), 0), 9, note=2 * MINUTE)
    assert out.panes.height == 120_000
    assert sorted(host.store.got) == sorted(host.store.dropped) and len(host.store.got) == (before - 1) // 2


def test_a_bundle_writes_about_what_it_touched() -> None:
    host = paged(often())
    push(host, rows(np.arange(200_000), 1), 1)
    whole = sum(host.store.puts)
    rng = np.random.default_rng(1)
    written, reads = 0, 0
    for i in range(10):
        push(host, rows(rng.integers(0, 200_000, 1000), 2), 2 + i)
        written += sum(host.store.puts)
        reads += len(host.store.got)
    assert written < 4 * whole / 20, "ten thousand of 200 thousand panes were touched"
    assert reads <= 10, "only small pages are read, to be merged"


def test_the_head_is_small() -> None:
    for pipeline in (once(), often(), once(ev.sliding("10 minutes", every="1 second"))):
        host = paged(pipeline)
        for i in range(30):
            push(host, rows(np.arange(3000), i * 1_000_000), i)
        assert host.head is not None and len(host.head) < 10_000


def test_no_page_is_larger_than_about_a_mebibyte() -> None:
    for pipeline in (once(), often()):
        host = paged(pipeline)
        push(host, rows(np.arange(300_000), 1), 1)
        assert max(host.store.puts) <= PAGE_BYTES * 5 // 4 and len(host.store.puts) > 5


def test_page_numbers_are_never_used_twice() -> None:
    host, seen = paged(often()), set[int]()
    for i in range(30):
        before = set(host.store.pages)
        push(host, rows(np.arange(10) + i, i), i)
        new = set(host.store.pages) - before
        assert not new & seen
        seen |= new
        if i % 7 == 0:
            host.restart()


def test_a_write_that_failed_is_made_again_with_the_old_manifest() -> None:
    host = paged(often())
    push(host, rows(np.arange(100), 1), 1)
    step = host.operator.step(host.state, Bundle(rows(np.arange(50), 2), 2))
    broken = host.store.copy(fails_after=1)
    with pytest.raises(OSError, match="broken"):
        host.operator.write(step.state, broken, host.manifest)
    this, other = host.store.copy(), host.store.copy()
    first = host.operator.write(step.state, this, host.manifest)
    second = host.operator.write(step.state, other, host.manifest)
    assert first[0] == second[0] and this.pages == other.pages


def test_the_same_state_cached_or_read_again_is_written_alike() -> None:
    cached, fresh = paged(often()), paged(often())
    for i in range(40):
        frame = rows(np.arange(i % 5, 100, 1 + i % 3), i)
        push(cached, frame, i)
        push(fresh, frame, i)
        fresh.restart()
        first, other = (snapshot.load(host.head)["store"]["table"]["pages"] for host in (cached, fresh))
        assert first.select("number", "rows", "gone").equals(other.select("number", "rows", "gone"))


def test_a_state_that_was_saved_whole_can_be_written_in_pages() -> None:
    host = paged(once())
    push(host, rows(np.arange(10), 1), 1)
    _, state = WindowedAggregate.load(host.operator.plan, host.operator.save(host.state))
    store = Store()
    head, _ = host.operator.write(state, store, None)
    state, manifest = host.operator.read(head, store)
    with manifest.open(store):
        step = host.operator.step(state, Bundle(rows(np.arange(0), 0), 2, (Watermark(0, MINUTE),)))
    assert step.output.panes.height == 10


def test_sizes_tell_what_is_open_and_what_is_stored() -> None:
    host = paged(often())
    assert host.operator.sizes(host.state) == {
        "rows": 0,
        "runs": 0,
        "pages": 0,
        "bytes": 0,
        "raw": 0,
        "evictable": 0,
        "written": 0,
    }
    push(host, rows(np.arange(1000), 1), 1)
    sizes = host.operator.sizes(host.state, host.manifest)
    assert sizes["rows"] == 1000 and sizes["runs"] == 1 and sizes["pages"] == len(host.store.pages)
    assert sizes["bytes"] == sum(map(len, host.store.pages.values()))
    assert host.head is not None and sizes["written"] == sum(host.store.puts) + len(host.head)


# What is rejected


def written() -> Paged:
    host = paged(once())
    push(host, rows(np.arange(10), 1), 1)
    assert host.head is not None
    return host


def test_a_missing_page_is_named() -> None:
    host = written()
    (last,) = set(host.store.pages) - {1}
    del host.store.pages[last]
    host.restart()
    with pytest.raises(ev.DataError, match=f"Page {last} of the state is missing"):
        push(host, rows(np.arange(0), 0), 2, note=MINUTE)


def test_a_store_that_gives_nothing_for_a_missing_page_is_understood() -> None:
    class Forgetful(Store):
        def get(self, page: int) -> bytes:
            return self.pages.get(page)  # type: ignore[return-value]

    host = paged(often())
    push(host, rows(np.arange(10), 1), 1)
    with pytest.raises(ev.DataError, match="Page 2 of the state is missing"):
        host.operator.read(host.head, Forgetful())  # type: ignore[arg-type]


def test_the_page_of_another_attempt_is_rejected() -> None:
    host, other = paged(often()), paged(often())
    push(host, rows(np.arange(10), 1), 1)
    push(other, rows(np.arange(20, 30), 1), 1)
    host.store.pages[2] = other.store.pages[2]
    with pytest.raises(ev.DataError, match="Page 2 of the state has another checksum"):
        host.restart()


def test_an_old_handle_is_never_used() -> None:
    host = written()
    host.restart()
    with pytest.raises(ev.DataError, match=r"no page store is open. Run the step inside `with manifest.open"):
        host.operator.step(host.state, Bundle(rows(np.arange(0), 0), 2, (Watermark(0, MINUTE),)))


def test_an_unknown_format_is_rejected() -> None:
    host = written()
    assert host.head is not None
    changed = bytearray(host.head)
    changed[11] = 9
    with pytest.raises(ev.DataError, match="has format 9, but this version of Eventide reads format 1"):
        host.operator.read(bytes(changed), host.store)


def test_another_plan_is_rejected_with_what_changed() -> None:
    host = written()
    other = WindowedAggregate(once(ev.tumbling("2 minutes")).plan, SCHEMA)
    with pytest.raises(ev.PlanError, match=r"the window changed from tumbling\(1m\) to tumbling\(2m\)"):
        other.read(host.head, host.store)  # type: ignore[arg-type]


def test_a_column_that_the_plan_reads_keeps_its_type() -> None:
    host = written()
    other = WindowedAggregate(once().plan, SCHEMA | {"k": pl.String()})
    with pytest.raises(ev.PlanError, match="the column k changed from Int64 to String"):
        other.read(host.head, host.store)  # type: ignore[arg-type]


def test_a_column_that_the_plan_does_not_read_can_be_added_removed_or_changed() -> None:
    host = Paged(WindowedAggregate(once().plan, SCHEMA | {"till": pl.String(), "note": pl.String()}))
    push(host, rows(np.arange(10), 1).with_columns(till=pl.lit("a"), note=pl.lit("b")), 1)
    other = WindowedAggregate(once().plan, {"till": pl.Int64(), **SCHEMA, "colour": pl.String()})
    state, _ = other.read(host.head, host.store)  # type: ignore[arg-type]
    assert state.watermark == host.state.watermark


def test_a_whole_state_is_no_head_and_a_head_is_no_whole_state() -> None:
    host = written()
    with pytest.raises(ev.DataError, match="saved whole"):
        host.operator.read(host.operator.save(host.state), host.store)
    with pytest.raises(ev.DataError, match="header of a state in pages"):
        WindowedAggregate.load(host.operator.plan, host.head)  # type: ignore[arg-type]


def test_a_manifest_of_another_state_is_rejected() -> None:
    first, other = paged(often()), paged(often())
    push(first, rows(np.arange(10), 1), 1)
    push(other, rows(np.arange(10), 1), 1)
    with pytest.raises(ev.DataError, match="The manifest belongs to another state"):
        first.operator.write(first.state, Store(), other.manifest)
