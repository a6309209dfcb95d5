"""Checks of a job and its sources that need no Spark: a mistake is reported before Spark starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide.cli.addresses import FILES, Address
from eventide.errors import PlanError
from eventide.errors import cli as errors

if TYPE_CHECKING:
    import polars as pl

    from eventide.cli.jobs import Job

_GLOB = "*?[{"


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
    """Return the columns of local Parquet files, as Spark will see them; None: only Spark knows.

    Spark adds the columns of a directory such as ``day=2026-03-01``, and options change what it reads.
    """
    import polars as pl

    place = _local(address)
    if address.kind != "parquet" or address.options or place is None:
        return None
    files = _files(place)
    if not files or "=" in str(files[0].relative_to(place)):
        return None
    try:
        return pl.Schema(pl.read_parquet_schema(files[0]))
    except Exception:  # Spark reads it, or says why it cannot
        return None


def _check_names(job: Job, sources: Mapping[str | None, Address]) -> None:
    names = list(job.statement.tables) if job.statement is not None else _inputs(job)
    if None in sources:
        if len(names) > 1:
            raise errors.unnamed_tables(names) if job.statement is not None else errors.unnamed_inputs(names)
        return
    if job.statement is None and len(names) == 1:
        raise errors.named_input(str(next(iter(sources))))
    unknown = [name for name in sources if name not in names]
    if unknown:
        raise errors.unknown_input(str(unknown[0]), names)
    missing = [name for name in names if name not in sources]
    if missing:
        raise errors.missing_source(missing[0])


def _inputs(job: Job) -> list[str]:
    return [edge.name for edge in job.pipelines[0].plan.edges]


def _check_place(address: Address, *, streaming: bool) -> None:
    if address.kind == "eventide":
        from eventide.cli.stores import check_store
        from eventide.marks.streams import open_stream

        check_store(address.place.rpartition("#")[0])
        open_stream(address.place, token=address.options.get("token"))
        return
    place = _local(address)
    if address.kind not in FILES or place is None:
        return
    if place.is_file() and streaming:
        raise errors.source_is_file(address.kind, address.place)
    if not place.exists() or ("schema" not in address.options and not _files(place)):
        raise errors.no_files(address.place)


def _check_columns(job: Job, schemas: Mapping[str | None, pl.Schema]) -> None:
    import polars as pl

    if job.statement is not None:
        table = job.statement.tables[0]  # the only one, if its source has no name
        frames = {name or table: pl.DataFrame(schema=schema) for name, schema in schemas.items()}
        _bound(lambda: job.statement.local(**frames))
    elif not job.computes:  # Spark computes no columns before the first pipeline sees the rows
        from eventide.operators.binding import operator_of

        ordered = [schemas[None]] if None in schemas else [schemas[name] for name in _inputs(job)]
        _bound(lambda: operator_of(job.pipelines[0].plan, *ordered))


def _bound(bind: Any) -> None:
    """Bind a plan to columns; what is not a mistake of the plan is left to Spark."""
    try:
        bind()
    except PlanError:
        raise
    except Exception:
        return


def _local(address: Address) -> Path | None:
    from eventide.spark.addresses import on_disk

    if address.kind not in FILES or any(letter in address.place for letter in _GLOB):
        return None
    local = on_disk(address.place)
    return None if local is None else Path(local)


def _files(place: Path) -> list[Path]:
    """The data files, as Spark finds them: not those whose name begins with a dot or an underscore."""
    if place.is_file():
        return [place]
    found = (file for file in place.rglob("*") if file.is_file())
    return sorted(file for file in found if not any(part[0] in "._" for part in file.relative_to(place).parts))
