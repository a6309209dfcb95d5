"""What a session finds around it: cores, settings from outside the program, a place for sockets."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import stat
import tempfile
from pathlib import Path

_FLAGS = {
    "--master": "spark.master",
    "--driver-memory": "spark.driver.memory",
    "--executor-memory": "spark.executor.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
}


def settings_from_outside() -> dict[str, str]:
    """What was set before the program ran: by spark-submit, in PYSPARK_SUBMIT_ARGS, in spark-defaults.conf."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit started us, and its Java knows
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()
        return dict(SparkConf().getAll())
    settings: dict[str, str] = {}
    defaults = conf_directory() / "spark-defaults.conf"
    for line in defaults.read_text(encoding="utf-8").splitlines() if defaults.is_file() else ():
        found = re.match(r"\s*(spark\.[^\s=:]+)\s*[\s=:]\s*(.*?)\s*$", line)
        if found:
            settings[found[1]] = found[2]
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    for flag, word in itertools.pairwise(words):
        if flag in ("--conf", "-c"):
            name, _, value = word.partition("=")
            settings[name] = value
        elif flag in _FLAGS:
            settings[_FLAGS[flag]] = word
    return settings


def machine_cores() -> int:
    """The cores that this process may use: those of the machine, or fewer in a container.

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


def conf_directory() -> Path:
    """Where Spark looks for its files of settings."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home()) / "conf")


def socket_directory() -> Path | None:
    """A directory of this user's for Unix sockets: they carry no secret, so nobody else may reach them."""
    return own_directory("eventide-sockets")


def own_directory(name: str) -> Path | None:
    """A directory for temporary files that only this user can reach; its path is short enough for sockets."""
    if os.name != "posix":
        return None
    for place in dict.fromkeys((tempfile.gettempdir(), "/tmp")):
        directory = Path(place) / f"{name}-{os.getuid()}"
        if len(str(directory)) > 60:  # a socket's whole path has at most 103 characters, its name takes 42
            continue
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            about = directory.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o077:
            return directory
    return None
