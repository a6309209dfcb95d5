"""How watermarks reach an operator, and how they leave it.

An edge is an input of an operator; behind it there are one or more upstream inputs. An operator learns of each
edge's watermark at once, which joins need, and of the watermark over all edges, which most others need.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Any, Protocol, Self

from eventide.watermarks.coalescer import Coalescer, OnBack
from eventide.watermarks.options import OnReturn
from eventide.watermarks.watermark import Done, Idle, Message, Watermark


class Operator(Protocol):
    """What takes watermarks. Each method returns the watermarks to send on, none or more.

    An operator that delays rows delays its watermarks by as much, so that a row that was not late on its way
    in is not late on its way out. That an input is idle or done is not its concern: ``Delivery`` passes it on.
    """

    def on_edge_watermark(self, edge: int, watermark: Watermark) -> Sequence[Watermark]:
        """An edge has come this far; other edges may be behind."""

    def on_watermark(self, watermark: Watermark) -> Sequence[Watermark]:
        """All edges have come this far."""


class Forward:
    """The default: what all edges have reached is sent on, unchanged.

    >>> Forward().on_watermark(Watermark(0, 10))
    (Watermark(key=0, time=10),)
    """

    def on_edge_watermark(self, edge: int, watermark: Watermark) -> Sequence[Watermark]:
        """Nothing: what one edge has reached is not for everybody."""
        return ()

    def on_watermark(self, watermark: Watermark) -> Sequence[Watermark]:
        """Send it on."""
        return (watermark,)


class Delivery:
    """Watermarks from many inputs to one operator: first over the inputs of an edge, then over the edges.

    ``inputs[e]`` is the number of upstream inputs of edge ``e``. Each method returns what the operator's own
    output carries in consequence. Per edge, the operator hears of a watermark before it hears of what
    follows from it over all edges.

    >>> join = Delivery(Forward(), inputs=[1, 1])
    >>> join.watermark(0, 0, Watermark(0, 10)), join.watermark(1, 0, Watermark(0, 12))
    ([], [Watermark(key=0, time=10)])
    >>> join.done(0, 0), join.idle(1, 0)
    ([Watermark(key=0, time=12)], [Idle()])
    """

    def __init__(
        self,
        operator: Operator,
        *,
        inputs: Sequence[int],
        on_back: OnBack = "error",
        on_return: OnReturn = "hold",
        names: Sequence[str] | None = None,
    ) -> None:
        self.operator = operator
        self._names = names or [f"edge {edge}" for edge in range(len(inputs))]
        self._edges = [
            Coalescer(count, on_back=on_back, on_return=on_return, name=partial(_input_of, name))
            for name, count in zip(self._names, inputs, strict=True)
        ]
        self._all = Coalescer(len(inputs), on_return=on_return, name=self._names.__getitem__)

    def event(self, edge: int, source: int = 0) -> list[Message]:
        """A row came: its input and its edge are active, for all keys."""
        return self._deliver(edge, self._edges[edge].event(source), awake=True)

    def watermark(self, edge: int, source: int, watermark: Watermark) -> list[Message]:
        """A watermark came on an input of an edge."""
        before = self._edges[edge].times(watermark.key)[source]
        said = self._edges[edge].watermark(source, watermark)
        # A repeated watermark wakes nobody, one that is news wakes the edge even if it must wait for its minimum.
        return self._deliver(edge, said, awake=watermark.time > before)

    def idle(self, edge: int, source: int = 0) -> list[Message]:
        """An input of an edge is silent."""
        return self._deliver(edge, self._edges[edge].idle(source))

    def done(self, edge: int, source: int = 0) -> list[Message]:
        """An input of an edge has ended."""
        return self._deliver(edge, self._edges[edge].done(source))

    def time(self, key: int, edge: int | None = None) -> int:
        """How far a key has come: over all edges, or on one."""
        return (self._all if edge is None else self._edges[edge]).time(key)

    def copy(self) -> Delivery:
        """An independent copy that delivers to the same operator."""
        twin = copy(self)
        twin._edges = [edge.copy() for edge in self._edges]
        twin._all = self._all.copy()
        return twin

    def snapshot(self) -> dict[str, Any]:
        """All that is known of the inputs, as plain data."""
        return {"edges": [edge.snapshot() for edge in self._edges], "all": self._all.snapshot()}

    def restored(self, snapshot: dict[str, Any]) -> Self:
        """Go on where a snapshot was taken."""
        for edge, known in zip(self._edges, snapshot["edges"], strict=True):
            edge.restored(known)
        self._all.restored(snapshot["all"])
        return self

    def _deliver(self, edge: int, said: Sequence[Message], *, awake: bool = False) -> list[Message]:
        output: list[Message] = []
        if awake:
            output += self._forward(self._all.event(edge))
        for message in said:
            match message:
                case Watermark():
                    output += self.operator.on_edge_watermark(edge, message)
                    output += self._forward(self._all.watermark(edge, message))
                case Idle():
                    output += self._forward(self._all.idle(edge))
                case Done():
                    output += self._forward(self._all.done(edge))
        return output

    def _forward(self, said: Sequence[Message]) -> list[Message]:
        output: list[Message] = []
        for message in said:
            output += self.operator.on_watermark(message) if isinstance(message, Watermark) else [message]
        return output


def _input_of(edge: str, source: int) -> str:
    return f"input {source} of {edge}"
