"""A bucket's state without Spark: fakes of its value and its map that say what was asked of them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from eventide.operators.bundle import Bundle, Output
from eventide.spark import keeping
from eventide.spark.keeping import Keeper, Memory
from eventide.spark.stage import Stage
from eventide.spark.tasks import Task
from eventide.state.heads import Head
from tests.state.paged import pages_of


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
    """A map of Spark's state. To remove what is not there is no error there, and one here."""

    values: dict[int, bytes] = field(default_factory=dict)
    calls: list[tuple[str, int]] = field(default_factory=list)
    asked: int = 0

    def ask(self) -> Any:
        self.asked += 1
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
        self.memories = [Memory(1 << 20) for _ in range(workers)]
        self.value, self.map = FakeValue(), FakeMap()
        self.sizes: dict[str, int] = {}
        self.hit = False
        self._batch = self._attempt = 0

    @property
    def head(self) -> Head:
        assert self.value.value is not None
        return Head.from_bytes(self.value.value[2])

    def restart(self) -> None:
        """All workers are new ones."""
        self.memories = [Memory(1 << 20) for _ in self.memories]

    def batch(self, bundle: Bundle, patch: pytest.MonkeyPatch, worker: int = 0) -> Output:
        """A batch that is committed; what it asked of the store is counted from zero."""
        output, self.value, self.map = self._tried(bundle, patch, worker)
        self._batch += 1
        return output

    def attempt(self, bundle: Bundle, patch: pytest.MonkeyPatch, worker: int = 0) -> None:
        """A batch that is done and never committed."""
        self._tried(bundle, patch, worker)

    def _tried(self, bundle: Bundle, patch: pytest.MonkeyPatch, worker: int) -> tuple[Output, FakeValue, FakeMap]:
        patch.setattr(keeping, "_memory", self.memories[worker])
        value, pages = FakeValue(self.value.value), FakeMap(dict(self.map.values))
        self._attempt += 1
        task = Task(0, self._attempt, self._batch, "run")
        keeper = Keeper(value, pages.ask, self.stage)  # type: ignore[arg-type]
        kept, self.hit = keeper.read(0, task)
        with kept.ledger.open(keeper.pages) if kept.ledger else nullcontext():
            step = self.stage.operator().step(kept.state, bundle)
        self.sizes = keeper.write(0, task, kept, step.state, {})
        return step.output, value, pages

    def known(self) -> set[int]:
        """The pages that the state is made of."""
        _, ledger = self.stage.operator().read(self.head.body, _Both(self))
        return pages_of(ledger)


class _Both:
    """All pages of a bucket, wherever they lie."""

    def __init__(self, bucket: Bucket) -> None:
        self._pages = {**bucket.map.values, **bucket.head.pages}

    def get(self, page: int) -> bytes:
        return self._pages[page]

    def put(self, page: int, body: bytes) -> None:
        raise AssertionError("nothing is written")

    def drop(self, page: int) -> None:
        raise AssertionError("nothing is written")
