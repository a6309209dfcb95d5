"""Steps that need the same rows take them in one order."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from eventide.errors import EventideError
from eventide.marks.segments import Segment
from eventide.marks.stores import connect
from eventide.marks.stores.store import Store
from tests.marks.stores.cases import addition, config, part
from tests.marks.stores.harness import run_concurrently


@pytest.mark.usefixtures("often")
def test_steps_of_all_kinds_at_once_never_fail_for_each_other(url: str) -> None:
    """Each may be rejected, but none waits for another that waits for it."""
    store = connect(url)
    for stream in ("a", "b"):
        store.create_stream(stream, config(4))

    def anything(number: int) -> int:
        chance = random.Random(number)
        return sum(done(partial(some_steps, store, chance, number)) for _ in range(30))

    assert sum(run_concurrently(6, anything)) > 6 * 30 / 3  # most, but on a slow machine


def done(step: Callable[[], object]) -> bool:
    try:
        step()
    except EventideError as refusal:
        assert "failed" not in str(refusal), refusal
        return False
    return True


def some_steps(store: Store, chance: random.Random, number: int) -> None:
    """All that writers, controllers and operators do, on one of two streams."""
    stream = chance.choice("ab")
    if chance.random() < 0.03:
        store.delete_stream(stream)
        store.create_stream(stream, config(4))
    writer = number if chance.random() < 0.9 else number + 1  # which is another's
    handle = store.open_writer(stream, f"writer {writer}", take_over=True)
    lease = store.acquire(stream, f"c{number % 2}", store.now() + 1_000)
    begun = store.begin(handle, timeout=20_000 if chance.random() < 0.1 else 60_000_000)
    store.add(handle, begun.id, 1, *addition((1, 0.1), (2, 0.6), (3, 0.9)))
    segments = store.stream(stream).segments.open
    parts = [part(segment.number, 1) for segment in segments]
    chance.shuffle(parts)
    for step in chance.sample(
        [
            lambda: store.append(handle, handle.sequence + 1, parts, note=store.now()),
            lambda: store.append(handle, handle.sequence + 1, parts[:2]),
            lambda: store.commit(handle, begun.id, note=store.now()),
            lambda: store.abort(handle, begun.id),
            lambda: store.scale(stream, [segments[0].number], [(segments[0].low, segments[0].high)]),
            lambda: store.truncate(stream, {segment.number: 0 for segment in segments}),
            lambda: store.truncate(stream, all_of(store, stream, segments)),
            lambda: [store.compact(stream, segment.number, 0) for segment in segments],
            lambda: lease and store.delete_notes(lease, [(f"writer {other}", store.now()) for other in range(6)]),
            lambda: store.leave(f"c{number % 2}"),
            lambda: store.close_writer(handle),
            store.expire_transactions,
        ],
        4,
    ):
        done(step)


def all_of(store: Store, stream: str, segments: Sequence[Segment]) -> dict[int, int]:
    """Where segments end; one of a stream that was deleted meanwhile ends where it began."""
    lengths = store.lengths(stream)
    return {segment.number: lengths.get(segment.number, 0) for segment in segments}
