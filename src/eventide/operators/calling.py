"""Calls for each row before an operator: what they add to the rows, and the rows whose calls failed.

A bundle is complete when all of its calls are answered, so its watermark goes on behind their results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from eventide.errors import processing as errors
from eventide.operators.async_map import Answer, AsyncOptions, Failure, call_rows
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
        answers = call_rows(one.fn, rows.to_dicts(), one.options)
        if one.options.ordered:
            answers.sort(key=lambda answer: answer[0])
        done = with_answers(one, rows, answers)
        rows = done.rows
        failed.append(done.failed)
        why += done.why
    return Called(rows, pl.concat([pl.DataFrame(schema=schema), *failed], how="diagonal"), why)


def schema_after(calls: Sequence[AsyncMap], schema: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
    """The columns of rows behind calls."""
    for one in calls:
        schema = one.after(schema)
    return dict(schema)


def with_answers(call: AsyncMap, rows: pl.DataFrame, given: Sequence[tuple[int, Answer]]) -> Called:
    """The rows that answers make, in their order. Each answer has the place of its row."""
    answers, failures = _read(call, given)
    places = [place for place, _ in answers]

    def misfit(number: int, cause: Exception) -> None:
        failures[places[number]] = errors.answer_unfit(call.name, cause)

    columns, good = fitting_rows([answer for _, answer in answers], call.output, misfit)
    # A row of whose several answers one does not fit has failed as a whole.
    kept = [number for number in range(len(good)) if places[good[number]] not in failures]
    columns, places = _at(columns, kept), [places[good[number]] for number in kept]
    before = _at(rows, places)
    named = [pl.Series(name, [name in answers[good[number]][1] for number in kept], pl.Boolean) for name in call.output]
    merged = [
        column if column.name not in rows.columns else column.zip_with(is_given, before[column.name])
        for column, is_given in zip(columns.get_columns(), named, strict=True)
    ]
    lost = sorted(failures)
    return Called(before.with_columns(merged), _at(rows, lost), [failures[place] for place in lost])


def _read(
    call: AsyncMap, given: Sequence[tuple[int, Answer]]
) -> tuple[list[tuple[int, Mapping[str, Any]]], dict[int, str]]:
    """The rows that calls have returned, each with the place of its row, and why other calls failed."""
    answers: list[tuple[int, Mapping[str, Any]]] = []
    failures: dict[int, str] = {}
    for place, answer in given:
        if isinstance(answer, Failure):
            failures[place] = errors.call_failed(call.name, answer.attempts, answer.error, _timeout(call.options))
            continue
        try:
            answers += [(place, row) for row in _listed(answer.value)]
        except Exception as cause:
            failures[place] = errors.answer_unfit(call.name, cause)
    return answers, failures


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
