"""Jobs: a pipeline of a file, a module or SQL (``job.py:revenue``), its rows, and checks that need no Spark."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide._addresses import FILES, Address
from eventide.cli.terminal import without_stack
from eventide.errors import EventideError, PlanError, did_you_mean, shown
from eventide.local.files import data_files, missing_files, no_files

if TYPE_CHECKING:
    import polars as pl

    from eventide.local import LocalResult
    from eventide.plan.pipeline import Pipeline
    from eventide.spark.query import Query

_GLOB = "*?[{"
_MODULE_NAME = "eventide_job"
_TARGET = re.compile(r"(?P<place>.+?)(?::(?P<name>[^:/\\]*))?")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@dataclass(frozen=True)
class Job:
    """A pipeline, and the function that reads its rows, if the file defines one."""

    path: str  # of the file, or the name of the module
    pipeline: Pipeline
    rows: Callable[[Any], Any] | None = None
    statement: Any = None  # of SQL, whose tables have names, and which selects columns of the panes
    chosen: str | None = None  # the name of the pipeline, if the user named it

    @property
    def name(self) -> str:
        """The name of the query."""
        return self.chosen or Path(self.path).stem

    @property
    def computes(self) -> bool:
        """Whether Spark computes columns of the rows before the first pipeline sees them."""
        from eventide._column_refs import expressions

        plan = self.pipeline.plan
        return self.statement is not None or any(expressions(plan.at(edge)) for edge in range(len(plan.edges)))

    def explain(self) -> str:
        """Return what the job does, in words."""
        if self.statement is not None:
            return str(self.statement.explain())
        return self.pipeline.explain()

    def start(self, rows: Any, **options: Any) -> Query:
        """Return a running query with all outputs; ``options`` are those of ``pipeline.run``."""
        query: Query = (self.statement or self.pipeline).run(rows, **options)
        return query

    def local(self, rows: Any, **options: Any) -> LocalResult:
        """Return the result of a run in this process; ``rows`` are frames, with or without names."""
        result: LocalResult = (self.statement or self.pipeline).local(rows, **options)
        return result

    def read(self, spark: Any) -> Any:
        """Return the rows that the job reads: a DataFrame, or several, with or without names."""
        assert self.rows is not None
        with _user_code(self.path):
            rows = self.rows(spark)
        inputs = list(rows.values()) if isinstance(rows, Mapping) else rows if isinstance(rows, list) else [rows]
        if not inputs or not all(hasattr(source, "sparkSession") for source in inputs):
            raise PlanError(
                f"{self.path}: rows(spark) returns {shown(rows)}, and not a DataFrame. Write: return "
                "spark.readStream…, or for several inputs a dict by their names."
            )
        return rows

    @property
    def folder(self) -> str:
        """The directory of the modules that the job imports: that of its file, or the current one for a module."""
        return str(Path(self.path).resolve().parent) if _is_file(self.path) else str(Path.cwd())


def load(target: str) -> Job:
    """Return the job of ``job.py``, ``job.py:revenue``, ``shop.jobs:revenue`` or ``query.sql``."""
    place, name = split_target(target)
    if not _is_file(place):
        if name is None or _MODULE.fullmatch(place) is None:
            raise _not_a_job(target)
        return _job_of(place, _imported(place), name)
    text = _text_of(Path(place))
    if not place.endswith(".sql"):
        return _job_of(place, _run(place, text), name)
    if name is not None:
        raise PlanError(f"{place}:{name}: a SQL file is one query without a name. Write {place}.")
    return sql_job(text, place)


def split_target(target: str) -> tuple[str, str | None]:
    """Return the file or the module of a job, and the name of its pipeline.

    >>> split_target("jobs/shop.py:revenue"), split_target("job.py"), split_target("shop.jobs:revenue")
    (('jobs/shop.py', 'revenue'), ('job.py', None), ('shop.jobs', 'revenue'))
    """
    parts = _TARGET.fullmatch(target)
    if parts is None or (parts["name"] is not None and not parts["name"].isidentifier()):
        raise _not_a_job(target)
    return parts["place"], parts["name"]


def _is_file(place: str) -> bool:
    return Path(place).suffix in (".py", ".sql") or "/" in place


def _text_of(file: Path) -> str:
    if file.is_dir():
        raise PlanError(f"{str(file)!r} is a directory. Name the Python file in it that defines the pipeline.")
    if file.suffix not in (".py", ".sql"):
        raise _not_a_job(str(file))
    if not file.is_file():
        raise PlanError(
            f"There is no file {str(file)!r}. Name a Python file and its pipeline (job.py:revenue), or a SQL file."
        )
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as cause:
        raise PlanError(
            f"{str(file)!r} is not UTF-8: the byte at {cause.start:,} does not belong there. Save it as UTF-8 text."
        ) from cause


def sql_job(text: str, path: str = "query") -> Job:
    """Return the job of a SQL statement."""
    import eventide

    try:
        read: Any = eventide.sql
    except (AttributeError, ImportError) as cause:
        raise PlanError(
            "SQL needs the package sqlglot. Install it: pip install 'pyspark-eventide[sql]'. "
            "Or write the pipeline in Python (job.py)."
        ) from cause
    statement = read(text)
    return Job(path, statement.pipeline, statement=statement)


def _job_of(path: str, names: Mapping[str, Any], name: str | None) -> Job:
    from eventide.plan.pipeline import Pipeline, Runnable

    rows = names.get("rows")
    if rows is not None and not callable(rows):
        raise PlanError(
            f"{path}: rows is {shown(rows)}, and not a function. Write: def rows(spark): return spark.readStream…"
        )
    chosen = _default_name(path, names) if name is None else name
    if chosen not in names:
        raise PlanError(f"{path} does not define {chosen!r}. {did_you_mean(chosen, _pipelines(names))}")
    value = names[chosen]
    if not isinstance(value, Runnable):
        raise PlanError(
            f"{path}: {chosen} is {shown(value)}, and not a pipeline. Pipelines are returned by .agg(…), .process(…), "
            "the joins and .then(…)."
        )
    if isinstance(value, Pipeline):
        return Job(path, value, rows, chosen=name)
    statement: Any = value  # of SQL
    return Job(path, statement.pipeline, rows, statement, name)


def _default_name(path: str, names: Mapping[str, Any]) -> str:
    """Return ``pipeline``, or the only pipeline that a file defines."""
    defined = _pipelines(names)
    if "pipeline" in names or len(defined) == 1:
        return "pipeline" if "pipeline" in names else defined[0]
    if defined:
        choices = " or ".join(f"{path}:{name}" for name in defined)
        raise PlanError(f"{path} defines several pipelines. Name the one to run: {choices}.")
    raise PlanError(
        f"{path} defines no pipeline. Write: revenue = ev.stream(…).window(…).agg(…), and run {path}:revenue."
    )


def _pipelines(names: Mapping[str, Any]) -> list[str]:
    from eventide.plan.pipeline import Runnable

    return [name for name, value in names.items() if isinstance(value, Runnable) and not name.startswith("_")]


def _imported(name: str) -> dict[str, Any]:
    """Import a module as ``python -m`` does, from the current directory first, and return its names."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        with _user_code(name):
            return vars(import_module(name))
    except EventideError as cause:
        missing = cause.__cause__
        if isinstance(missing, ModuleNotFoundError) and missing.name and f"{name}.".startswith(f"{missing.name}."):
            raise PlanError(
                f"There is no module {name!r}. It must be in the current directory or installed. "
                f"For a file write its path: {name.replace('.', '/')}.py:NAME."
            ) from cause
        raise


def _run(path: str, text: str) -> dict[str, Any]:
    """Run a file, and return the names that it defines.

    While it runs it is a module, which dataclasses need. Afterwards it is not: so its functions are pickled by value,
    and workers need not find the file.
    """
    module = types.ModuleType(_MODULE_NAME)
    module.__file__ = path
    sys.path.insert(0, str(Path(path).resolve().parent))  # as python itself does
    sys.modules[_MODULE_NAME] = module
    try:
        with _user_code(path):
            exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)
    finally:
        del sys.modules[_MODULE_NAME]
    return module.__dict__


@contextmanager
def _user_code(path: str) -> Iterator[None]:
    """Run code of the user: it prints to stderr, and its errors name the line."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as cause:
        text = str(cause)
        if not isinstance(cause, EventideError):
            text = f"{type(cause).__name__}: {without_stack(text) or 'no message'}"
        line = _line(cause, path)
        raise PlanError(f"{path if line is None else f'{path}, line {line}'}: {text}") from cause


def _line(cause: BaseException, path: str) -> int | None:
    """Return the last line of the file in the stack of an error."""
    if isinstance(cause, SyntaxError) and cause.filename == path:
        return cause.lineno
    lines = []
    trace = cause.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return lines[-1] if lines else None


def _not_a_job(path: str) -> PlanError:
    return PlanError(
        f"{path!r} is not a job. Write job.py:revenue (a Python file and the name of its pipeline), "
        "shop.jobs:revenue (a module), or query.sql (a SQL file)."
    )


def check_sources(job: Job, sources: Mapping[str | None, Address], *, streaming: bool = True) -> None:
    """Reject sources that do not exist, do not fit the inputs of the job, or lack columns that it reads."""
    if not sources:
        return
    _check_names(job, sources)
    for address in sources.values():
        _check_place(address, streaming=streaming)
    schemas = {name: schema_of(address) for name, address in sources.items()}
    known = {name: schema for name, schema in schemas.items() if schema is not None}
    if len(known) == len(sources):
        _check_columns(job, known)


def schema_of(address: Address) -> pl.Schema | None:
    """Return the columns of local Parquet files, as Spark reads them; None: only Spark knows.

    Spark adds the columns of a directory such as ``day=2026-03-01``, and options change what it reads.
    """
    import polars as pl

    place = _local(address)
    if address.kind != "parquet" or address.options or place is None:
        return None
    files = data_files(place)
    if not files or "=" in str(files[0].relative_to(place)):
        return None
    try:
        return pl.Schema(pl.read_parquet_schema(files[0]))
    except Exception:  # Spark reads it, or reports why it cannot
        return None


def _check_names(job: Job, sources: Mapping[str | None, Address]) -> None:
    names = list(job.statement.tables) if job.statement is not None else _inputs(job)
    if None in sources:
        if len(names) > 1:
            reads = "The statement reads" if job.statement is not None else "The pipeline has the inputs"
            examples = " ".join(f"{name}=KIND:PLACE" for name in names)
            raise PlanError(f"{reads} {', '.join(map(repr, names))}. Give each its source: {examples}.")
        return
    if job.statement is None and len(names) == 1:
        raise PlanError(
            f"The source {next(iter(sources))!s}=…: the pipeline has one input, which has no name. "
            "Write KIND:PLACE only."
        )
    unknown = [name for name in sources if name not in names]
    if unknown:
        name = str(unknown[0])
        raise PlanError(f"The source {name}=…: there is no input {name!r}. {did_you_mean(name, names)}")
    missing = [name for name in names if name not in sources]
    if missing:
        raise PlanError(f"The input {missing[0]!r} has no source. Add {missing[0]}=KIND:PLACE.")


def _inputs(job: Job) -> list[str]:
    return [edge.name for edge in job.pipeline.plan.edges]


def _check_place(address: Address, *, streaming: bool) -> None:
    if address.kind == "eventide":
        from eventide.cli.marks import check_store
        from eventide.marks.streams import open_stream

        check_store(address.place.rpartition("#")[0])
        open_stream(address.place, token=address.options.get("token"))
        return
    place = _local(address)
    if address.kind not in FILES or place is None:
        return
    if place.is_file() and streaming:
        raise PlanError(
            f"{address.kind}:{address.place} is a file. Name the directory to which files are written, or add --local."
        )
    if not streaming and not place.exists():
        raise missing_files(address.place)
    if not place.exists() or ("schema" not in address.options and not data_files(place)):
        raise no_files(address.place)


def _check_columns(job: Job, schemas: Mapping[str | None, pl.Schema]) -> None:
    import polars as pl

    if job.statement is not None:
        table = job.statement.tables[0]  # the only one, if its source has no name
        frames = {name or table: pl.DataFrame(schema=schema) for name, schema in schemas.items()}
        _bound(lambda: job.statement.local(frames))
    elif not job.computes:  # Spark computes no columns before the first pipeline sees the rows
        from eventide.operators.factory import operator_of

        ordered = [schemas[None]] if None in schemas else [schemas[name] for name in _inputs(job)]
        _bound(lambda: operator_of(job.pipeline.plan, *ordered))


def _bound(bind: Any) -> None:
    """Bind a plan to columns. Only mistakes of the plan are reported; Spark reports others."""
    try:
        bind()
    except PlanError:
        raise
    except Exception:
        return


def _local(address: Address) -> Path | None:
    from eventide._paths import on_disk

    if address.kind not in FILES or any(letter in address.place for letter in _GLOB):
        return None
    local = on_disk(address.place)
    return None if local is None else Path(local)
