"""A transcript as data, read from a file. Nothing here runs anything, so any host can be given one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from eventide.errors import EventideError
from eventide.errors import testing as errors
from eventide.plan.join_plan import JoinPlan
from eventide.plan.pipeline import Pipeline
from eventide.testing.expectations import ExpectedPane
from eventide.testing.transcripts import document as documents
from eventide.testing.transcripts.checking import check
from eventide.testing.transcripts.document import Document
from eventide.testing.transcripts.lines import read_joined, read_pane, read_row, words
from eventide.testing.transcripts.pipelines import build

T = TypeVar("T")
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Step:
    """A bundle, and all that must come of it."""

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
        """Whether something happens, and not only something is expected."""
        return any(said is not None for said in (self.add, self.watermark, self.wait, self.idle))


@dataclass(frozen=True)
class Transcript:
    """A story about a pipeline. ``refusal`` is the message with which the pipeline was refused, if it was."""

    name: str
    place: str
    pipelines: Sequence[Pipeline]
    steps: Sequence[Step]
    day: str = "1970-01-01"
    clock: str | int | None = None
    about: str = ""
    refused: str | None = None
    refusal: str | None = None


def load(path: str | Path) -> list[Transcript]:
    """The transcripts of a file."""
    path = Path(path)
    return loads(path.read_text(encoding="utf-8"), name=str(path))


def loads(text: str, *, name: str = "<text>") -> list[Transcript]:
    """The transcripts of a text; ``name`` is what messages call it.

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
        _transcript(document, ("transcripts", i), content | own, own) for i, own in enumerate(content["transcripts"])
    ]


def _transcript(
    document: Document, path: documents.Path, said: Mapping[str, Any], own: Mapping[str, Any]
) -> Transcript:
    place = document.place(path)
    descriptions = _merged(document.content.get("pipeline", {}), own.get("pipeline", {}))
    pipelines: list[Pipeline] = []
    refusal = None
    try:
        pipelines = [build(description) for description in descriptions]
    except (EventideError, ValueError, TypeError) as problem:
        refusal = str(problem)
        if "refused" not in own:
            where = document.place((*path, "pipeline"))
            raise errors.bad_transcript(where, f"the pipeline of {said['name']!r} is refused: {refusal}") from None
    columns = said.get("columns", [])
    names = columns.split() if isinstance(columns, str) else columns
    if isinstance(columns, dict):
        names = {name: text.split() for name, text in columns.items()}
    told = [] if refusal is not None else own.get("steps", [])
    steps = [_step(document, (*path, "steps", i), step, names, pipelines) for i, step in enumerate(told)]
    return Transcript(
        name=said["name"],
        place=place,
        pipelines=pipelines,
        steps=steps,
        day=said.get("day", "1970-01-01"),
        clock=said.get("clock"),
        about=own.get("about", ""),
        refused=own.get("refused"),
        refusal=refusal,
    )


def _merged(shared: Any, own: Any) -> list[Mapping[str, Any]]:
    """A transcript's own settings over those of its file."""
    if isinstance(own, list):
        return own
    if isinstance(shared, list):
        return shared if not own else [own]
    return [{name: value for name, value in (shared | own).items() if value is not None}]


def _step(
    document: Document,
    path: documents.Path,
    said: Mapping[str, Any],
    columns: Sequence[str] | Mapping[str, Sequence[str]],
    pipelines: Sequence[Pipeline],
) -> Step:
    def each(name: str, read: Callable[[str], T], content: Any = None) -> list[T]:
        content = said.get(name, "") if content is None else content
        lines = content if isinstance(content, list) else str(content).splitlines()
        found = []
        for i, line in enumerate(lines):
            if line.strip() in ("", "nothing"):
                continue
            try:
                found.append(read(line))
            except ValueError as problem:
                number = document.lines[(*path, name)] + i
                raise errors.bad_transcript(f"{document.name}:{number}", str(problem)) from None
        return found

    rows: Rows | Mapping[str, Rows] | None = None
    added = said.get("add")
    if isinstance(columns, Mapping):
        given = added if isinstance(added, dict) else {}
        if added is not None and (not given or not set(given) <= set(columns)):
            problem = f"the rows of several inputs are written by name: {', '.join(columns)}."
            raise errors.bad_transcript(document.place((*path, "add")), problem)
        if added is not None:
            rows = {
                name: each("add", partial(read_row, columns=columns[name]), content) for name, content in given.items()
            }
    elif isinstance(added, list):
        rows = [_listed(document, (*path, "add", i), row, columns) for i, row in enumerate(added)]
    elif added is not None:
        rows = each("add", lambda line: read_row(line, columns))
    plan = pipelines[-1].plan
    pane = read_joined if isinstance(plan, JoinPlan) else partial(read_pane, key=plan.key)
    named = ("at", "watermark", "key", "wait", "idle", "reaches", "counts", "fails")
    plain = {name: said.get(name) for name in named}
    sided = getattr(pipelines[0].plan, "sides", True) is not None  # a join of near rows has nothing else
    return Step(
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
        raise errors.bad_transcript(document.place(path), problem)
    return dict(zip(columns, row, strict=True))


def _aside(line: str, columns: Sequence[str] | Mapping[str, Sequence[str]], sided: bool) -> dict[str, Any]:
    """A late row; of several inputs, the name of its input comes first."""
    if not isinstance(columns, Mapping):
        return read_row(line, columns, more=True)
    name, *_ = words(line)
    if name not in columns:
        raise ValueError(f"{line.strip()!r}: begin with the input that the row came on: {', '.join(columns)}.")
    row = read_row(line.strip().removeprefix(name), columns[name], more=True)
    return row | {"input": name} if sided else row  # rows of a union do not say where they came from


def _dead(line: str, columns: Sequence[str] | Mapping[str, Sequence[str]], sided: bool) -> dict[str, Any]:
    reason, *_ = words(line)
    return _aside(line.strip().removeprefix(reason), columns, sided) | {"reason": reason}
