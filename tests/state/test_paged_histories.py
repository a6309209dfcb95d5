"""Random histories on a store of pages: every output is that of the state kept in memory, to the last bit."""

from __future__ import annotations

from random import Random

import pytest

from eventide.operators.operator import Bundle, Step
from eventide.operators.windowed_aggregate import State, WindowedAggregate
from eventide.watermarks import Watermark
from tests.effort import SEED, examples
from tests.oracle.compare import bound, written
from tests.oracle.histories import FAMILIES, History, Push, frame_of, random_histories
from tests.state.harness import Paged, small_pages

HISTORIES = examples(40)
_EACH = examples(4)
_PLANS = max(1, HISTORIES // (len(FAMILIES) * _EACH))


def step_of(operator: WindowedAggregate, state: State, push: Push) -> Step[State]:
    notes = () if push.note is None else (Watermark(0, push.note),)
    return operator.step(state, Bundle(frame_of(push.rows), push.now, notes))


def differs(history: History, rng: Random) -> str | None:
    """Where a history on pages differs from one in memory. After each bundle anything may happen."""
    operator = bound(history)
    state, paged = operator.initial(), Paged(operator)
    for i, push in enumerate(history.pushes):
        for _ in range(rng.choice([0, 0, 1, 2])):
            paged.attempt(lambda state, push=push: step_of(operator, state, push), rng.choice([None, 0, 1, 2, 5]))
        step = step_of(operator, state, push)
        output = paged.step(lambda state, push=push: step_of(operator, state, push))
        state = step.state
        if written(output) != written(step.output):
            return f"bundle {i} of {history!r}\n{written(step.output)}\n{written(output)}"
        happens = rng.choice(["nothing", "nothing", "restart", "catch up", "let go"])
        if happens == "restart":
            paged.restart()
        elif happens == "catch up":
            paged.refresh(rng.randint(0, 4))
        elif happens == "let go":
            paged.evict()
    return None


@pytest.mark.parametrize("family", FAMILIES)
def test_pages_and_memory_agree(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(_PLANS):
        seed = f"{SEED}/paged/{family}/{number}"
        rng = Random(seed)
        with monkeypatch.context() as patch:
            if number % 4:
                small_pages(patch, small=rng.choice([600, 2000, 10_000]))
            for history in random_histories(rng, family, _EACH):
                mismatch = differs(history, rng)
                assert mismatch is None, f"seed {seed!r}: {mismatch}"
