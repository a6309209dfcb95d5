"""``eventide doctor``: checks whether this machine can run queries. A check never raises: a problem is a result."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from eventide.cli import terminal as screen
from eventide.cli.shutdown import managed_java
from eventide.cli.terminal import FAILED
from eventide.errors import EventideError, first_line

State = Literal["ok", "note", "problem"]

# The extra that installs a package, and whether queries on Spark need it.
_PACKAGES = {
    "polars": ("", True),
    "pyarrow": ("", True),
    "numpy": ("", True),
    "pyspark": ("spark", True),
    "pandas": ("spark", True),
    "protobuf": ("spark", True),
    "psycopg": ("postgres", False),
    "prometheus-client": ("prometheus", False),
    "opentelemetry-sdk": ("otel", False),
    "datasketches": ("sketches", False),
    "sqlglot": ("sql", False),
}
_DISTRIBUTION, _OTHER_PROJECT = "pyspark-eventide", "eventide"
_LITTLE = 2 << 30  # bytes of free disk below which state and shuffles may run out of room
_FEW_PARTITIONS = 64


@dataclass(frozen=True)
class Check:
    """The result of one check; ``fix`` is the suggested fix."""

    name: str
    state: State
    finding: str
    fix: str = ""


def without_spark() -> list[Check]:
    """Return the checks that do not start Spark."""
    groups: list[Callable[[], list[Check]]] = [_python, _eventide, _java, _packages, _settings, _disk]
    return [check for group in groups for check in group()]


def on_spark() -> Check:
    """Start a session, and run a small query on it."""
    from eventide.spark.session import check_session, spark_session

    try:
        spark = spark_session("eventide doctor")
    except Exception as cause:
        return Check("session", "problem", f"Spark does not start: {first_line(cause)[:200]}", _see_trace())
    try:
        check_session(spark)
        rows = spark.range(1000).mapInArrow(lambda batches: batches, "id long").count()
    except EventideError as cause:
        return Check("session", "problem", "the session cannot run queries", str(cause))
    except Exception as cause:
        return Check("session", "problem", f"a query fails: {first_line(cause)[:200]}", _see_trace())
    finally:
        spark.stop()
    return Check("session", "ok", f"Spark {spark.version} runs Python workers ({rows:,} rows through one)")


def _python() -> list[Check]:
    good = sys.version_info >= (3, 11)
    fix = "" if good else "Eventide needs Python 3.11 or newer."
    return [Check("Python", "ok" if good else "problem", f"{platform.python_version()} at {sys.executable}", fix)]


def _eventide() -> list[Check]:
    """Check which distribution the module ``eventide`` is from: on PyPI, ``eventide`` is another project."""
    import eventide

    place = Path(eventide.__file__).parent
    other, version = _version(_OTHER_PROJECT), _version(_DISTRIBUTION)
    checks = [Check("Eventide", "ok", f"{version} at {place}")]
    if version is None:
        fix = f"Install it: pip install {_DISTRIBUTION}. Spark's workers on other machines need it as well."
        checks = [Check("Eventide", "note", f"{_DISTRIBUTION} is not installed; this is the source at {place}", fix)]
    if other is not None:
        fix = (
            f"On PyPI, {_OTHER_PROJECT!r} is another project with the same import name. Uninstall it, then install "
            f"this one again: pip uninstall {_OTHER_PROJECT}; pip install --force-reinstall {_DISTRIBUTION}"
        )
        checks.append(Check("Eventide", "problem", f"the distribution {_OTHER_PROJECT} {other} is installed", fix))
    return checks


def _java() -> list[Check]:
    from eventide.spark.java import find_java

    try:
        java = find_java()
    except EventideError as cause:
        home = os.environ.get("JAVA_HOME")
        detail = f"JAVA_HOME is {home}, which Spark cannot use" if home else "none that Spark can use"
        return [Check("Java", "problem", detail, str(cause))]
    return [Check("Java", "ok", f"{java.version} at {java.home} ({java.origin})")]


def _packages() -> list[Check]:
    return [_package(name, extra, needed=needed) for name, (extra, needed) in _PACKAGES.items()]


def _package(name: str, extra: str, *, needed: bool) -> Check:
    version = _version(name)
    install = f"pip install 'pyspark-eventide[{extra}]'" if extra else "pip install --upgrade pyspark-eventide"
    if version is None:
        return Check(name, "problem" if needed else "note", "not installed", f"{install}" if needed else "")
    wrong = _wrong_version(name, version)
    return Check(name, "problem" if wrong else "ok", version, wrong)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _wrong_version(name: str, version: str) -> str:
    from eventide.spark.session import PACKAGES, is_supported

    for package, least, too_new, _ in PACKAGES:
        if package == name and not is_supported(version, least, too_new):
            return f"pip install '{name}>={least}{f',<{too_new}' if too_new else ''}'"
    return ""


def _settings() -> list[Check]:
    """Check the settings of spark-defaults.conf and PYSPARK_SUBMIT_ARGS that matter to Eventide."""
    if _version("pyspark") is None:
        return []
    from eventide.spark.environment import external_settings, machine_cores
    from eventide.spark.session import safe_profile

    outside = external_settings()
    checks = [Check("cores", "ok", f"{machine_cores()} for a local session (--cores)")]
    provider = "spark.sql.streaming.stateStore.providerClass"
    if provider in outside and not outside[provider].endswith("RocksDBStateStoreProvider"):
        fix = f"Eventide's state needs RocksDB. Set {provider} to {safe_profile()[provider]}, or remove it."
        checks.append(Check("settings", "problem", f"{provider} is {outside[provider]}", fix))
    partitions = outside.get("spark.sql.shuffle.partitions", "")
    if partitions.isdigit() and int(partitions) > _FEW_PARTITIONS:
        fix = "Each partition commits its state with every batch: one per core is enough."
        checks.append(Check("settings", "note", f"spark.sql.shuffle.partitions is {partitions}", fix))
    named = ", ".join(name for name in ("SPARK_HOME", "SPARK_REMOTE", "PYSPARK_PYTHON") if os.environ.get(name))
    checks.append(
        Check(
            "settings",
            "ok",
            f"{len(outside)} in spark-defaults.conf and PYSPARK_SUBMIT_ARGS"
            + (f"; set in the environment: {named}" if named else ""),
        )
    )
    return checks


def _disk() -> list[Check]:
    """Check the free space for shuffles, and for checkpoints in the default directory."""
    checks = []
    for name, place in (("temporary files", tempfile.gettempdir()), ("this directory", os.getcwd())):  # noqa: PTH109
        free = shutil.disk_usage(place).free
        short = free < _LITTLE
        fix = f"Free some space, or name another directory: --conf spark.local.dir=… (less than {_LITTLE >> 30} GiB)."
        checks.append(Check(name, "note" if short else "ok", f"{free / (1 << 30):.1f} GiB free", fix if short else ""))
    return checks


def _see_trace() -> str:
    return "See the whole error with: python -c 'import eventide as ev; ev.spark_session()'"


EXAMPLES = """Examples:

eventide doctor

eventide doctor --start      (also starts Spark and runs a small query)

eventide doctor --json
"""
_STYLES = {"ok": "green", "note": "yellow", "problem": "red"}


def doctor(
    start: Annotated[bool, typer.Option("--start", help="Start Spark and run a small query.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each check on stdout.")] = False,
) -> None:
    """Check Java, Spark, packages, settings and disk, and suggest fixes. Exit code 1: there is a problem."""
    checks = without_spark()
    ready = all(check.state != "problem" for check in checks)
    if start and ready:
        with screen.busy("Starting Spark …", quiet=json), managed_java(), screen.quiet_java():
            checks.append(on_spark())
    if json:
        for check in checks:
            screen.print_json(asdict(check))
    else:
        _show(checks)
    if any(check.state == "problem" for check in checks):
        raise typer.Exit(FAILED)


def _show(checks: list[Check]) -> None:
    from rich.text import Text

    console = screen.stdout_console()
    rows = [(Text(check.state, _STYLES[check.state]), check.name, check.finding) for check in checks]
    console.print(screen.table("", "check", "finding", rows=rows))
    problems = [check for check in checks if check.fix]
    for check in problems:
        console.print(Text.assemble((f"{check.name}: ", "bold"), check.fix))
    if not problems:
        console.print("No problems found. Try: eventide demo")
