"""Types commands as a user does, in this process."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from eventide.cli.app import app


def typed(*words: str, answer: str | None = None) -> Result:
    """A command, and what came of it."""
    return CliRunner().invoke(app, list(words), input=answer, env={"COLUMNS": "200", "NO_COLOR": "1"})


def lines(result: Result) -> list[dict[str, Any]]:
    """The output of a command for machines."""
    return [json.loads(line) for line in result.stdout.splitlines()]
