"""Progress is what was seen without a gap, in any order of arrival."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.errors import DataError
from eventide.time import MIN
from eventide.watermarks.sequence_runs import MAX_LAST_CHUNKS, Chunks, Runs
from eventide.watermarks.sequences import SequenceGap, SequenceProgress


def runs_of(*, origin: int, sequences: list[int], watermarks: list[int], since: int = 0) -> Runs:
    """Complete sequences of one origin."""
    numbers = np.array(sequences, np.int64)
    origins, first_seen = np.full(len(numbers), origin), np.full(len(numbers), since)
    return Runs(origins, numbers, numbers, np.array(watermarks, np.int64), first_seen)


def see(progress, *sequences, origin=0, since=0):
    """Each sequence n has watermark 10 n."""
    progress.observe(
        runs_of(origin=origin, sequences=list(sequences), watermarks=[10 * n for n in sequences], since=since)
    )


def see_chunks(progress, *chunks, sequence=1, last=None, origin=0, since=0, watermark=None):
    numbers = np.array(chunks)
    same = np.ones_like(numbers)
    progress.observe(
        chunks=Chunks(
            same * origin,
            same * sequence,
            numbers,
            numbers,
            np.where(numbers == last, numbers, -1),
            same * (10 * sequence if watermark is None else watermark),
            same * since,
        )
    )


@pytest.mark.parametrize(
    ("sequences", "longest"), [((1, 2, 3, 4, 5), 5), ((1, 2, 3, 5, 6), 3), ((1, 3, 4, 6), 1), ((2, 3), 0)]
)
def test_the_longest_run_from_the_first(sequences, longest):
    progress = SequenceProgress()
    see(progress, *sequences)
    assert progress.reached(0) == (longest, 10 * longest if longest else MIN)


def test_the_order_of_arrival_is_no_matter():
    progress = SequenceProgress()
    for number in (3, 1, 5, 4):
        see(progress, number)
    assert progress.reached(0) == (1, 10)
    see(progress, 2)
    assert progress.reached(0) == (5, 50)


def test_repeats_are_harmless():
    progress = SequenceProgress()
    for _ in range(3):
        see(progress, 1, 2, 2, 4)
    assert progress.reached(0) == (2, 20)
    assert progress.gaps() == [SequenceGap(0, 3, 3, 0)]


def test_the_watermark_of_a_run_is_its_highest():
    progress = SequenceProgress()
    progress.observe(runs_of(origin=0, sequences=[1, 2, 3], watermarks=[50, 10, 30]))
    assert progress.reached(0) == (3, 50)


def test_a_watermark_beyond_a_gap_does_not_count():
    progress = SequenceProgress()
    progress.observe(runs_of(origin=0, sequences=[1, 3], watermarks=[10, 99]))
    assert progress.reached(0) == (1, 10)


def test_origins_are_independent():
    progress = SequenceProgress()
    see(progress, 1, 2, origin=0)
    see(progress, 2, origin=1)
    assert [progress.reached(origin) for origin in (0, 1)] == [(2, 20), (0, MIN)]
    assert progress.gap_free_watermarks()[0].tolist() == [0]


def test_memory_follows_the_gaps_not_the_history():
    progress = SequenceProgress()
    numbers = np.random.default_rng(1).permutation(100_000) + 1
    see(progress, *numbers[numbers != 500].tolist())
    assert len(progress.runs.start) == 2


# Chunks


def test_a_sequence_is_complete_when_all_chunks_up_to_the_last_were_seen():
    progress = SequenceProgress()
    see_chunks(progress, 1, 2)
    see_chunks(progress, 4, last=4)
    assert progress.reached(0) == (0, MIN)
    see_chunks(progress, 3)
    assert progress.reached(0) == (1, 10)
    assert not len(progress.chunks.start)


def test_the_chunks_of_nebulastreams_example():
    progress = SequenceProgress()  # {1, 2, 3, 4}, the fourth is the last: 4 seen == number of the last
    for chunk in (2, 4, 1, 3):
        assert progress.reached(0)[0] == 0
        see_chunks(progress, chunk, last=4)
    assert progress.reached(0)[0] == 1


def test_chunks_may_be_counted_from_zero():
    progress = SequenceProgress(first_chunk=0)
    see_chunks(progress, 1, last=1)
    assert progress.reached(0)[0] == 0
    see_chunks(progress, 0)
    assert progress.reached(0)[0] == 1


def test_a_chunk_beyond_the_last_does_not_stand_in_for_a_missing_one():
    progress = SequenceProgress()
    see_chunks(progress, 1, 3)
    see_chunks(progress, 2, last=2, sequence=2)
    see_chunks(progress, 4, last=4)
    assert progress.reached(0)[0] == 0


def test_repeated_chunks_are_harmless_before_and_after_completion():
    progress = SequenceProgress()
    see_chunks(progress, 1, 1)
    see_chunks(progress, 1)
    assert progress.reached(0)[0] == 0
    see_chunks(progress, 2, last=2)
    see_chunks(progress, 1)
    assert progress.reached(0)[0] == 1
    assert progress.gaps() == []


def test_repeated_chunks_of_a_complete_sequence_beyond_a_gap_are_forgotten():
    progress = SequenceProgress()
    see_chunks(progress, 1, last=1, sequence=3)
    see_chunks(progress, 1, sequence=3)
    assert not len(progress.chunks.start)


def test_the_watermark_of_a_sequence_is_that_of_its_highest_chunk():
    progress = SequenceProgress()
    see_chunks(progress, 1, watermark=70)
    see_chunks(progress, 2, last=2, watermark=20)
    assert progress.reached(0) == (1, 70)


def test_two_last_chunks_of_one_sequence_are_rejected():
    progress = SequenceProgress(name="origin {}".format)
    see_chunks(progress, 3, last=3, sequence=7, origin=2)
    with pytest.raises(DataError, match="Sequence 7 of origin 2 has two last chunks, 3 and 5"):
        see_chunks(progress, 5, last=5, sequence=7, origin=2)


CONTRADICTIONS = {
    "two last chunks": [(1, False), (2, True), (3, True)],
    "a chunk beyond the last": [(1, False), (2, True), (3, False)],
    "two last chunks with a hole": [(1, False), (3, True), (5, True)],
}


def in_bundles(rows):
    """All ways to divide rows among bundles, in this order."""
    for cuts in itertools.product((False, True), repeat=len(rows) - 1):
        bundles = [[rows[0]]]
        for row, cut in zip(rows[1:], cuts, strict=True):
            if cut:
                bundles.append([])
            bundles[-1].append(row)
        yield bundles


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_contradiction_is_an_error_in_every_order_and_bundling(case):
    for rows in itertools.permutations(CONTRADICTIONS[case]):
        for bundles in in_bundles(rows):
            progress = SequenceProgress(name="origin {}".format)
            with pytest.raises(DataError, match="Sequence 1 of origin 0 has"):
                for bundle in bundles:
                    numbers = np.array([chunk for chunk, _ in bundle])
                    same = np.ones_like(numbers)
                    last = np.array([chunk if last else -1 for chunk, last in bundle])
                    progress.observe(chunks=Chunks(same * 0, same, numbers, numbers, last, same * 10, same * 0))


def test_a_contradiction_of_a_complete_sequence_is_noticed():
    progress = SequenceProgress(name="origin {}".format)
    see_chunks(progress, 1, 2, last=2)
    assert progress.reached(0) == (1, 10)
    with pytest.raises(DataError, match="Sequence 1 of origin 0 has chunk 3, although chunk 2 is flagged as its last"):
        see_chunks(progress, 3)
    with pytest.raises(DataError, match="Sequence 1 of origin 0 has two last chunks, 1 and 2"):
        see_chunks(progress, 1, last=1)


def test_last_chunks_of_equal_sequences_take_one_entry():
    progress = SequenceProgress()
    for sequence in range(1, 500):
        see_chunks(progress, 1, 2, last=2, sequence=sequence)
    assert len(progress.last_chunks.start) == 1


def test_memory_of_last_chunks_is_bounded_for_each_origin():
    progress = SequenceProgress(name="origin {}".format)
    for sequence in range(1, 4 * MAX_LAST_CHUNKS):
        for origin in (0, 1):
            length = 1 + sequence % 3
            see_chunks(progress, *range(1, length + 1), last=length, sequence=sequence, origin=origin)
    assert np.bincount(progress.last_chunks.origin).tolist() == [MAX_LAST_CHUNKS, MAX_LAST_CHUNKS]
    with pytest.raises(DataError, match=f"Sequence {4 * MAX_LAST_CHUNKS - 1} of origin 1 has chunk 9"):
        see_chunks(progress, 9, sequence=4 * MAX_LAST_CHUNKS - 1, origin=1)


def test_chunks_of_different_sequences_are_independent():
    progress = SequenceProgress()
    see_chunks(progress, 1, sequence=1)
    see_chunks(progress, 2, last=2, sequence=2)
    assert progress.reached(0)[0] == 0
    assert progress.gaps() == [SequenceGap(0, 1, 2, 0)]


# Gaps


def test_gaps_say_what_is_missing_and_since_when():
    progress = SequenceProgress()
    see(progress, 1, 2, 9, since=100)
    see(progress, 5, since=200)
    assert progress.gaps() == [SequenceGap(0, 3, 4, 100), SequenceGap(0, 6, 8, 100)]
    see(progress, 12, since=300)
    assert progress.gaps()[-1] == SequenceGap(0, 10, 11, 300)


def test_an_origin_that_begins_in_the_middle_has_a_gap():
    progress = SequenceProgress()
    see(progress, 4, origin=3, since=7)
    assert progress.gaps() == [SequenceGap(3, 1, 3, 7)]


def test_an_incomplete_sequence_is_part_of_a_gap():
    progress = SequenceProgress()
    see(progress, 1)
    see_chunks(progress, 1, sequence=2, since=5)
    assert progress.gaps() == [SequenceGap(0, 2, 2, 5)]
    see(progress, 4, since=9)
    assert progress.gaps() == [SequenceGap(0, 2, 3, 5)]


def test_gaps_of_many_origins():
    progress = SequenceProgress()
    see(progress, 1, 3, origin=0, since=1)
    see(progress, 1, 2, origin=1, since=2)
    see(progress, 2, origin=2, since=3)
    assert progress.gaps() == [SequenceGap(0, 2, 2, 1), SequenceGap(2, 1, 1, 3)]


def test_skipping_fills_the_first_gap():
    progress = SequenceProgress()
    see(progress, 1, 3, 5)
    assert progress.skip_gap(0)
    assert progress.reached(0) == (3, 30)
    assert progress.skip_gap(0)
    assert progress.reached(0) == (5, 50)
    assert not progress.skip_gap(0)


def test_skipping_up_to_a_number_counts_all_before_it_as_seen():
    progress = SequenceProgress()
    see(progress, 1, 7, 9)
    assert progress.skip_gap(0, up_to=6)
    assert progress.reached(0) == (7, 70)
    assert not progress.skip_gap(0, up_to=7)


def test_a_sequence_may_begin_where_a_skip_says():
    progress = SequenceProgress()
    assert progress.skip_gap(0, up_to=1000)
    see(progress, 1001)
    assert progress.reached(0) == (1001, 10010)


def test_skipping_an_incomplete_sequence_counts_what_was_seen_of_it():
    progress = SequenceProgress()
    see_chunks(progress, 1, sequence=1)
    assert progress.skip_gap(0)
    assert progress.reached(0) == (1, 10)
    assert not len(progress.chunks.start)


def test_skipping_one_origin_leaves_the_others():
    progress = SequenceProgress()
    see(progress, 2, origin=0)
    see(progress, 2, origin=1)
    progress.skip_gap(1)
    assert [progress.reached(origin)[0] for origin in (0, 1)] == [0, 2]


def test_old_gaps_are_given_up_and_young_ones_kept():
    progress = SequenceProgress()
    see(progress, 1, 3, since=10)
    see(progress, 5, since=20)
    progress.skip_gaps_since(9)
    assert progress.reached(0)[0] == 1
    progress.skip_gaps_since(10)
    assert progress.reached(0)[0] == 3
    progress.skip_gaps_since(20)
    assert progress.reached(0)[0] == 5


def test_a_copy_is_independent():
    progress = SequenceProgress()
    see(progress, 1)
    twin = progress.copy()
    see(twin, 2)
    assert (progress.reached(0)[0], twin.reached(0)[0]) == (1, 2)


# Against a model that remembers everything


class Model:
    """Sets of everything ever seen."""

    def __init__(self, first_chunk):
        self.first_chunk, self.seen = first_chunk, []

    def complete(self, origin, sequence):
        rows = [row for row in self.seen if row[:2] == (origin, sequence)]
        if any(row[2] is None for row in rows):
            return True
        last = max((row[2] for row in rows if row[3]), default=None)
        chunks = {row[2] for row in rows}
        return last is not None and chunks >= set(range(self.first_chunk, last + 1))

    def reached(self, origin):
        sequence = 0
        while self.complete(origin, sequence + 1):
            sequence += 1
        marks = [row[4] for row in self.seen if row[0] == origin and row[1] <= sequence]
        return sequence, max(marks, default=MIN)

    def missing(self, origin):
        top = max((row[1] for row in self.seen if row[0] == origin), default=0)
        return {n for n in range(1, top + 1) if not self.complete(origin, n)}


ROWS = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9), st.integers(0, 3), st.integers(0, 99)), max_size=12),
    max_size=6,
)


@settings(deadline=None)
@given(ROWS, st.booleans())
def test_progress_is_what_a_memory_of_everything_says(bundles, in_chunks):
    progress, model = SequenceProgress(), Model(1)
    for now, bundle in enumerate(bundles):
        rows = []
        for origin, sequence, chunk, mark in bundle:
            length = 1 + sequence % 3
            chunk = 1 + chunk % length
            rows.append((origin, sequence, chunk if in_chunks else None, chunk == length, mark))
        model.seen += rows
        numbers = [np.array([row[i] for row in rows], np.int64) for i in (0, 1, 4)]
        since = np.full(len(rows), now)
        if in_chunks:
            chunk = np.array([row[2] for row in rows], np.int64)
            last = np.where([row[3] for row in rows], chunk, -1)
            progress.observe(chunks=Chunks(numbers[0], numbers[1], chunk, chunk, last, numbers[2], since))
        else:
            progress.observe(type(progress.runs)(numbers[0], numbers[1], numbers[1], numbers[2], since))
        for origin in range(3):
            assert progress.reached(origin) == model.reached(origin)
            gaps = [gap for gap in progress.gaps() if gap.origin == origin]
            assert {n for gap in gaps for n in range(gap.first, gap.last + 1)} == model.missing(origin)
            assert all(first.last < two.first and first.since <= two.since for first, two in itertools.pairwise(gaps))
        assert progress.oldest_gap() == min((gap.since for gap in progress.gaps()), default=None)
