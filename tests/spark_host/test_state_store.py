"""A small state is stored in the header of its bucket, a larger one also in the map of pages."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventide as ev
from eventide.operators.factory import operator_of
from eventide.operators.operator import Bundle
from eventide.spark import state_store
from eventide.spark.shuffle_pages import Stage
from eventide.spark.state_store import SparkPageStore
from eventide.watermarks import Watermark
from tests.effort import examples
from tests.oracle.compare import written
from tests.spark_host.bucket_harness import Bucket, FakeMap

SECOND = 1_000_000
SCHEMA = {"t": pl.Int64(), "k": pl.Int64(), "v": pl.Int64()}
_names = count()


def _windows() -> Any:
    return ev.stream(time="t", key="k", watermark=ev.bounded_delay("10 seconds")).window(ev.tumbling("1 minute"))


ONCE = _windows().agg(n=ev.count(), total=ev.sum("v"))
OFTEN = (
    _windows().trigger(ev.after_watermark(early=ev.on_update()), mode="retracting").agg(n=ev.count(), total=ev.sum("v"))
)


def new_bucket(pipeline: ev.Pipeline, workers: int = 1) -> Bucket:
    return Bucket(Stage(f"state store {next(_names)}", pipeline.plan, (SCHEMA,), 1), workers)


def bundle(second: int, keys: int, *notes: Watermark) -> Bundle:
    """A row of each key, at that second."""
    rows = {"t": np.full(keys, second * SECOND), "k": np.arange(keys) * 7919, "v": np.arange(keys) + second}
    return Bundle(pl.DataFrame(rows, schema=SCHEMA), second * SECOND, notes)


@pytest.mark.parametrize("pipeline", [ONCE, OFTEN], ids=["cells", "panes"])
def test_a_small_state_never_uses_the_map(pipeline: ev.Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = new_bucket(pipeline, workers=2)
    for number in range(40):
        bucket.batch(bundle(5 * number, 50), monkeypatch, worker=number // 3 % 2)
        assert (bucket.map.uses, bucket.value.updates) == (0, 1)
        assert bucket.header.inline_pages and bucket.header.stored_pages == 0


def test_a_state_that_outgrows_its_header_continues_in_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = new_bucket(ONCE)
    bucket.batch(bundle(0, 50), monkeypatch)
    assert not bucket.map.values
    bucket.batch(bundle(5, 20_000), monkeypatch)
    assert bucket.map.values and bucket.header.stored_pages == len(bucket.map.values)
    assert bucket.header.inline_pages.keys() | bucket.map.values.keys() == bucket.pages()


def test_a_small_bundle_on_a_large_state_does_not_use_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = new_bucket(ONCE)
    bucket.batch(bundle(0, 20_000), monkeypatch)
    bucket.batch(bundle(5, 20), monkeypatch)
    assert bucket.map.values and bucket.map.uses == 0


def test_a_state_that_has_become_small_is_in_its_header_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = new_bucket(ONCE)
    bucket.batch(bundle(0, 20_000), monkeypatch)
    bucket.batch(bundle(100, 20), monkeypatch)
    assert any(call == "remove" for call, _ in bucket.map.calls) and not bucket.map.values
    bucket.restart()
    bucket.batch(bundle(200, 20), monkeypatch)
    assert bucket.map.uses == 0 and bucket.header.stored_pages == 0


def test_a_state_about_as_large_as_the_limit_does_not_use_the_map_in_every_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucket, used = new_bucket(OFTEN), []
    for number in range(60):
        bucket.batch(bundle(5 * number, 900), monkeypatch)
        used.append(bucket.map.uses > 0)
    assert 0 < sum(used) <= 30


def test_a_state_with_all_pages_in_the_map_continues_in_the_header(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucket, same = new_bucket(OFTEN), new_bucket(OFTEN)
    with monkeypatch.context() as before:
        before.setattr(state_store, "LIMIT", 0)  # nothing in the header
        for second in (0, 5):
            bucket.batch(bundle(second, 50), monkeypatch)
    assert not bucket.header.inline_pages and bucket.pages() == bucket.map.values.keys()
    for second in (0, 5):
        same.batch(bundle(second, 50), monkeypatch)
    bucket.restart()
    assert written(bucket.batch(bundle(70, 50), monkeypatch)) == written(same.batch(bundle(70, 50), monkeypatch))
    assert bucket.header.inline_pages
    assert bucket.header.inline_pages.keys() | bucket.map.values.keys() == bucket.pages()


def test_sizes_do_not_depend_on_where_pages_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    for limit in (0, 1 << 20):
        monkeypatch.setattr(state_store, "LIMIT", limit)
        bucket = new_bucket(ONCE)
        bucket.batch(bundle(0, 100), monkeypatch)
        bucket.batch(bundle(5, 100), monkeypatch)
        assert bucket.value.value is not None
        put = sum(len(bucket.map.values[page]) for call, page in bucket.map.calls if call == "put")
        assert bucket.sizes["written"] == put + len(bucket.value.value[2])
        sizes.append((bucket.sizes["pages"], bucket.sizes["state_bytes"]))
    assert sizes[0] == sizes[1]


def test_the_largest_pages_move_to_the_map_until_the_header_is_half_empty() -> None:
    sizes = {1: 14_000, 2: 1_000, 3: 15_000, 4: 9_000, 5: 500}
    pages = FakeMap()
    store = SparkPageStore(pages.ask)
    for page, size in sizes.items():
        store.put(page, bytes(size))
    assert list(store.flush()) == [2, 4, 5]
    assert pages.calls == [("put", 3), ("put", 1)] and store.moved == 29_000


def test_pages_that_fit_stay_in_the_header() -> None:
    pages = FakeMap()
    store = SparkPageStore(pages.ask, {1: bytes(state_store.LIMIT - 10)})
    store.put(2, bytes(10))
    assert list(store.flush()) == [1, 2] and pages.uses == 0


def test_a_large_page_moves_to_the_map_at_once() -> None:
    pages = FakeMap()
    store = SparkPageStore(pages.ask)
    store.put(1, bytes(state_store.LIMIT + 1))
    assert pages.calls == [("put", 1)] and store.flush() == {}


def test_a_page_of_the_header_is_not_removed_from_the_map() -> None:
    pages = FakeMap({2: b"in the map"})
    store = SparkPageStore(pages.ask, {1: b"in the header"})
    store.put(3, b"new")
    store.drop(3)
    store.drop(1)
    assert pages.uses == 0
    store.drop(2)
    assert pages.calls == [("remove", 2)] and store.flush() == {}


BATCH = st.tuples(
    st.sampled_from([0, 1, 5, 40, 400]),  # keys
    st.sampled_from([0, 5, 5, 30, 90]),  # seconds since the batch before
    st.integers(0, 2),  # the worker that it comes to
    st.sampled_from(["nothing", "nothing", "tried before", "restart"]),
)


@pytest.mark.parametrize("pipeline", [ONCE, OFTEN], ids=["cells", "panes"])
@settings(max_examples=examples(8))
@given(batches=st.lists(BATCH, max_size=25), limit=st.sampled_from([0, 2_000, 5_000, 20_000]))
def test_results_do_not_depend_on_where_pages_are_stored_or_which_worker_reads_them(
    pipeline: ev.Pipeline, batches: list[tuple[int, int, int, str]], limit: int
) -> None:
    bucket, operator, second = new_bucket(pipeline, workers=3), operator_of(pipeline.plan, SCHEMA), 0
    state = operator.initial()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_store, "LIMIT", limit)
        for keys, seconds, worker, happens in batches:
            second += seconds
            if happens == "restart":
                bucket.restart()
            if happens == "tried before":
                bucket.attempt(bundle(second, keys), patch, (worker + 1) % 3)
            step = operator.step(state, bundle(second, keys))
            state = step.state
            assert written(bucket.batch(bundle(second, keys), patch, worker)) == written(step.output)
            assert sum(map(len, bucket.header.inline_pages.values())) <= limit
            assert bucket.header.stored_pages == len(bucket.map.values)
            assert not bucket.header.inline_pages.keys() & bucket.map.values.keys()
            assert bucket.header.inline_pages.keys() | bucket.map.values.keys() == bucket.pages()
