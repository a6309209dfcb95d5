"""Random interval joins through the columnar code and through the model: the same pairs in every bundle.

``EVENTIDE_HISTORIES`` says how many, ``EVENTIDE_SEED`` which.
"""

from __future__ import annotations

from random import Random

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventide.operators import join_buffer as messages
from eventide.state import pane_table as panes
from tests.effort import HISTORIES, SEED, examples
from tests.oracle.join_compare import Run, bound, check, in_buckets, in_memory, in_pages
from tests.oracle.join_histories import random_histories
from tests.state.harness import small_pages

_WAYS: dict[str, Run] = {"memory": in_memory, "buckets": in_buckets, "pages": in_pages}
_PARTS = {"memory": 8, "buckets": 1, "pages": 1}  # of equal size, so that workers share the work
_EACH = examples(4)  # histories of one join
_JOINS = -(-HISTORIES // (sum(_PARTS.values()) * _EACH))


def agree(seed: str, way: str) -> None:
    """Some histories of one join, as it runs in one way."""
    rng = Random(seed)
    histories = random_histories(rng, _EACH)
    operator = bound(histories[0])
    for history in histories:
        try:
            check(history, _WAYS[way], rng, operator)
        except AssertionError as failure:
            raise AssertionError(f"seed {seed!r}{failure}") from None


@pytest.mark.parametrize(("way", "part"), [(way, part) for way, parts in _PARTS.items() for part in range(parts)])
def test_columns_and_model_agree(way: str, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "pages":
        small_pages(monkeypatch)
    for number in range(_JOINS):
        agree(f"{SEED}/join/{way}/{part}/{number}", way)


def test_rows_of_which_all_hashes_are_equal_meet_only_where_keys_and_times_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (messages, panes):
        monkeypatch.setattr(module, "row_hashes", lambda frame, by: pl.zeros(frame.height, pl.UInt64, eager=True))
    for number in range(examples(5)):
        agree(f"{SEED}/join/collisions/{number}", "memory")


@given(st.randoms(use_true_random=False))
@settings(
    max_examples=examples(20),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_columns_and_model_agree_where_hypothesis_looks(rng: Random) -> None:
    (history,) = random_histories(rng, 1)
    check(history, in_memory, rng)
