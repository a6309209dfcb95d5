"""What a test expects, and how it is paired with what came."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

E = TypeVar("E")
A = TypeVar("A")


@dataclass(frozen=True)
class ExpectedPane:
    """A pane that must come. Only the fields that are named are compared."""

    fields: Mapping[str, Any]
    diff: int = 1


def pane(**fields: Any) -> ExpectedPane:
    """A pane that must come: key columns, results, ``window=(start, end)``, and the fields of ``pane``.

    Those are ``timing``, ``index``, ``nonspeculative_index``, ``is_first``, ``is_last``, ``at`` and ``time``. What is
    not named is not compared.

    >>> pane(user="a", window=("12:00", "12:02"), total=5, timing="ON_TIME").diff
    1
    """
    return ExpectedPane(fields)


def retraction(**fields: Any) -> ExpectedPane:
    """A retraction that must come: what it takes back, in the words of ``pane``.

    >>> retraction(user="a", total=3).diff
    -1
    """
    return ExpectedPane(fields, diff=-1)


@dataclass(frozen=True)
class Pairing(Generic[E, A]):
    """Which expectation was met by what; what is missing; what nobody expected."""

    matched: Sequence[tuple[E, A]]
    missing: Sequence[E]
    unexpected: Sequence[A]

    @property
    def complete(self) -> bool:
        """Whether everything came, and nothing else."""
        return not self.missing and not self.unexpected


def pair(expected: Sequence[E], actual: Sequence[A], fits: Callable[[E, A], bool]) -> Pairing[E, A]:
    """Pair as many as possible, one to one, in any order.

    An expectation that fits several must not take what another one needs, so this is a matching in a
    bipartite graph (by augmenting paths), not a first fit.

    >>> pair(["any", "a"], ["a", "b"], lambda e, a: e in ("any", a)).complete
    True
    """
    choices = [[a for a, came in enumerate(actual) if fits(wanted, came)] for wanted in expected]
    taken: dict[int, int] = {}

    def place(e: int, tried: set[int]) -> bool:
        for a in choices[e]:
            if a in tried:
                continue
            tried.add(a)
            if a not in taken or place(taken[a], tried):
                taken[a] = e
                return True
        return False

    missing = [expected[e] for e in range(len(expected)) if not place(e, set())]
    matched = [(expected[e], actual[a]) for a, e in sorted(taken.items())]
    return Pairing(matched, missing, [came for a, came in enumerate(actual) if a not in taken])
