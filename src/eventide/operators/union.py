"""Several streams as one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import polars as pl

from eventide.errors import watermarks as errors
from eventide.operators.protocol import Delivery, Forward
from eventide.watermarks.options import OnReturn
from eventide.watermarks.watermark import check_key


@dataclass(frozen=True, slots=True)
class Union:
    """The rows of all inputs. A watermark key goes on as far as all inputs that are active carry it.

    ``inputs`` maps the name of an input to the watermark keys that it carries.
    """

    inputs: Mapping[str, frozenset[int]]

    def warnings(self) -> tuple[str, ...]:
        """What the plan should tell its author.

        >>> print(*union(orders=[0, 1], returns=[0]).warnings())
        union: watermark key 1 comes only from 'orders'. It is not forwarded while 'returns' is active. Give inputs
        the same watermark_key if their times mean the same, and watermark them apart before the union if not.
        """
        every: set[int] = set().union(*self.inputs.values())
        return tuple(
            _lonely(key, carrying, lacking)
            for key in sorted(every)
            if (lacking := [name for name, keys in self.inputs.items() if key not in keys])
            and (carrying := [name for name, keys in self.inputs.items() if key in keys])
        )

    def rows(self, bundles: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
        """The rows of all bundles, input by input.

        >>> a, b = pl.DataFrame({"n": [1]}), pl.DataFrame({"n": [2]})
        >>> union(a=[0], b=[0]).rows({"b": b, "a": a})["n"].to_list()
        [1, 2]
        """
        frames = {name: bundles[name] for name in self.inputs if name in bundles}
        self.check({name: frame.schema for name, frame in frames.items()})
        first, *others = frames.values()
        return pl.concat([first, *(frame.select(first.columns) for frame in others)])

    def check(self, schemas: Mapping[str, Mapping[str, pl.DataType]]) -> None:
        """Refuse inputs whose columns differ; their order may."""
        (_, first), *others = schemas.items()
        for name, schema in others:
            for column in dict.fromkeys((*first, *schema)):
                found, expected = schema.get(column), first.get(column)
                if found != expected:
                    raise errors.unequal_inputs(name, column, found or "nothing", expected or "nothing")

    def delivery(self, *, on_return: OnReturn = "hold") -> Delivery:
        """Where the inputs' watermarks go; edge numbers follow the order of ``inputs``.

        >>> union(a=[0], b=[0]).delivery().time(0) == -2**63
        True
        """
        names = [f"union input {name!r}" for name in self.inputs]
        return Delivery(Forward(), inputs=[1] * len(names), on_return=on_return, names=names)


def union(inputs: Mapping[str, Collection[int]] | None = None, /, **named: Collection[int]) -> Union:
    """A union of named inputs, each with the watermark keys that it carries.

    >>> union(orders=[0], returns=[0]).warnings()
    ()
    """
    every = {name: frozenset(keys) for name, keys in {**(inputs or {}), **named}.items()}
    if len(every) < 2:
        raise errors.too_few_inputs(len(every))
    for keys in every.values():
        for key in keys:
            check_key(key)
    return Union(every)


def _lonely(key: int, carrying: list[str], lacking: list[str]) -> str:
    return (
        f"union: watermark key {key} comes only from {_listed(carrying)}. It is not forwarded while "
        f"{_listed(lacking)} {'is' if len(lacking) == 1 else 'are'} active. Give inputs the same watermark_key "
        "if their times mean the same, and watermark them apart before the union if not."
    )


def _listed(names: list[str]) -> str:
    return " and ".join(map(repr, names))
