"""Intervals against sets of numbers."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.kernels.intervals import contains, join_runs, order_by, running_max

NUMBERS = st.one_of(st.integers(0, 20), st.integers(0, 2**62))


def ints(values):
    return np.array(values, np.int64)


@settings(deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS)))
def test_rows_are_ordered_by_column_after_column(rows):
    columns = [ints([row[i] for row in rows]) for i in range(3)]
    order = order_by(*columns)
    assert [rows[at] for at in order] == sorted(rows)


def test_mostly_sorted_rows_are_ordered_too():
    numbers = np.concatenate((np.arange(0, 1000, 2), np.arange(1, 1000, 2)))
    assert numbers[order_by(numbers)].tolist() == list(range(1000))


def test_long_unsorted_rows_are_ordered_too():
    numbers = np.random.default_rng(7).permutation(5000)
    assert numbers[order_by(numbers)].tolist() == list(range(5000))


def test_negative_numbers_are_ordered_too():
    assert order_by(ints([3, -1, 2])).tolist() == [1, 2, 0]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 30), st.integers(0, 6))))
def test_runs_hold_the_same_numbers_and_are_as_few_as_possible(spans):
    key, start, end = (
        (ints(c) for c in zip(*((k, s, s + n) for k, s, n in spans), strict=True)) if spans else [ints([])] * 3
    )
    order, heads = join_runs((key,), start, end)
    ends = np.maximum.reduceat(end[order], heads) if len(heads) else ints([])
    runs = list(zip(key[order][heads].tolist(), start[order][heads].tolist(), ends.tolist(), strict=True))
    assert {(k, n) for k, first, last in runs for n in range(first, last + 1)} == {
        (k, n) for k, s, more in spans for n in range(s, s + more + 1)
    }
    assert runs == sorted(runs)
    assert all(first[0] != two[0] or first[2] + 1 < two[1] for first, two in itertools.pairwise(runs))


def test_a_run_may_end_at_the_highest_number():
    top = 2**63 - 1
    _, heads = join_runs((ints([0, 0]),), ints([top - 1, top]), ints([top, top]))
    assert heads.tolist() == [0]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(-9, 9))))
def test_a_running_maximum_starts_anew_at_each_key(rows):
    rows.sort(key=lambda row: row[0])
    best: dict[int, int] = {}
    expected = [best.setdefault(k, v) if best.get(k, v) >= v else best.update({k: v}) or v for k, v in rows]
    assert running_max((ints([k for k, _ in rows]),), ints([v for _, v in rows])).tolist() == expected


@settings(deadline=None)
@given(
    st.sets(st.tuples(st.integers(0, 2), st.integers(0, 20))),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 21))),
)
def test_a_number_is_located_in_the_run_that_contains_it(held, asked):
    key, number = ints([k for k, _ in held]), ints([n for _, n in held])
    order, heads = join_runs((key,), number, number)
    ends = np.maximum.reduceat(number[order], heads) if len(heads) else ints([])
    observed = contains(
        key[order][heads], number[order][heads], ends, ints([k for k, _ in asked]), ints([n for _, n in asked])
    )
    assert observed.tolist() == [question in held for question in asked]
