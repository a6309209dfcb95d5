"""Many watermarks into one: per key, the least over the inputs that are active.

The same coalescer joins the origins of an edge and the edges of an operator. Inputs are numbers; what is
known of them are columns, so that a hundred thousand origins cost little more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from eventide.errors import watermarks as errors
from eventide.time import MAX, MIN
from eventide.watermarks.intervals import NO_INTS, Bools, Ints
from eventide.watermarks.options import OnReturn
from eventide.watermarks.watermark import Done, Idle, Message, Watermark

OnBack = Literal["error", "clamp"]

ABSENT, ACTIVE, IDLE, DONE = range(4)


class Marks(NamedTuple):
    """Watermarks of one key: ``times[i]`` came on ``inputs[i]``."""

    key: int
    inputs: Ints
    times: Ints


@dataclass(slots=True)
class _Key:
    """What is known of one watermark key."""

    times: Ints
    """The highest watermark of each input."""
    left_out: Bools
    """Inputs that returned behind the output and have not caught up yet."""
    output: int = MIN
    highest: int = MIN
    """The highest watermark of any input, which is flushed when all are idle. MAX is an end, not a height."""


class Coalescer:
    """Per key, the least watermark of the active inputs. Its output never goes back.

    ``on_back`` says what a watermark below an earlier one of its input does: ``error`` stops the job,
    ``clamp`` ignores it. ``on_return`` says what an input does that was idle and returns behind the output:
    ``hold`` makes the output wait for it, ``catch_up`` leaves it out until it has caught up.

    >>> both = Coalescer(2)
    >>> both.step(marks=[Marks(0, np.array([0, 1]), np.array([10, 12]))])
    [Watermark(key=0, time=10)]
    >>> both.step(idle=np.array([0]))
    [Watermark(key=0, time=12)]
    >>> both.step(idle=np.array([1]))
    [Idle()]
    """

    def __init__(
        self,
        inputs: int = 0,
        *,
        on_back: OnBack = "error",
        on_return: OnReturn = "hold",
        name: Callable[[int], str] = "input {}".format,
    ) -> None:
        self._standing: NDArray[np.int8] = np.full(inputs, ACTIVE, np.int8)
        self._keys: dict[int, _Key] = {}
        self._idle_sent = False
        self._done_sent = False
        self._on_back: OnBack = on_back
        self._on_return: OnReturn = on_return
        self._name = name

    def __len__(self) -> int:
        return len(self._standing)

    def step(
        self,
        *,
        events: Ints = NO_INTS,
        marks: Sequence[Marks] = (),
        idle: Ints = NO_INTS,
        done: Ints = NO_INTS,
        held: bool = False,
    ) -> list[Message]:
        """Apply a bundle: events and watermarks, then idleness, then ends; then say what follows from it.

        All watermarks of a bundle are compared with what was known before it, so their order is no matter.
        With ``held`` nothing is said yet.
        """
        self._refuse(events, marks)
        news = [self._news(mark) for mark in marks]
        for mark in news:
            self._raise(mark)
        self._wake(np.concatenate((events, *(mark.inputs for mark in news))) if news else events)
        if len(idle):
            self._standing[idle[self._standing[idle] == ACTIVE]] = IDLE
        if len(done):
            self._standing[done] = DONE
        return [] if held else self._say()

    def raise_to(self, mark: Watermark) -> list[Message]:
        """Raise the output itself, whatever the inputs say; a lower value changes nothing."""
        key = self._key(mark.key)
        if mark.time <= key.output:
            return []
        key.output = mark.time
        return [mark]

    def lower_to(self, mark: Watermark) -> None:
        """Reset a key: its output and the watermarks of its inputs become ``mark.time``, where they are higher.

        The one way in which an output decreases, for an operator who knows that it went too far. Inputs that have
        ended stay as they are.
        """
        key = self._keys.get(mark.key)
        if key is None:
            return
        key.times = np.where(key.times < MAX, np.minimum(key.times, mark.time), key.times)
        key.output, key.highest = min(key.output, mark.time), min(key.highest, mark.time)
        key.left_out &= key.times < key.output

    # Inputs that come and go.

    def grow(self, inputs: int) -> None:
        """Make room for this many inputs; a new one takes part from its first row or watermark on."""
        more = inputs - len(self)
        if more <= 0:
            return
        self._standing = np.append(self._standing, np.full(more, ABSENT, np.int8))
        for key in self._keys.values():
            key.times = np.append(key.times, np.full(more, MIN))
            key.left_out = np.append(key.left_out, np.zeros(more, np.bool_))

    def join(self, source: int) -> None:
        """An input takes part although it has not spoken yet."""
        self._standing[source] = ACTIVE
        self._idle_sent = False

    def leave(self, source: int) -> None:
        """An input takes no part any more, until it speaks again."""
        self._standing[source] = ABSENT

    # What is known.

    def time(self, key: int) -> int:
        """The output of a key."""
        return self._keys[key].output if key in self._keys else MIN

    def times(self, key: int) -> Ints:
        """The highest watermark of each input."""
        return self._keys[key].times if key in self._keys else np.full(len(self), MIN)

    def waited_for(self, key: int) -> Ints:
        """The inputs that a key's minimum is taken over: active, not ended, not left out."""
        known = self._keys.get(key)
        active = self._standing == ACTIVE
        return np.flatnonzero(active if known is None else active & ~known.left_out & (known.times < MAX))

    def standing(self) -> NDArray[np.int8]:
        """Whether each input is ABSENT, ACTIVE, IDLE or DONE."""
        return self._standing

    def all_idle(self) -> bool:
        """Whether nothing is active, and something is idle."""
        return bool(np.any(self._standing == IDLE)) and not np.any(self._standing == ACTIVE)

    def copy(self, *, name: Callable[[int], str] | None = None) -> Coalescer:
        """An independent copy."""
        twin = Coalescer(0, on_back=self._on_back, on_return=self._on_return, name=name or self._name)
        twin._standing = self._standing.copy()
        twin._idle_sent, twin._done_sent = self._idle_sent, self._done_sent
        twin._keys = {
            number: _Key(key.times.copy(), key.left_out.copy(), key.output, key.highest)
            for number, key in self._keys.items()
        }
        return twin

    def snapshot(self) -> dict[str, Any]:
        """All that is known, as plain data."""
        inputs: dict[str, NDArray[Any]] = {"standing": self._standing}
        for number, key in self._keys.items():
            inputs |= {f"time_{number}": key.times, f"left_out_{number}": key.left_out}
        return {
            "inputs": pl.DataFrame(inputs),
            "keys": [[number, key.output, key.highest] for number, key in self._keys.items()],
            "idle_sent": self._idle_sent,
            "done_sent": self._done_sent,
        }

    def restored(self, snapshot: dict[str, Any]) -> Self:
        """Go on where a snapshot was taken."""
        inputs = snapshot["inputs"]
        self._standing = inputs["standing"].to_numpy().copy()
        for number, output, highest in snapshot["keys"]:
            times = inputs[f"time_{number}"].to_numpy().copy()
            left_out = inputs[f"left_out_{number}"].to_numpy().copy()
            self._keys[number] = _Key(times, left_out, output, highest)
        self._idle_sent, self._done_sent = snapshot["idle_sent"], snapshot["done_sent"]
        return self

    def _key(self, number: int) -> _Key:
        if number not in self._keys:
            self._keys[number] = _Key(np.full(len(self), MIN), np.zeros(len(self), np.bool_))
        return self._keys[number]

    def _refuse(self, events: Ints, marks: Sequence[Marks]) -> None:
        for inputs in (events, *(mark.inputs for mark in marks)):
            ended = inputs[self._standing[inputs] == DONE]
            if len(ended):
                raise errors.spoke_after_done(self._name(int(ended[0])))
        if self._on_back == "clamp":
            return
        for mark in marks:
            before = self._key(mark.key).times[mark.inputs]
            if np.any(back := mark.times < before):
                at = int(np.argmax(back))
                source = self._name(int(mark.inputs[at]))
                raise errors.went_back(mark.key, source, int(before[at]), int(mark.times[at]))

    def _news(self, mark: Marks) -> Marks:
        """What was not known yet; what is known already, or goes back, changes nothing and wakes nobody."""
        new = mark.times > self._key(mark.key).times[mark.inputs]
        return Marks(mark.key, mark.inputs[new], mark.times[new])

    def _raise(self, mark: Marks) -> None:
        key = self._key(mark.key)
        np.maximum.at(key.times, mark.inputs, mark.times)
        key.highest = int(np.max(mark.times, where=mark.times < MAX, initial=key.highest))

    def _wake(self, inputs: Ints) -> None:
        standing = self._standing[inputs]
        if np.any(standing != ACTIVE):
            self._idle_sent = False
            returned = inputs[standing == IDLE]
            self._standing[inputs] = ACTIVE
            if self._on_return == "catch_up":
                for key in self._keys.values():
                    key.left_out[returned] = True
        if self._on_return == "catch_up":
            for key in self._keys.values():
                key.left_out &= key.times < key.output

    def _say(self) -> list[Message]:
        active, idle = self._standing == ACTIVE, self._standing == IDLE
        said: list[Message] = []
        for number in sorted(self._keys):
            key = self._keys[number]
            time = self._least(key, active, idle)
            if time > key.output:
                key.output = time
                said.append(Watermark(number, time))
        if np.any(active):
            return said
        if np.any(idle):
            if not self._idle_sent:
                self._idle_sent = True
                said.append(Idle())
        elif np.any(self._standing == DONE) and not self._done_sent:
            self._done_sent = True
            said.append(Done())
        return said

    def _least(self, key: _Key, active: Bools, idle: Bools) -> int:
        # An input at MAX has ended for this key: it is not waited for, and must not end the others.
        going = key.times < MAX
        waited_for = active & going
        if np.any(waited_for):
            # Who is left out holds nothing back, but as long as it is active the inputs are not all idle.
            counted = key.times[waited_for & ~key.left_out]
            return int(counted.min()) if len(counted) else MIN
        if np.any(idle & going):
            return key.highest
        return MAX if np.any(self._standing != ABSENT) else MIN
