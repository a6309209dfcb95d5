"""Warnings of a query are remarks of the command that runs it."""

from __future__ import annotations

import io
import warnings

from rich.console import Console

import eventide as ev
from eventide.cli.query_runner import _warnings_on


def test_a_warning_is_printed_without_the_code_that_raised_it() -> None:
    text = io.StringIO()
    with _warnings_on(Console(file=text, width=80)):
        for _ in range(2):
            warnings.warn("6 of 10 rows [all of them] are late", ev.LateRowsWarning, stacklevel=1)
    assert text.getvalue() == "Warning: 6 of 10 rows [all of them] are late\n" * 2
