"""A bucket's state without Spark: fakes of its value and its map that record their calls."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from eventide.operators.operator import Bundle, Output
from eventide.spark import state_store
from eventide.spark.shuffle_pages import Stage, Task
from eventide.spark.state_store import BucketStateStore, StateCache
from eventide.state.format import StateHeader
from tests.state.harness import pages_of


@dataclass
class FakeValue:
    """A value of Spark's state."""

    value: tuple[Any, ...] | None = None
    updates: int = 0

    def get(self) -> tuple[Any, ...] | None:
        return self.value

    def update(self, value: tuple[Any, ...]) -> None:
        self.value = value
        self.updates += 1


@dataclass
class FakeMap:
    """A map of Spark's state. Unlike Spark, it rejects the removal of a missing key."""

    values: dict[int, bytes] = field(default_factory=dict)
    calls: list[tuple[str, int]] = field(default_factory=list)
    uses: int = 0

    def ask(self) -> Any:
        self.uses += 1
        return self

    def getValue(self, key: tuple[int]) -> tuple[bytes] | None:  # noqa: N802
        self.calls.append(("get", key[0]))
        return (self.values[key[0]],) if key[0] in self.values else None

    def updateValue(self, key: tuple[int], value: tuple[bytes]) -> None:  # noqa: N802
        assert key[0] not in self.values, "a page is put into the map once"
        self.calls.append(("put", key[0]))
        self.values[key[0]] = value[0]

    def removeKey(self, key: tuple[int]) -> None:  # noqa: N802
        self.calls.append(("remove", key[0]))
        del self.values[key[0]]


class Bucket:
    """One bucket over many batches, each in one of some workers."""

    def __init__(self, stage: Stage, workers: int = 1) -> None:
        self.stage = stage
        self.caches = [StateCache(1 << 20) for _ in range(workers)]
        self.value, self.map = FakeValue(), FakeMap()
        self.sizes: dict[str, int] = {}
        self.hit = False
        self._batch = self._attempt = 0

    @property
    def header(self) -> StateHeader:
        assert self.value.value is not None
        return StateHeader.from_bytes(self.value.value[2])

    def restart(self) -> None:
        """Replace all workers by new ones."""
        self.caches = [StateCache(1 << 20) for _ in self.caches]

    def batch(self, bundle: Bundle, patch: pytest.MonkeyPatch, worker: int = 0) -> Output:
        """Run a batch and commit it. Calls of the store are counted from zero."""
        output, self.value, self.map = self._run(bundle, patch, worker)
        self._batch += 1
        return output

    def attempt(self, bundle: Bundle, patch: pytest.MonkeyPatch, worker: int = 0) -> None:
        """Run a batch without a commit."""
        self._run(bundle, patch, worker)

    def _run(self, bundle: Bundle, patch: pytest.MonkeyPatch, worker: int) -> tuple[Output, FakeValue, FakeMap]:
        patch.setattr(state_store, "_cache", self.caches[worker])
        value, pages = FakeValue(self.value.value), FakeMap(dict(self.map.values))
        self._attempt += 1
        task = Task(0, self._attempt, self._batch, "run")
        store = BucketStateStore(value, pages.ask, self.stage)  # type: ignore[arg-type]
        stored, self.hit = store.read(0, task)
        with stored.manifest.open(store.pages) if stored.manifest else nullcontext():
            step = self.stage.operator().step(stored.state, bundle)
        self.sizes = store.write(0, task, stored, step.state, {})
        return step.output, value, pages

    def pages(self) -> set[int]:
        """The pages of the state."""
        _, manifest = self.stage.operator().read(self.header.body, _AllPages(self))
        return pages_of(manifest)


class _AllPages:
    """All pages of a bucket, in the header and in the map."""

    def __init__(self, bucket: Bucket) -> None:
        self._pages = {**bucket.map.values, **bucket.header.inline_pages}

    def get(self, page: int) -> bytes:
        return self._pages[page]

    def put(self, page: int, body: bytes) -> None:
        raise AssertionError("nothing is written")

    def drop(self, page: int) -> None:
        raise AssertionError("nothing is written")
