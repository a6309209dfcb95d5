"""Expressions have the values that SQL gives them. On Spark they are held to the same table."""

from __future__ import annotations

from typing import Any

import pytest

import eventide as ev
from tests.streamsql.expressions import EXPRESSIONS, VALUES, query, same


@pytest.mark.parametrize(("expression", "values"), EXPRESSIONS.items(), ids=list(EXPRESSIONS))
def test_an_expression_has_its_value(expression: str, values: list[Any]) -> None:
    actual = ev.sql(query(expression)).local({"numbers": VALUES}).panes.sort("row")["v0"].to_list()
    assert same(actual, values), actual
