"""The form of a transcript file, checked against the schema that is shipped beside this module."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from eventide.errors import testing as errors
from eventide.errors.kinds import did_you_mean
from eventide.testing.transcripts.document import Document

try:
    import jsonschema
except ImportError:  # pragma: no cover - the extra is installed wherever tests run
    raise errors.missing_package("Transcripts", "jsonschema", "testing") from None


@cache
def schema() -> dict[str, Any]:
    """The JSON schema of transcript files; point an editor to it for completion."""
    text = files("eventide.testing.transcripts").joinpath("schema.json").read_text(encoding="utf-8")
    read: dict[str, Any] = json.loads(text)
    return read


def check(document: Document) -> None:
    """Refuse a file whose form is wrong, with the place, the problem and how to mend it."""
    validator = jsonschema.Draft202012Validator(schema())
    problem = jsonschema.exceptions.best_match(validator.iter_errors(document.content))
    if problem is None:
        return
    path = tuple(problem.absolute_path)
    what, mend = _said(problem)
    where = f"at {'.'.join(map(str, path))}: " if path else ""
    raise errors.bad_transcript(document.place(path), f"{where}{what}", mend)


def _said(problem: Any) -> tuple[str, str]:
    if problem.validator == "additionalProperties" and isinstance(problem.instance, dict):
        known = list(problem.schema.get("properties", ()))
        name = next(name for name in problem.instance if name not in known)
        return f"there is no {name!r} here.", did_you_mean(name, known)
    if problem.validator == "required":
        return f"{problem.message}.", _mend(problem)
    if problem.validator == "enum":
        known = [value for value in problem.validator_value if isinstance(value, str)]
        return f"{problem.instance!r} is not known.", did_you_mean(str(problem.instance), known)
    return f"{_short(problem.instance)} does not fit.", _mend(problem)


def _mend(problem: Any) -> str:
    """The nearest advice on the way up from the problem."""
    while problem is not None:
        if isinstance(problem.schema, dict) and "mend" in problem.schema:
            return str(problem.schema["mend"])
        problem = problem.parent
    return str(schema()["mend"])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
