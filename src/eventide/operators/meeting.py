"""Which rows meet: those of one side that have just come, and those of the other that a table holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from eventide.errors import joins as errors
from eventide.operators import columns as c
from eventide.operators.messages import MET, NUMBERS, Messages
from eventide.plan.join_plan import JoinPlan
from eventide.state.panes import HASH, PaneTable, Positions
from eventide.time import MAX

_PLACE = "__place"


@dataclass
class Meetings:
    """The pairs of a bundle."""

    pairs: list[pl.DataFrame] = field(default_factory=list)

    def numbers(self, edge: int) -> pl.Series:
        """The rows of a side that have met one."""
        return pl.concat([pairs[NUMBERS[edge]] for pairs in self.pairs] or [pl.Series(dtype=pl.Int64)]).unique()


class Matcher:
    """Finds pairs by key and slice, then compares what is exact."""

    def __init__(self, plan: JoinPlan, sides: tuple[Messages, Messages]) -> None:
        self._sides = sides
        self._where = plan.where
        self._most = plan.max_matches

    def meet(
        self, edge: int, messages: pl.DataFrame, tables: Sequence[PaneTable], meetings: Meetings
    ) -> list[dict[int, Positions]]:
        """Add the pairs of new messages with those of tables. Gives the places of those that had met none before."""
        if not messages.height or not any(table.height for table in tables):
            return [{} for _ in tables]
        questions = self._sides[edge].questions(messages)
        return [self._answers(edge, messages, questions, table, meetings) for table in tables]

    def _answers(
        self, edge: int, messages: pl.DataFrame, questions: pl.DataFrame, table: PaneTable, meetings: Meetings
    ) -> dict[int, Positions]:
        slices, rows = questions[c.SLICE].to_numpy(), questions[c.ROW].to_numpy()
        times = messages[c.TIME].to_numpy()
        first_met: dict[int, list[Positions]] = {}
        for found in table.probe(questions[HASH].to_numpy()):
            panes = table.runs[found.run].panes
            mine, theirs = rows[found.asked], found.rows
            near = self._near(edge, times[mine], panes[c.TIME].to_numpy()[theirs])
            near &= panes[c.SLICE].to_numpy()[theirs] == slices[found.asked]  # else another question finds it
            pairs = self._beside(edge, messages, mine[near], panes, theirs[near])
            meetings.pairs.append(pairs.drop(_PLACE))
            if sum(known.height for known in meetings.pairs) > self._most:
                raise self._too_many(meetings)
            if self._sides[1 - edge].pads:
                places = pairs[_PLACE].unique()
                alone = places.filter(~panes[MET].gather(places))
                first_met.setdefault(found.run, []).append(alone.to_numpy())
        return {run: np.concatenate(places) for run, places in first_met.items()}

    def _near(self, edge: int, mine: Positions, theirs: Positions) -> npt.NDArray[np.bool_]:
        lo, hi = self._sides[edge].reach
        near = np.ones(len(mine), np.bool_)
        near = near if lo is None else near & (theirs >= mine + lo)
        return near if hi is None else near & (theirs <= mine + hi)

    def _beside(
        self, edge: int, messages: pl.DataFrame, mine: Positions, panes: pl.DataFrame, theirs: Positions
    ) -> pl.DataFrame:
        """The pairs whose keys are equal, and of which the user's condition holds."""
        us, them = self._sides[edge], self._sides[1 - edge]
        ours = messages.select(*us.key, *us.values, pl.col(c.ROW).alias(NUMBERS[edge]))[mine]
        equal = pl.Series(np.ones(len(mine), np.bool_))
        for name in us.key:
            equal &= ours[name] == panes[name].gather(theirs)
        other = panes.select(*them.values, pl.col(c.ROW).alias(NUMBERS[1 - edge]))[theirs]
        pairs = ours.hstack(other).with_columns(pl.Series(_PLACE, theirs))
        pairs = pairs if equal.all() else pairs.filter(equal)
        return pairs if self._where is None else pairs.filter(self._where)

    def _too_many(self, meetings: Meetings) -> Exception:
        keys = pl.concat([pairs.select(self._sides[0].key) for pairs in meetings.pairs])
        *values, many = keys.group_by(pl.all()).len("__many").sort("__many").row(-1)
        return errors.too_many_matches(self._most, values[0] if len(values) == 1 else tuple(values), many)


def in_order(pairs: pl.DataFrame) -> pl.DataFrame:
    """Pairs by the number of their left row, then of the right; one that is alone stands behind the others."""
    (left, many), (right, width) = (_from_zero(pairs[name]) for name in NUMBERS)
    if many * width > MAX:
        return pairs.sort(NUMBERS, nulls_last=True)
    return pairs[(left * width + right).arg_sort()]  # much faster than by two columns


def _from_zero(numbers: pl.Series) -> tuple[pl.Series, int]:
    """Numbers from 0 on, nulls above all others, and how many there may be."""
    low, high = numbers.min(), numbers.max()
    if not isinstance(low, int) or not isinstance(high, int):
        return pl.zeros(len(numbers), pl.Int64, eager=True), 1
    return (numbers - low).fill_null(high - low + 1), high - low + 2
