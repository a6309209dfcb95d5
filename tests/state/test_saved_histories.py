"""Random plans and histories, with the state saved and loaded between all bundles: no output changes by a bit.

Cold: another process loads everything. Warm: it has the state of the bundle before, and reads what is new.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import polars as pl
import pytest

from eventide.operators.operator import Output
from eventide.operators.windowed_aggregate import WindowedAggregate
from tests.effort import SEED, examples
from tests.oracle.compare import written
from tests.oracle.histories import FAMILIES, SCHEMA, History, pipeline_of, random_histories
from tests.state.harness import Paged, small_pages
from tests.state.test_paged_histories import step_of

_EACH = 2
_PLANS = examples(2)


def in_memory(operator: WindowedAggregate, history: History) -> list[Output]:
    state, outputs = operator.initial(), []
    for push in history.pushes:
        step = step_of(operator, state, push)
        state = step.state
        outputs.append(step.output)
    return outputs


def saved_whole(operator: WindowedAggregate, history: History) -> list[Output]:
    saved, outputs = operator.save(operator.initial()), []
    for push in history.pushes:
        operator, state = WindowedAggregate.load(operator.plan, saved)
        step = step_of(operator, state, push)
        saved = operator.save(step.state)
        outputs.append(step.output)
    return outputs


def in_pages(operator: WindowedAggregate, history: History, happens: Callable[[Paged], None]) -> list[Output]:
    paged, outputs = Paged(operator), []
    for push in history.pushes:
        outputs.append(paged.step(lambda state, push=push: step_of(operator, state, push)))
        happens(paged)
    return outputs


def cold(paged: Paged) -> None:
    paged.restart()


def warm(paged: Paged) -> None:
    paged.refresh(1)


def pages_only(paged: Paged) -> None:
    paged.evict()


def operator_of(history: History, size: int | None) -> WindowedAggregate:
    return WindowedAggregate(pipeline_of(history.spec, history.source, size=size).plan, pl.Schema(SCHEMA))


def disagreement(operator: WindowedAggregate, history: History) -> str | None:
    """The first way of saving whose outputs are not those of a state that was never saved."""
    want = list(map(written, in_memory(operator, history)))
    ways = {"whole": saved_whole(operator, history)}
    ways |= {how.__name__: in_pages(operator, history, how) for how in (cold, warm, pages_only)}
    for name, outputs in ways.items():
        for bundle, (expected, output) in enumerate(zip(want, outputs, strict=True)):
            if written(output) != expected:
                return f"{name}, bundle {bundle} of {history!r}\n{expected}\n{written(output)}"
    return None


@pytest.mark.parametrize("bounded", [pytest.param(False, marks=pytest.mark.long), True], ids=["", "in bytes"])
@pytest.mark.parametrize("family", FAMILIES)
def test_saving_between_all_bundles_changes_nothing(
    family: str, bounded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bounded and family == "cut":
        pytest.skip("sessions with a longest duration cannot be bounded in bytes")
    for number in range(_PLANS):
        seed = f"{SEED}/saved/{family}/{bounded}/{number}"
        rng = Random(seed)
        histories = random_histories(rng, family, _EACH)
        if bounded and histories[0].spec.window[-1] is not None and histories[0].spec.window[0] == "sessions":
            continue
        operator = operator_of(histories[0], rng.choice([1, 60, 200, 2000]) if bounded else None)
        with monkeypatch.context() as patch:
            if number % 2:
                small_pages(patch, small=rng.choice([600, 2000, 10_000]))
            for history in histories:
                mismatch = disagreement(operator, history)
                assert mismatch is None, f"seed {seed!r}: {mismatch}"
