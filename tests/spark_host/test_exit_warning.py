"""A script that ends while its query is running says so; a shell does not."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from types import SimpleNamespace
from eventide.spark.query import Query

{before}
query = Query(SimpleNamespace(isActive={active}, name={name!r}), None, [], lambda: None)
"""


def run(active: str = "True", name: str | None = "revenue", before: str = "") -> str:
    code = SCRIPT.format(active=active, name=name, before=before)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr


def test_a_script_that_ends_while_a_query_runs_is_warned() -> None:
    printed = run()
    assert "the program ended while the query 'revenue' was running" in printed and "wait=True" in printed


def test_a_query_without_a_name_is_a_query() -> None:
    assert "while a query was running" in run(name=None)


def test_a_query_that_has_ended_is_no_reason() -> None:
    assert run(active="False") == ""


def test_a_shell_is_not_warned() -> None:
    assert run(before="sys.ps1 = '>>> '") == ""
