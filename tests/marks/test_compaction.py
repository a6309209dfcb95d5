"""Which blobs are compacted, and when."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventide.marks import events
from eventide.marks.compaction import BlobSize, CompactionPolicy, Run, compact_bodies

DEFAULT = CompactionPolicy()
SMALL = CompactionPolicy(
    short=4, long=16, min_blobs=2, target_rows=8, target_bytes=100, max_bytes=200, step_bytes=300, step_blobs=8
)
PARTS = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 150)), min_size=1, max_size=30)


def laid(parts: list[tuple[int, int]], first: int = 0) -> list[BlobSize]:
    """Blobs of so many rows and bytes, one behind the other."""
    sizes = []
    for rows, size in parts:
        sizes.append(BlobSize(first, rows, size))
        first += rows
    return sizes


def offsets(runs: list[Run]) -> list[list[int]]:
    return [[blob.offset for blob in run] for run in runs]


def test_an_append_within_a_stretch_compacts_nothing() -> None:
    assert DEFAULT.completed_range(16_384, 16_385) is None and DEFAULT.completed_range(0, 16_383) is None


def test_an_append_that_reaches_the_end_of_a_long_stretch_compacts_it() -> None:
    assert DEFAULT.completed_range(16_000, 16_384) == 0 and DEFAULT.completed_range(32_700, 33_000) == 16_384


def test_an_append_over_several_stretches_compacts_from_the_first_of_them() -> None:
    assert DEFAULT.completed_range(20_000, 100_000) == 16_384


def test_a_short_stretch_is_compacted_only_by_tiny_appends() -> None:
    assert DEFAULT.completed_range(255, 256) == 128 and DEFAULT.completed_range(250, 282) == 128
    assert DEFAULT.completed_range(250, 283) is None


def test_a_run_ends_at_a_blob_that_is_large_enough() -> None:
    blobs = laid([(1, 9), (1, 9), (8, 9), (1, 9), (1, 100), (1, 9)])
    assert offsets(SMALL.runs(blobs)) == [[0, 1], [10], [12]]


def test_a_run_ends_where_it_has_the_rows_of_a_long_stretch() -> None:
    assert offsets(SMALL.runs(laid([(6, 1)] * 7))) == [[0, 6, 12], [18, 24, 30], [36]]


def test_a_run_ends_before_its_bytes_are_too_many() -> None:
    assert offsets(SMALL.runs(laid([(1, 80)] * 5))) == [[0, 1], [2, 3], [4]]


def test_a_run_ends_at_a_hole() -> None:
    assert offsets(SMALL.runs([*laid([(1, 9)] * 2), *laid([(1, 9)] * 2, first=5)])) == [[0, 1], [5, 6]]


def test_a_run_of_few_is_not_worth_it() -> None:
    assert DEFAULT.select([laid([(1, 9)] * 3)]) == [] != DEFAULT.select([laid([(1, 9)] * 4)])


def test_one_step_takes_no_more_than_it_may() -> None:
    runs = SMALL.runs(laid([(1, 80)] * 6))
    assert offsets(SMALL.select(runs)) == [[0, 1]]


def test_what_may_still_grow_waits_for_more() -> None:
    assert SMALL.plan(laid([(6, 1)] * 5)) == ([laid([(6, 1)] * 3)], 18)


def test_so_many_tiny_ones_that_no_end_is_seen_become_one_that_is_looked_at_again() -> None:
    blobs = laid([(1, 1)] * 8)
    assert SMALL.plan(blobs) == ([blobs], 0)


def test_a_step_that_may_take_no_more_continues_behind_what_it_took() -> None:
    assert SMALL.plan(laid([(1, 80)] * 6 + [(20, 9)])) == ([laid([(1, 80)] * 2)], 2)


@given(PARTS)
def test_steps_come_to_an_end_and_leave_each_row_where_it_was(parts: list[tuple[int, int]]) -> None:
    blobs, offset, steps = laid(parts), 0, 0
    end = blobs[-1].end
    while True:
        seen = [blob for blob in blobs if blob.offset >= offset][: SMALL.step_blobs]
        runs, further = SMALL.plan(seen) if seen else ([], offset)
        for run in runs:
            assert sum(blob.bytes for blob in run) <= SMALL.max_bytes and len(run) >= SMALL.min_blobs
            place = blobs.index(run[0])
            assert blobs[place : place + len(run)] == run
            blobs[place : place + len(run)] = [
                BlobSize(run[0].offset, run[-1].end - run[0].offset, sum(blob.bytes for blob in run))
            ]
        assert further >= offset
        if further == offset and not runs:
            break
        offset, steps = further, steps + 1
        assert steps <= 2 * len(parts)
    assert [blob.offset for blob in blobs[1:]] == [blob.end for blob in blobs[:-1]] and blobs[-1].end == end


def bodies(*numbers: list[int]) -> list[bytes]:
    return [events.encode(pa.table({"n": pa.array(some, pa.int64())})) for some in numbers]


def test_compacted_events_are_one_batch_in_the_same_order() -> None:
    body = compact_bodies(bodies([1, 2], [3], [4, 5]), 5)
    assert body is not None
    assert [batch.to_pydict() for batch in pa.ipc.open_stream(body)] == [{"n": [1, 2, 3, 4, 5]}]


def test_texts_of_which_each_blob_has_its_own_dictionary_are_compacted() -> None:
    tables = [pa.table({"shop": pa.array(shops).dictionary_encode()}) for shops in (["kiel", "bonn"], ["bonn", "ulm"])]
    body = compact_bodies([events.encode(table) for table in tables], 4)
    assert body is not None and events.decode(body)["shop"].to_pylist() == ["kiel", "bonn", "bonn", "ulm"]


@pytest.mark.parametrize(
    "strange",
    [
        [b"no events", b"none"],
        [b"", b""],
        [*bodies([1]), b"none"],
        [*bodies([1]), events.encode(pa.table({"m": ["a"]}))],
    ],
)
def test_bytes_that_are_not_events_of_one_kind_are_not_compacted(strange: list[bytes]) -> None:
    assert compact_bodies(strange, 2) is None


def test_events_that_differ_from_their_declared_number_are_not_compacted() -> None:
    assert compact_bodies(bodies([1, 2], [3]), 4) is None
