"""Files of this machine as frames: what ``.local("orders.parquet")`` and ``eventide run --local`` read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl

from eventide._addresses import Address, read_address
from eventide.errors import PlanError

_GLOB = "*?["
_ELSEWHERE = "://"
_OPTIONS: Mapping[str, tuple[str, ...]] = {"parquet": (), "json": (), "csv": ("header", "sep")}


def read_files(address: Address | str) -> pl.DataFrame:
    """Return the rows of the files at an address: one file, a directory, or a pattern, in the order of file names.

    JSON is one object per line, as Spark reads it. A column that some files lack is null in their rows.
    """
    where = read_address(address, "source") if isinstance(address, str) else address
    if where.kind not in _OPTIONS or _ELSEWHERE in where.place:
        raise PlanError(
            f"'{where.kind}:{where.place}' cannot be read without Spark: this process reads files of the formats "
            f"{', '.join(_OPTIONS)} on this machine. Run it on Spark, or name such files."
        )
    options = _OPTIONS[where.kind]
    for name in where.options:
        if name not in options:
            hint = f"Known options are: {', '.join(options)}." if options else "This format has no options here."
            raise PlanError(f"'{where.kind}:{where.place}': the option {name!r} cannot be used without Spark. {hint}")
    files = [file for path in _matching(where.place) for file in data_files(path)]
    if not files:
        raise missing_files(where.place)
    return pl.concat([_read(file, where) for file in files], how="diagonal_relaxed")


def data_files(place: Path) -> list[Path]:
    """Return the data files of a place, as Spark lists them: names with a leading dot or underscore are hidden."""
    if place.is_file():
        return [place]
    files = (file for file in place.rglob("*") if file.is_file())
    return sorted(file for file in files if not any(part[0] in "._" for part in file.relative_to(place).parts))


def no_files(path: str) -> PlanError:
    """Return the error for a directory without files, whose columns are therefore unknown."""
    return PlanError(
        f"There are no files in {path!r} yet, so their columns are not known. Create the directory and name the "
        "columns: …?schema=ts timestamp, shop string, price double."
    )


def missing_files(path: str) -> PlanError:
    """Return the error for a place without files, which must exist for a run in this process."""
    return PlanError(f"There are no files in {path!r}. A relative path begins in {str(Path.cwd())!r}.")


def _matching(place: str) -> list[Path]:
    if any(letter in place for letter in _GLOB):
        root = Path(Path(place).anchor)
        return sorted(root.glob(str(Path(place).relative_to(root))))
    return [Path(place.removeprefix("file:"))]


def _read(file: Path, address: Address) -> pl.DataFrame:
    try:
        return _READERS[address.kind](file, address.options)
    except (pl.exceptions.PolarsError, OSError) as cause:
        reason = next(iter(str(cause).splitlines()), "") or type(cause).__name__
        raise PlanError(f"{str(file)!r} cannot be read: {reason.rstrip('.')}.") from cause


def _csv(file: Path, options: Mapping[str, str]) -> pl.DataFrame:
    header = options.get("header", "false").lower() == "true"
    frame = pl.read_csv(file, has_header=header, separator=options.get("sep", ","), try_parse_dates=True)
    return frame if header else frame.rename({name: f"_c{number}" for number, name in enumerate(frame.columns)})


_READERS: Mapping[str, Callable[[Path, Mapping[str, str]], pl.DataFrame]] = {
    "parquet": lambda file, options: pl.read_parquet(file),
    "json": lambda file, options: pl.read_ndjson(file),
    "csv": _csv,
}
