"""Random histories through the columnar code and through the model: equal in every row, in every step.

``EVENTIDE_HISTORIES`` says how many (``make soak``: 100,000), ``EVENTIDE_SEED`` which.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import HISTORIES, SEED, examples
from tests.oracle.compare import bound, check, difference
from tests.oracle.histories import FAMILIES, random_histories

_PARTS = 2  # of each family, so that workers share the work evenly
_EACH = examples(4)  # histories of one plan
_PLANS = -(-HISTORIES // (len(FAMILIES) * _PARTS * _EACH))


@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("family", FAMILIES)
def test_columns_and_model_agree(family: str, part: int) -> None:
    for number in range(part, _PLANS * _PARTS, _PARTS):
        seed = f"{SEED}/{family}/{number}"
        histories = random_histories(Random(seed), family, _EACH)
        operator = bound(histories[0])
        for history in histories:
            try:
                check(history, operator)
            except AssertionError as failure:
                raise AssertionError(f"seed {seed!r}{failure}") from None


@given(st.sampled_from(FAMILIES), st.randoms(use_true_random=False))
@settings(
    max_examples=examples(20),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_columns_and_model_agree_where_hypothesis_looks(family: str, rng: Random) -> None:
    (history,) = random_histories(rng, family, 1)
    mismatch = difference(history)
    assert mismatch is None, mismatch
