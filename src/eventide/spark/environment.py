"""What a session finds around it: cores, settings from outside the program, private directories, Spark's version."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import stat
import tempfile
from pathlib import Path

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"

_RENAMING_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_SUBMIT_FLAGS = {
    "--master": "spark.master",
    "--driver-memory": "spark.driver.memory",
    "--executor-memory": "spark.executor.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
}
_MAX_PATH = 60  # a socket's whole path has at most 103 characters, and its name takes 42


def external_settings() -> dict[str, str]:
    """Return Spark settings from outside the program: spark-submit, PYSPARK_SUBMIT_ARGS and spark-defaults.conf."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit started this process, and its JVM has the settings
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()
        return dict(SparkConf().getAll())
    settings: dict[str, str] = {}
    defaults = conf_directory() / "spark-defaults.conf"
    for line in defaults.read_text(encoding="utf-8").splitlines() if defaults.is_file() else ():
        setting = re.match(r"\s*(spark\.[^\s=:]+)\s*[\s=:]\s*(.*?)\s*$", line)
        if setting:
            settings[setting[1]] = setting[2]
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    for flag, word in itertools.pairwise(words):
        if flag in ("--conf", "-c"):
            name, _, value = word.partition("=")
            settings[name] = value
        elif flag in _SUBMIT_FLAGS:
            settings[_SUBMIT_FLAGS[flag]] = word
    return settings


def machine_cores() -> int:
    """Return the cores that this process may use: those of the machine, or fewer in a container.

    >>> machine_cores() >= 1
    True
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = Path("/sys/fs/cgroup/cpu.max")
    if quota.is_file():
        allowed, _, period = quota.read_text(encoding="ascii").strip().partition(" ")
        if allowed != "max":
            cores = min(cores, max(1, int(allowed) // int(period or 100_000)))
    return cores


def local_cores(master: str) -> int | None:
    """Return the number of concurrent tasks of a local master; None for another master.

    >>> local_cores("local"), local_cores("local[3]"), local_cores("spark://here:7077")
    (1, 3, None)
    """
    match = re.fullmatch(r"local(?:\[(\d+|\*)(?:,.*)?\])?", master.replace(" ", ""))
    if match is None:
        return None
    return machine_cores() if match[1] == "*" else int(match[1] or 1)


def conf_directory() -> Path:
    """Return the directory of Spark's configuration files."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home()) / "conf")


def private_directory(name: str) -> Path | None:
    """Return a directory for temporary files that only this user can access; its path is short enough for sockets."""
    if os.name != "posix":
        return None
    for parent in dict.fromkeys((tempfile.gettempdir(), "/tmp")):
        directory = Path(parent) / f"{name}-{os.getuid()}"
        if len(str(directory)) > _MAX_PATH:
            continue
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            status = directory.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
            return directory
    return None


def renaming_file_manager() -> dict[str, str]:
    """Return the setting that makes Spark rename checkpoint files through Hadoop's ``FileSystem``.

    Spark's default manager starts three programs for each local file (``chmod`` and twice ``readlink``), this one only
    ``chmod``. The class is internal to Spark, so other versions than those with this name keep their default.
    """
    import pyspark

    return {FILE_MANAGER: _RENAMING_MANAGER} if pyspark.__version__.startswith(("4.2.", "4.3.")) else {}
