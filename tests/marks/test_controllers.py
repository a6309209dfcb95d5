"""Several controllers on one store, which die, sleep and come back at any point, while its clock is set to and fro."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eventide.marks.controller import Controller
from eventide.marks.mark import Mark
from eventide.marks.stores.memory import MemoryStore
from eventide.marks.stores.store import Config, Lease, Part, WriterHandle
from tests.effort import examples

SECOND = 1_000_000
CONFIG = Config(schema=pa.schema({"n": pa.int64()}), mark_every=SECOND, writer_timeout=10**12)
STREAMS = ("clicks", "orders", "visits")


class Died(BaseException):
    """What happens to a process that is killed."""


class Interrupted:
    """A store whose calls can be interrupted: before the next but ``calls`` one something else happens."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.calls = -1
        self.happens: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*args: Any, **options: Any) -> Any:
            self.calls -= 1
            if self.calls == -1:
                self.happens()
            return method(*args, **options)

        return call if callable(method) else method


class Watched(MemoryStore):
    """Remembers the marks of controllers that had been replaced."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__(clock)
        self.newest: dict[str, Lease] = {}
        self.stolen: list[tuple[Lease, Mark]] = []

    def acquire(self, stream: str, controller: str, until: int) -> Lease | None:
        lease = super().acquire(stream, controller, until)
        if lease is not None:
            self.newest[stream] = lease
        return lease

    def put_mark(self, lease: Lease, mark: Mark, **options: Any) -> None:
        super().put_mark(lease, mark, **options)
        if (lease.owner, lease.fence) != (self.newest[lease.stream].owner, self.newest[lease.stream].fence):
            self.stolen.append((lease, mark))


class Controllers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = self.latest = 10**9
        self.store = Watched(lambda: self.clock)
        self.controllers: dict[str, Controller] = {}
        self.born = 0
        self.noted = 0
        self.handles: dict[str, WriterHandle] = {}
        for name in STREAMS:
            self.store.create_stream(name, CONFIG)
            self.handles[name] = self.store.open_writer(name, "till")

    @initialize(count=st.integers(1, 3))
    def begin(self, count: int) -> None:
        for _ in range(count):
            self.come()

    @precondition(lambda self: len(self.controllers) < 4)
    @rule()
    def come(self) -> None:
        self.born += 1
        name = f"c{self.born}"
        self.controllers[name] = Controller(Interrupted(self.store), name)

    @rule()
    def write(self) -> None:
        self.noted += 1
        for name in STREAMS:
            self.store.append(self.handles[name], self.noted, [Part(0, 1, b"")], note=self.noted)

    @precondition(lambda self: self.controllers)
    @rule(data=st.data())
    def step(self, data: Any) -> None:
        self.chosen(data).step()

    @precondition(lambda self: self.controllers)
    @rule(data=st.data(), calls=st.integers(0, 25))
    def die(self, data: Any, calls: int) -> None:
        """In the middle of a round, or after it."""
        controller = self.chosen(data)
        del self.controllers[controller.name]

        def killed() -> None:
            raise Died

        self.interrupted(controller, calls, killed)

    @precondition(lambda self: len(self.controllers) > 1)
    @rule(data=st.data(), calls=st.integers(0, 25), asleep=st.sampled_from([1, 9, 11, 40]))
    def sleep(self, data: Any, calls: int, asleep: int) -> None:
        """In the middle of a round, while the others go on, perhaps for longer than its lease."""
        controller = self.chosen(data)
        others = [other for other in self.controllers.values() if other is not controller]

        def others_go_on() -> None:
            self.advance(asleep)
            self.write()
            for other in others:
                other.step()

        self.interrupted(controller, calls, others_go_on)

    @precondition(lambda self: self.controllers)
    @rule(data=st.data())
    def stop(self, data: Any) -> None:
        controller = self.chosen(data)
        del self.controllers[controller.name]
        controller.stop()
        assert controller.name not in {lease.owner for lease in self.store.leases()}

    @rule(seconds=st.sampled_from([1, 1, 4, 11, -1, -30]))
    def pass_time(self, seconds: int) -> None:
        self.advance(seconds)

    @precondition(lambda self: self.controllers)
    @rule()
    def settle(self) -> None:
        """After a while without trouble each stream has one owner that lives, and time has come to the last note."""
        self.write()
        self.clock = self.latest + 100 * SECOND  # leases that were given then are over, too
        for _ in range(3):
            for controller in self.controllers.values():
                controller.step()
            self.advance(1)
        owners = [(stream, owner.name) for owner in self.controllers.values() for stream in owner.streams]
        assert sorted(stream for stream, _ in owners) == list(STREAMS)
        assert sorted((lease.stream, lease.owner) for lease in self.store.leases()) == sorted(owners)
        assert [mark.lower for mark in self.last_marks()] == [self.noted] * len(STREAMS)

    @invariant()
    def marks_go_on_without_gaps(self) -> None:
        for name in STREAMS:
            marks = self.store.marks(name)
            assert [mark.number for mark in marks] == list(range(1, len(marks) + 1))
            lowers = [mark.lower for mark in marks]
            assert lowers == sorted({*lowers})
            assert [mark.cut[0] for mark in marks] == lowers

    @invariant()
    def who_was_replaced_makes_no_more_marks(self) -> None:
        assert self.store.stolen == []

    def teardown(self) -> None:
        if not self.controllers:
            self.come()
        self.settle()

    def advance(self, seconds: int) -> None:
        self.clock += seconds * SECOND
        self.latest = max(self.latest, self.clock)

    def last_marks(self) -> list[Mark]:
        return [mark for name in STREAMS if (mark := self.store.last_mark(name)) is not None]

    def chosen(self, data: Any) -> Controller:
        return self.controllers[data.draw(st.sampled_from(sorted(self.controllers)))]

    def interrupted(self, controller: Controller, calls: int, happens: Callable[[], None]) -> None:
        store: Any = controller.store
        store.calls, store.happens = calls, happens
        try:
            controller.step()
        except Died:
            pass
        finally:
            store.calls = -1


TestControllers = Controllers.TestCase
TestControllers.settings = settings(max_examples=examples(100), stateful_step_count=50, deadline=None)
