"""The jobs of the cookbook: what a page defines, what it runs on Spark, and how much a reader has to write for it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.docs.pages import DOCS, examples

COOKBOOK = DOCS / "cookbook"
_IN_PROCESS = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_ON_SPARK = re.compile(r"^```py\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Job:
    """A job, and at most how many lines and distinct names of the API it takes."""

    page: str
    pipeline: str
    lines: int
    names: int
    rows: dict[str, str] = field(default_factory=dict)  # the DataFrames that it reads on Spark: frames of the page

    @property
    def path(self) -> Path:
        return COOKBOOK / f"{self.page}.md"

    @property
    def on_spark(self) -> str:
        """The code that starts the job on Spark; empty for a test."""
        return "".join(_ON_SPARK.findall(self._text))

    @property
    def code(self) -> str:
        """All that a reader writes for the job, without its imports."""
        first, second, *_ = _IN_PROCESS.findall(self._text)
        text = first + self.on_spark if self.on_spark else second
        return "".join(line for line in text.splitlines(True) if line.strip() and not line.startswith("import "))

    @property
    def _text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def run(self) -> dict[str, Any]:
        """Run the page in this process. Return its names."""
        names: dict[str, Any] = {}
        for _ in examples(self.path, names):
            pass
        return names


JOBS = [
    Job("count-per-minute", "per_minute", 2, 11, {"orders": "bundles"}),
    Job("early-results", "live", 7, 13, {"orders": "rows"}),
    Job("late-corrections", "revenue", 7, 14, {"orders": "bundles"}),
    Job("kafka", "per_minute", 4, 17, {"orders": "bundles"}),
    Job("sessions", "visits", 2, 11, {"views": "bundles"}),
    Job("deduplicate", "distinct_orders", 7, 13, {"orders": "bundles"}),
    Job("interval-join", "paid", 4, 10, {"placed": "left", "settled": "right"}),
    Job("silent-keys", "silent", 3, 12, {"readings": "bundles"}),
    Job("backfill-then-live", "revenue", 7, 11),
    Job("test-a-job", "revenue", 9, 8),
]


def api_names(code: str) -> set[str]:
    """Return the names of functions, methods and options in some code. Those that users choose do not count."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                names.add(node.func.id)
            elif isinstance(node.func, ast.Attribute) and node.func.attr != "agg":
                names.update(option.arg for option in node.keywords if option.arg is not None)
    return names
