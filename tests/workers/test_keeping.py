"""Where the state of a bucket lies: a small one in its head alone, a larger one in the map as well."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventide as ev
from eventide.operators.binding import operator_of
from eventide.operators.bundle import Bundle
from eventide.spark import storing
from eventide.spark.stage import Stage
from eventide.spark.storing import StorePages
from eventide.state.heads import WITH_PAGES
from eventide.watermarks import Watermark
from tests.effort import examples
from tests.oracle.compare import written
from tests.workers.kept import Bucket, FakeMap

SECOND = 1_000_000
SCHEMA = {"t": pl.Int64(), "k": pl.Int64(), "v": pl.Int64()}
_names = count()


def _windows() -> Any:
    return ev.stream(time="t", key="k", watermark=ev.bounded_delay("10 seconds")).window(ev.tumbling("1 minute"))


ONCE = _windows().agg(n=ev.count(), total=ev.sum("v"))
OFTEN = _windows().trigger(ev.after_watermark(early=ev.on_update())).retracting().agg(n=ev.count(), total=ev.sum("v"))


def bucket_of(pipeline: ev.Pipeline, workers: int = 1) -> Bucket:
    return Bucket(Stage(f"keeping {next(_names)}", pipeline.plan, (SCHEMA,), 1), workers)


def bundle(second: int, keys: int, *notes: Watermark) -> Bundle:
    """A row of each key, at that second."""
    rows = {"t": np.full(keys, second * SECOND), "k": np.arange(keys) * 7919, "v": np.arange(keys) + second}
    return Bundle(pl.DataFrame(rows, schema=SCHEMA), second * SECOND, notes)


@pytest.mark.parametrize("pipeline", [ONCE, OFTEN], ids=["cells", "panes"])
def test_a_small_state_never_asks_for_the_map(pipeline: ev.Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = bucket_of(pipeline, workers=2)
    for number in range(40):
        bucket.batch(bundle(5 * number, 50), monkeypatch, worker=number // 3 % 2)
        assert (bucket.map.asked, bucket.value.updates) == (0, 1)
        assert bucket.head.format == WITH_PAGES and bucket.head.elsewhere == 0


def test_a_state_that_outgrows_its_head_goes_on_in_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = bucket_of(ONCE)
    bucket.batch(bundle(0, 50), monkeypatch)
    assert not bucket.map.values
    bucket.batch(bundle(5, 20_000), monkeypatch)
    assert bucket.map.values and bucket.head.elsewhere == len(bucket.map.values)
    assert bucket.head.pages.keys() | bucket.map.values.keys() == bucket.known()


def test_a_small_bundle_on_a_large_state_asks_for_nothing_of_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = bucket_of(ONCE)
    bucket.batch(bundle(0, 20_000), monkeypatch)
    bucket.batch(bundle(5, 20), monkeypatch)
    assert bucket.map.values and bucket.map.asked == 0


def test_a_state_that_has_become_small_lies_in_its_head_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = bucket_of(ONCE)
    bucket.batch(bundle(0, 20_000), monkeypatch)
    bucket.batch(bundle(100, 20), monkeypatch)
    assert any(call == "remove" for call, _ in bucket.map.calls) and not bucket.map.values
    bucket.restart()
    bucket.batch(bundle(200, 20), monkeypatch)
    assert bucket.map.asked == 0 and bucket.head.elsewhere == 0


def test_a_state_about_as_large_as_the_limit_does_not_use_the_map_in_every_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucket, used = bucket_of(OFTEN), []
    for number in range(60):
        bucket.batch(bundle(5 * number, 900), monkeypatch)
        used.append(bucket.map.asked > 0)
    assert 0 < sum(used) <= 30


def test_a_state_of_the_format_before_is_read_and_goes_on_in_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, same = bucket_of(OFTEN), bucket_of(OFTEN)
    with monkeypatch.context() as before:
        before.setattr(storing, "LIMIT", 0)  # nothing in the head: then head and map are as that format had them
        for second in (0, 5):
            bucket.batch(bundle(second, 50), monkeypatch)
    assert bucket.head.format == 1 and bucket.known() == bucket.map.values.keys()
    for second in (0, 5):
        same.batch(bundle(second, 50), monkeypatch)
    bucket.restart()
    assert written(bucket.batch(bundle(70, 50), monkeypatch)) == written(same.batch(bundle(70, 50), monkeypatch))
    assert bucket.head.format == WITH_PAGES
    assert bucket.head.pages.keys() | bucket.map.values.keys() == bucket.known()


def test_what_is_measured_does_not_depend_on_where_pages_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for limit in (0, 1 << 20):
        monkeypatch.setattr(storing, "LIMIT", limit)
        bucket = bucket_of(ONCE)
        bucket.batch(bundle(0, 100), monkeypatch)
        bucket.batch(bundle(5, 100), monkeypatch)
        assert bucket.value.value is not None
        put = sum(len(bucket.map.values[page]) for call, page in bucket.map.calls if call == "put")
        assert bucket.sizes["written"] == put + len(bucket.value.value[2])
        told.append((bucket.sizes["pages"], bucket.sizes["state_bytes"]))
    assert told[0] == told[1]


def test_the_largest_pages_go_to_the_map_until_half_of_the_room_is_free() -> None:
    sizes = {1: 14_000, 2: 1_000, 3: 15_000, 4: 9_000, 5: 500}
    pages = FakeMap()
    store = StorePages(pages.ask)
    for page, size in sizes.items():
        store.put(page, bytes(size))
    assert list(store.settled()) == [2, 4, 5]
    assert pages.calls == [("put", 3), ("put", 1)] and store.moved == 29_000


def test_pages_that_fit_stay_in_the_head() -> None:
    pages = FakeMap()
    store = StorePages(pages.ask, {1: bytes(storing.LIMIT - 10)})
    store.put(2, bytes(10))
    assert list(store.settled()) == [1, 2] and pages.asked == 0


def test_a_large_page_goes_to_the_map_at_once() -> None:
    pages = FakeMap()
    store = StorePages(pages.ask)
    store.put(1, bytes(storing.LIMIT + 1))
    assert pages.calls == [("put", 1)] and store.settled() == {}


def test_a_page_that_never_was_in_the_map_is_not_removed_from_it() -> None:
    pages = FakeMap({2: b"far"})
    store = StorePages(pages.ask, {1: b"near"})
    store.put(3, b"new")
    store.drop(3)
    store.drop(1)
    assert pages.asked == 0
    store.drop(2)
    assert pages.calls == [("remove", 2)] and store.settled() == {}


BATCH = st.tuples(
    st.sampled_from([0, 1, 5, 40, 400]),  # keys
    st.sampled_from([0, 5, 5, 30, 90]),  # seconds since the batch before
    st.integers(0, 2),  # the worker that it comes to
    st.sampled_from(["nothing", "nothing", "tried before", "restart"]),
)


@pytest.mark.parametrize("pipeline", [ONCE, OFTEN], ids=["cells", "panes"])
@settings(max_examples=examples(8))
@given(batches=st.lists(BATCH, max_size=25), limit=st.sampled_from([0, 2_000, 5_000, 20_000]))
def test_where_pages_lie_and_who_reads_them_changes_no_result(
    pipeline: ev.Pipeline, batches: list[tuple[int, int, int, str]], limit: int
) -> None:
    bucket, operator, second = bucket_of(pipeline, workers=3), operator_of(pipeline.plan, SCHEMA), 0
    state = operator.initial()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storing, "LIMIT", limit)
        for keys, seconds, worker, happens in batches:
            second += seconds
            if happens == "restart":
                bucket.restart()
            if happens == "tried before":
                bucket.attempt(bundle(second, keys), patch, (worker + 1) % 3)
            step = operator.step(state, bundle(second, keys))
            state = step.state
            assert written(bucket.batch(bundle(second, keys), patch, worker)) == written(step.output)
            assert sum(map(len, bucket.head.pages.values())) <= limit
            assert bucket.head.elsewhere in (None, len(bucket.map.values))
            assert not bucket.head.pages.keys() & bucket.map.values.keys()
            assert bucket.head.pages.keys() | bucket.map.values.keys() == bucket.known()
