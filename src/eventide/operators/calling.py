"""Calls for each row before an operator: what they add to the rows, and the rows whose calls failed.

A bundle is complete when all of its calls are answered, so its watermark goes on behind their results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from eventide.errors import processing as errors
from eventide.operators.async_map import AsyncOptions, DeadLetter, Result, call_with
from eventide.plan.calls import AsyncMap
from eventide.processors.fitting import fitting_rows
from eventide.time import format_duration


@dataclass(frozen=True)
class Called:
    """The rows behind the calls, those whose calls failed, and why each of them did."""

    rows: pl.DataFrame
    failed: pl.DataFrame
    why: Sequence[str] = ()


def call(calls: Sequence[AsyncMap], rows: pl.DataFrame) -> Called:
    """One call after the other; what failed in one is not given to the next."""
    schema = schema_after(calls, rows.schema)
    if rows.is_empty():
        return Called(pl.DataFrame(schema=schema), pl.DataFrame(schema=schema))
    failed: list[pl.DataFrame] = []
    why: list[str] = []
    for one in calls:
        done = _called(one, rows)
        rows = done.rows
        failed.append(done.failed)
        why += done.why
    return Called(rows, pl.concat([pl.DataFrame(schema=schema), *failed], how="diagonal"), why)


def schema_after(calls: Sequence[AsyncMap], schema: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
    """The columns of rows behind calls."""
    for one in calls:
        schema = one.after(schema)
    return dict(schema)


def _called(one: AsyncMap, rows: pl.DataFrame) -> Called:
    answers, failures = _answers(one, rows)
    places = [place for place, _ in answers]

    def misfit(number: int, cause: Exception) -> None:
        failures[places[number]] = errors.answer_unfit(one.name, cause)

    given, good = fitting_rows([answer for _, answer in answers], one.output, misfit)
    # A row of whose several answers one does not fit has failed as a whole.
    kept = [number for number in range(len(good)) if places[good[number]] not in failures]
    given, places = _at(given, kept), [places[good[number]] for number in kept]
    before = _at(rows, places)
    said = [pl.Series(name, [name in answers[good[number]][1] for number in kept], pl.Boolean) for name in one.output]
    columns = [
        column if column.name not in rows.columns else column.zip_with(told, before[column.name])
        for column, told in zip(given.get_columns(), said, strict=True)
    ]
    lost = sorted(failures)
    return Called(before.with_columns(columns), _at(rows, lost), [failures[place] for place in lost])


def _answers(one: AsyncMap, rows: pl.DataFrame) -> tuple[list[tuple[int, Mapping[str, Any]]], dict[int, str]]:
    """The answers, each with the place of its row, and why others failed."""

    async def asked(item: tuple[int, dict[str, Any]]) -> Any:
        return await one.fn(item[1])

    options = replace(one.options, ordered=False)  # no answer waits for another; what is ordered is put in order below
    outputs = call_with(asked, enumerate(rows.to_dicts()), options)
    answers: list[tuple[int, Mapping[str, Any]]] = []
    failures: dict[int, str] = {}
    for output in outputs:
        place = output.item[0]  # type: ignore[union-attr]
        if isinstance(output, DeadLetter):
            failures[place] = errors.call_failed(one.name, output.attempts, output.error, _timeout(one.options))
        elif isinstance(output, Result):
            try:
                answers += [(place, answer) for answer in _listed(output.value)]
            except Exception as cause:
                failures[place] = errors.answer_unfit(one.name, cause)
    return (sorted(answers, key=lambda found: found[0]) if one.options.ordered else answers), failures


def _listed(value: Any) -> list[Mapping[str, Any]]:
    if value is None:
        return []
    answers = value if isinstance(value, list) else [value]
    for answer in answers:
        if not isinstance(answer, Mapping):
            raise errors.bad_answer(answer)
    return answers


def _at(rows: pl.DataFrame, places: Sequence[int]) -> pl.DataFrame:
    return rows[np.array(places, np.int64)]


def _timeout(options: AsyncOptions) -> str | None:
    return None if options.timeout is None else format_duration(options.timeout)
