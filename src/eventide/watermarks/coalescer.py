"""Many watermarks into one: per key, the least watermark of the active inputs.

The same coalescer combines the origins of an input and the inputs of an operator. Inputs are numbers and their state
is kept in columns, so that many origins cost little more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from eventide.errors import DataError
from eventide.kernels.intervals import NO_INTS, Bools, Ints
from eventide.time import MAX, MIN
from eventide.watermarks.errors import went_back
from eventide.watermarks.options import OnReturn
from eventide.watermarks.watermark import Done, Idle, Message, Watermark

OnBack = Literal["error", "clamp"]

ABSENT, ACTIVE, IDLE, DONE = range(4)


class InputWatermarks(NamedTuple):
    """Watermarks of one key: ``times[i]`` arrived on ``inputs[i]``."""

    key: int
    inputs: Ints
    times: Ints


@dataclass(slots=True)
class _Key:
    """The state of one watermark key."""

    times: Ints
    """The highest watermark of each input."""
    catching_up: Bools
    """Inputs that returned behind the output and have not caught up yet."""
    output: int = MIN
    highest: int = MIN
    """The highest watermark of any input, which is flushed when all are idle. MAX marks an end and does not count."""


class Coalescer:
    """Per key, the least watermark of the active inputs. Its output never decreases.

    ``on_back`` is the effect of a watermark below an earlier one of its input: ``error`` stops the job, ``clamp``
    ignores it. ``on_return`` is the effect of an idle input that returns behind the output: ``hold`` makes the output
    wait for it, ``catch_up`` leaves it out until it has caught up.

    >>> both = Coalescer(2)
    >>> both.step(marks=[InputWatermarks(0, np.array([0, 1]), np.array([10, 12]))])
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
        self._status: NDArray[np.int8] = np.full(inputs, ACTIVE, np.int8)
        self._keys: dict[int, _Key] = {}
        self._idle_sent = False
        self._done_sent = False
        self._on_back: OnBack = on_back
        self._on_return: OnReturn = on_return
        self._name = name

    def __len__(self) -> int:
        return len(self._status)

    def step(
        self,
        *,
        events: Ints = NO_INTS,
        marks: Sequence[InputWatermarks] = (),
        idle: Ints = NO_INTS,
        done: Ints = NO_INTS,
        held: bool = False,
    ) -> list[Message]:
        """Apply a bundle: events and watermarks, then idleness, then ends. Return the messages that follow from it.

        All watermarks of a bundle are compared with the state before it, so their order does not matter.
        With ``held`` no message is emitted yet.
        """
        self._check(events, marks)
        advances = [self._advances(mark) for mark in marks]
        for mark in advances:
            self._raise(mark)
        self._wake(np.concatenate((events, *(mark.inputs for mark in advances))) if advances else events)
        if len(idle):
            self._status[idle[self._status[idle] == ACTIVE]] = IDLE
        if len(done):
            self._status[done] = DONE
        return [] if held else self._messages()

    def raise_to(self, mark: Watermark) -> list[Message]:
        """Raise the output itself, independent of the inputs; a lower value changes nothing."""
        key = self._key(mark.key)
        if mark.time <= key.output:
            return []
        key.output = mark.time
        return [mark]

    def lower_to(self, mark: Watermark) -> None:
        """Reset a key: its output and the watermarks of its inputs become ``mark.time``, where they are higher.

        This is the only way in which an output decreases, for an operator who knows that it went too far. Inputs that
        have ended stay as they are.
        """
        key = self._keys.get(mark.key)
        if key is None:
            return
        key.times = np.where(key.times < MAX, np.minimum(key.times, mark.time), key.times)
        key.output, key.highest = min(key.output, mark.time), min(key.highest, mark.time)
        key.catching_up &= key.times < key.output

    def grow(self, inputs: int) -> None:
        """Make room for this many inputs; a new one takes part from its first row or watermark on."""
        missing = inputs - len(self)
        if missing <= 0:
            return
        self._status = np.append(self._status, np.full(missing, ABSENT, np.int8))
        for key in self._keys.values():
            key.times = np.append(key.times, np.full(missing, MIN))
            key.catching_up = np.append(key.catching_up, np.zeros(missing, np.bool_))

    def join(self, source: int) -> None:
        """Include an input before its first row or watermark."""
        self._status[source] = ACTIVE
        self._idle_sent = False

    def leave(self, source: int) -> None:
        """Leave an input out until its next row or watermark."""
        self._status[source] = ABSENT

    def forget(self, sources: Ints) -> None:
        """Drop the state of inputs, so that their numbers can be reused."""
        self._status[sources] = ABSENT
        for key in self._keys.values():
            key.times[sources], key.catching_up[sources] = MIN, False

    def time(self, key: int) -> int:
        """The output of a key."""
        return self._keys[key].output if key in self._keys else MIN

    def times(self, key: int) -> Ints:
        """The highest watermark of each input."""
        return self._keys[key].times if key in self._keys else np.full(len(self), MIN)

    def waited_for(self, key: int) -> Ints:
        """The inputs over which a key's minimum is taken: active, not ended, not catching up."""
        state = self._keys.get(key)
        active = self._status == ACTIVE
        return np.flatnonzero(active if state is None else active & ~state.catching_up & (state.times < MAX))

    def status(self) -> NDArray[np.int8]:
        """Whether each input is ABSENT, ACTIVE, IDLE or DONE."""
        return self._status

    def all_idle(self) -> bool:
        """Whether no input is active and some are idle."""
        return bool(np.any(self._status == IDLE)) and not np.any(self._status == ACTIVE)

    def copy(self, *, name: Callable[[int], str] | None = None) -> Coalescer:
        """An independent copy."""
        twin = Coalescer(0, on_back=self._on_back, on_return=self._on_return, name=name or self._name)
        twin._status = self._status.copy()
        twin._idle_sent, twin._done_sent = self._idle_sent, self._done_sent
        twin._keys = {
            number: _Key(key.times.copy(), key.catching_up.copy(), key.output, key.highest)
            for number, key in self._keys.items()
        }
        return twin

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        inputs: dict[str, NDArray[Any]] = {"status": self._status}
        for number, key in self._keys.items():
            inputs |= {f"time_{number}": key.times, f"catching_up_{number}": key.catching_up}
        return {
            "inputs": pl.DataFrame(inputs),
            "keys": [[number, key.output, key.highest] for number, key in self._keys.items()],
            "idle_sent": self._idle_sent,
            "done_sent": self._done_sent,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from a snapshot."""
        inputs = snapshot["inputs"]
        self._status = inputs["status"].to_numpy().copy()
        for number, output, highest in snapshot["keys"]:
            times = inputs[f"time_{number}"].to_numpy().copy()
            catching_up = inputs[f"catching_up_{number}"].to_numpy().copy()
            self._keys[number] = _Key(times, catching_up, output, highest)
        self._idle_sent, self._done_sent = snapshot["idle_sent"], snapshot["done_sent"]

    def _key(self, number: int) -> _Key:
        if number not in self._keys:
            self._keys[number] = _Key(np.full(len(self), MIN), np.zeros(len(self), np.bool_))
        return self._keys[number]

    def _check(self, events: Ints, marks: Sequence[InputWatermarks]) -> None:
        for inputs in (events, *(mark.inputs for mark in marks)):
            ended = inputs[self._status[inputs] == DONE]
            if len(ended):
                raise DataError(
                    f"Rows or watermarks arrived on {self._name(int(ended[0]))} after it was done, and the watermark "
                    "no longer waits for it. Report an input as idle, not as done, if it can continue."
                )
        if self._on_back == "clamp":
            return
        for mark in marks:
            before = self._key(mark.key).times[mark.inputs]
            if np.any(back := mark.times < before):
                first = int(np.argmax(back))
                source = self._name(int(mark.inputs[first]))
                raise went_back(mark.key, source, int(before[first]), int(mark.times[first]))

    def _advances(self, mark: InputWatermarks) -> InputWatermarks:
        """The watermarks that advance their input. Others change nothing and wake no input."""
        new = mark.times > self._key(mark.key).times[mark.inputs]
        return InputWatermarks(mark.key, mark.inputs[new], mark.times[new])

    def _raise(self, mark: InputWatermarks) -> None:
        key = self._key(mark.key)
        np.maximum.at(key.times, mark.inputs, mark.times)
        key.highest = int(np.max(mark.times, where=mark.times < MAX, initial=key.highest))

    def _wake(self, inputs: Ints) -> None:
        status = self._status[inputs]
        if np.any(status != ACTIVE):
            self._idle_sent = False
            returned = inputs[status == IDLE]
            self._status[inputs] = ACTIVE
            if self._on_return == "catch_up":
                for key in self._keys.values():
                    key.catching_up[returned] = True
        if self._on_return == "catch_up":
            for key in self._keys.values():
                key.catching_up &= key.times < key.output

    def _messages(self) -> list[Message]:
        active, idle = self._status == ACTIVE, self._status == IDLE
        messages: list[Message] = []
        for number in sorted(self._keys):
            key = self._keys[number]
            time = self._least(key, active, idle)
            if time > key.output:
                key.output = time
                messages.append(Watermark(number, time))
        if np.any(active):
            return messages
        if np.any(idle):
            if not self._idle_sent:
                self._idle_sent = True
                messages.append(Idle())
        elif np.any(self._status == DONE) and not self._done_sent:
            self._done_sent = True
            messages.append(Done())
        return messages

    def _least(self, key: _Key, active: Bools, idle: Bools) -> int:
        # An input at MAX has ended for this key: it is not waited for, and must not end the others.
        open_ = key.times < MAX
        waited_for = active & open_
        if np.any(waited_for):
            # An input that catches up holds nothing back, but while it is active the inputs are not all idle.
            counted = key.times[waited_for & ~key.catching_up]
            return int(counted.min()) if len(counted) else MIN
        if np.any(idle & open_):
            return key.highest
        return MAX if np.any(self._status != ABSENT) else MIN
