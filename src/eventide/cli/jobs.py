"""Jobs: what a user's file says. ``job.py`` defines ``pipeline`` (or ``pipelines``), and perhaps ``rows(spark)``."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide.cli.failing import shortened
from eventide.errors import EventideError
from eventide.errors import cli as errors

if TYPE_CHECKING:
    from eventide.plan.pipeline import Pipeline
    from eventide.spark.query import Query

_NAME = "eventide_job"


@dataclass(frozen=True)
class Job:
    """A pipeline, or a chain of them, and where its rows come from, if the file says so."""

    path: str
    pipelines: tuple[Pipeline, ...]
    rows: Callable[[Any], Any] | None = None
    statement: Any = None  # of SQL, whose tables have names, and which selects columns of the panes

    @property
    def name(self) -> str:
        """What to call it."""
        return Path(self.path).stem

    @property
    def computes(self) -> bool:
        """Whether Spark computes columns of the rows before the first pipeline sees them."""
        from eventide.columns import expressions

        plan = self.pipelines[0].plan
        return self.statement is not None or any(expressions(plan.at(edge)) for edge in range(len(plan.edges)))

    def explain(self) -> str:
        """What it does, in words."""
        if self.statement is not None:
            return str(self.statement.explain())
        return "\n".join(one.explain() for one in self.pipelines)

    def start(self, rows: Any, **options: Any) -> Query:
        """A query with all outputs; ``options`` are those of ``ev.run``."""
        from eventide.spark.running import run

        if self.statement is None:
            return run(self.pipelines, rows, **options)
        query: Query = self.statement.run(tables=self._tables(rows), **options)
        return query

    def _tables(self, rows: Any) -> Mapping[str, Any]:
        """The tables of a statement by their names; a single one needs none."""
        names = self.statement.tables
        if isinstance(rows, Mapping):
            return rows
        if len(names) != 1:
            raise errors.unnamed_tables(names)
        return {names[0]: rows}

    def read(self, spark: Any) -> Any:
        """The rows of the job itself: a DataFrame, or several, with or without names."""
        assert self.rows is not None
        with _own_code(self.path):
            found = self.rows(spark)
        several = list(found.values()) if isinstance(found, Mapping) else found if isinstance(found, list) else [found]
        if not several or not all(hasattr(one, "sparkSession") for one in several):
            raise errors.not_rows(self.path, found)
        return found

    @property
    def folder(self) -> str:
        """Where the modules that it imports may lie."""
        return str(Path(self.path).resolve().parent)


def load(path: str) -> Job:
    """The job of a file with Python or SQL."""
    file = Path(path)
    if file.suffix not in (".py", ".sql"):
        raise errors.not_a_job(path)
    if file.is_dir():
        raise errors.job_is_directory(path)
    if not file.is_file():
        raise errors.no_job(path)
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as cause:
        raise errors.not_text(path, cause.start) from cause
    return of_sql(text, path) if file.suffix == ".sql" else _of_python(path, text)


def of_sql(text: str, path: str = "query") -> Job:
    """The job of a statement."""
    import eventide

    try:
        read: Any = eventide.sql_pipeline
    except (AttributeError, ImportError) as cause:
        raise errors.no_sql() from cause
    statement = read(text)
    return Job(path, tuple(statement.pipelines), statement=statement)


def _of_python(path: str, text: str) -> Job:
    names = _run(path, text)
    several = "pipelines" in names and "pipeline" not in names
    name = "pipelines" if several else "pipeline"
    if name not in names:
        raise errors.no_pipeline(path, [own for own in names if not own.startswith("_")])
    rows = names.get("rows")
    if rows is not None and not callable(rows):
        raise errors.rows_is_no_function(path, rows)
    return Job(path, _checked(path, name, names[name], several=several), rows)


def _run(path: str, text: str) -> dict[str, Any]:
    """What the file defines.

    While it runs it is a module, which dataclasses ask for. Afterwards it is none: what it defines is then sent to
    Spark's workers as a whole, and they need not find the file.
    """
    module = types.ModuleType(_NAME)
    module.__file__ = path
    sys.path.insert(0, str(Path(path).resolve().parent))  # as python itself does
    sys.modules[_NAME] = module
    try:
        with _own_code(path):
            exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)
    finally:
        del sys.modules[_NAME]
    return module.__dict__


@contextmanager
def _own_code(path: str) -> Iterator[None]:
    """While the user's code runs: what it prints is no result, and what it raises is told with its line."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as cause:
        kind = "PlanError" if isinstance(cause, EventideError) else type(cause).__name__
        said = str(cause) if isinstance(cause, EventideError) else shortened(str(cause)) or "no message"
        raise errors.job_failed(path, _line(cause, path), kind, said) from cause


def _line(cause: BaseException, path: str) -> int | None:
    """The last line of the file that had a part in it."""
    if isinstance(cause, SyntaxError) and cause.filename == path:
        return cause.lineno
    lines = []
    at = cause.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == path:
            lines.append(at.tb_lineno)
        at = at.tb_next
    return lines[-1] if lines else None


def _checked(path: str, name: str, value: Any, *, several: bool) -> tuple[Pipeline, ...]:
    from eventide.plan.pipeline import Pipeline

    chain = list(value) if several and isinstance(value, list | tuple) else [value]
    if not chain or not all(isinstance(one, Pipeline) for one in chain):
        raise errors.not_a_pipeline(path, name, value)
    return tuple(chain)
