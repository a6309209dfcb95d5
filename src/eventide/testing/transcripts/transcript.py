"""A transcript as data, read from a file that is validated against ``schema.json``. Any host can run it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from eventide.errors import EventideError, did_you_mean
from eventide.panes import INPUT, REASON
from eventide.plan.join_plan import JoinPlan
from eventide.plan.pipeline import Pipeline
from eventide.testing.errors import bad_transcript, missing_package
from eventide.testing.expectations import ExpectedPane
from eventide.testing.transcripts import text_format as documents
from eventide.testing.transcripts.text_format import Document, build, read_joined, read_pane, read_row, words

try:
    import jsonschema
except ImportError:  # pragma: no cover - the extra is installed wherever tests run
    raise missing_package("Transcripts", "jsonschema", "testing") from None


@cache
def schema() -> dict[str, Any]:
    """Return the JSON schema of transcript files. Editors can use it for completion."""
    text = files("eventide.testing.transcripts").joinpath("schema.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def check(document: Document) -> None:
    """Reject an invalid file with the place, the problem and a fix."""
    validator = jsonschema.Draft202012Validator(schema())
    problem = jsonschema.exceptions.best_match(validator.iter_errors(document.content))
    if problem is None:
        return
    path = tuple(problem.absolute_path)
    what, fix = _explain(problem)
    where = f"at {'.'.join(map(str, path))}: " if path else ""
    raise bad_transcript(document.place(path), f"{where}{what}", fix)


def _explain(problem: Any) -> tuple[str, str]:
    if problem.validator == "additionalProperties" and isinstance(problem.instance, dict):
        known = list(problem.schema.get("properties", ()))
        name = next(name for name in problem.instance if name not in known)
        return f"there is no {name!r} here.", did_you_mean(name, known)
    if problem.validator == "required":
        return f"{problem.message}.", _fix(problem)
    if problem.validator == "enum":
        known = [value for value in problem.validator_value if isinstance(value, str)]
        return f"{problem.instance!r} is not known.", did_you_mean(str(problem.instance), known)
    return f"{_short(problem.instance)} does not fit.", _fix(problem)


def _fix(problem: Any) -> str:
    """Return the fix of the innermost schema around the problem that has one."""
    while problem is not None:
        if isinstance(problem.schema, dict) and "fix" in problem.schema:
            return str(problem.schema["fix"])
        problem = problem.parent
    return str(schema()["fix"])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


T = TypeVar("T")
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class TranscriptStep:
    """A bundle, and the output that it must have."""

    place: str
    add: Rows | Mapping[str, Rows] | None = None  # of several inputs: the rows of each
    at: str | int | None = None
    watermark: str | int | None = None
    key: str | int | None = None
    wait: str | None = None
    idle: str | None = None
    expect: Sequence[ExpectedPane] = ()
    late: Rows = ()
    dead: Rows = ()
    reaches: str | int | None = None
    counts: Mapping[str, int] | None = None
    fails: str | None = None

    @property
    def acts(self) -> bool:
        """Whether the step has input or advances time, in addition to expectations."""
        return any(action is not None for action in (self.add, self.watermark, self.wait, self.idle))


@dataclass(frozen=True)
class Transcript:
    """Steps of a pipeline with their expected output. ``rejection`` is the message of a rejected pipeline."""

    name: str
    place: str
    pipeline: Pipeline | None  # None: it is rejected
    steps: Sequence[TranscriptStep]
    day: str = "1970-01-01"
    clock: str | int | None = None
    about: str = ""
    rejected: str | None = None
    rejection: str | None = None


def load(path: str | Path) -> list[Transcript]:
    """Return the transcripts of a file."""
    path = Path(path)
    return loads(path.read_text(encoding="utf-8"), name=str(path))


def loads(text: str, *, name: str = "<text>") -> list[Transcript]:
    """Return the transcripts of a text. ``name`` is the file name in messages.

    >>> story, = loads('''
    ... name: a window is complete when the watermark reaches its end
    ... pipeline: {window: tumbling 2 minutes, agg: {total: sum score}}
    ... columns: ts score
    ... steps:
    ...   - add: |
    ...       12:00:30  5
    ...       12:01:59  2
    ...   - watermark: 12:02
    ...     expect: + [12:00, 12:02) total=7 ON_TIME#0 last
    ... ''')
    >>> len(story.steps), story.steps[1].expect[0].fields["total"]
    (2, 7)
    """
    document = documents.read_document(text, name)
    check(document)
    content = document.content
    if "transcripts" not in content:
        return [_transcript(document, (), content, content)]
    return [
        _transcript(document, ("transcripts", i), content | entry, entry)
        for i, entry in enumerate(content["transcripts"])
    ]


def _transcript(
    document: Document, path: documents.Path, settings: Mapping[str, Any], entry: Mapping[str, Any]
) -> Transcript:
    """``entry`` is the transcript itself; ``settings`` also has the defaults of the file."""
    place = document.place(path)
    descriptions = _merged(document.content.get("pipeline", {}), entry.get("pipeline", {}))
    pipeline: Pipeline | None = None
    rejection = None
    try:
        pipeline = reduce(Pipeline.then, map(build, descriptions))
    except (EventideError, ValueError, TypeError) as problem:
        rejection = str(problem)
        if "rejected" not in entry:
            where = document.place((*path, "pipeline"))
            raise bad_transcript(where, f"the pipeline of {settings['name']!r} is rejected: {rejection}") from None
    columns = settings.get("columns", [])
    names = columns.split() if isinstance(columns, str) else columns
    if isinstance(columns, dict):
        names = {name: text.split() for name, text in columns.items()}
    contents = [] if pipeline is None else entry.get("steps", [])
    steps = [_step(document, (*path, "steps", i), step, names, pipeline) for i, step in enumerate(contents)]
    return Transcript(
        name=settings["name"],
        place=place,
        pipeline=pipeline,
        steps=steps,
        day=settings.get("day", "1970-01-01"),
        clock=settings.get("clock"),
        about=entry.get("about", ""),
        rejected=entry.get("rejected"),
        rejection=rejection,
    )


def _merged(shared: Any, specific: Any) -> list[Mapping[str, Any]]:
    """Return the settings of a transcript, which override those of its file."""
    if isinstance(specific, list):
        return specific
    if isinstance(shared, list):
        return shared if not specific else [specific]
    return [{name: value for name, value in (shared | specific).items() if value is not None}]


def _step(
    document: Document,
    path: documents.Path,
    step: Mapping[str, Any],
    columns: Sequence[str] | Mapping[str, Sequence[str]],
    pipeline: Pipeline | None,
) -> TranscriptStep:
    def each(name: str, read: Callable[[str], T], content: Any = None) -> list[T]:
        content = step.get(name, "") if content is None else content
        lines = content if isinstance(content, list) else str(content).splitlines()
        values = []
        for i, line in enumerate(lines):
            if line.strip() in ("", "nothing"):
                continue
            try:
                values.append(read(line))
            except ValueError as problem:
                number = document.lines[(*path, name)] + i
                raise bad_transcript(f"{document.name}:{number}", str(problem)) from None
        return values

    rows: Rows | Mapping[str, Rows] | None = None
    added = step.get("add")
    if isinstance(columns, Mapping):
        by_input = added if isinstance(added, dict) else {}
        if added is not None and (not by_input or not set(by_input) <= set(columns)):
            problem = f"the rows of several inputs are written by name: {', '.join(columns)}."
            raise bad_transcript(document.place((*path, "add")), problem)
        if added is not None:
            rows = {
                name: each("add", partial(read_row, columns=columns[name]), content)
                for name, content in by_input.items()
            }
    elif isinstance(added, list):
        rows = [_listed(document, (*path, "add", i), row, columns) for i, row in enumerate(added)]
    elif added is not None:
        rows = each("add", lambda line: read_row(line, columns))
    assert pipeline is not None
    plan = pipeline.plans[-1]
    pane = read_joined if isinstance(plan, JoinPlan) else partial(read_pane, key=plan.key)
    named = ("at", "watermark", "key", "wait", "idle", "reaches", "counts", "fails")
    plain = {name: step.get(name) for name in named}
    sided = getattr(pipeline.plan, "sides", True) is not None  # an interval join always has sides
    return TranscriptStep(
        place=document.place(path),
        add=rows,
        expect=each("expect", pane),
        late=each("late", lambda line: _aside(line, columns, sided)),
        dead=each("dead", lambda line: _dead(line, columns, sided)),
        **plain,
    )


def _listed(document: Document, path: documents.Path, row: Any, columns: Sequence[str]) -> Mapping[str, Any]:
    if isinstance(row, dict):
        return row
    if len(row) != len(columns):
        problem = f"{len(row)} values, but there are {len(columns)} columns: {' '.join(columns)}."
        raise bad_transcript(document.place(path), problem)
    return dict(zip(columns, row, strict=True))


def _aside(line: str, columns: Sequence[str] | Mapping[str, Sequence[str]], sided: bool) -> dict[str, Any]:
    """Return a late row. With several inputs, the line begins with the name of its input."""
    if not isinstance(columns, Mapping):
        return read_row(line, columns, more=True)
    name, *_ = words(line)
    if name not in columns:
        raise ValueError(f"{line.strip()!r}: begin with the input of the row: {', '.join(columns)}.")
    row = read_row(line.strip().removeprefix(name), columns[name], more=True)
    return row | {INPUT: name} if sided else row  # late rows of a union do not name their input


def _dead(line: str, columns: Sequence[str] | Mapping[str, Sequence[str]], sided: bool) -> dict[str, Any]:
    reason, *_ = words(line)
    return _aside(line.strip().removeprefix(reason), columns, sided) | {REASON: reason}
