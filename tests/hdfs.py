"""An HDFS for tests: jars from Maven Central, a temporary directory, and nothing left of it afterwards."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from eventide.spark.java import find_java
from tests.kafka import fetch
from tests.services import UnavailableError

_START = 60  # seconds until the cluster is active


@contextmanager
def hdfs() -> Iterator[str]:
    """Run a name node and a data node in one process; gives the address of the file system."""
    place = fetch("hdfs", f"hdfs {_version()}", hadoop=_version())
    home = Path(tempfile.mkdtemp())
    try:
        options = ["-Xmx512m", f"-Dtest.build.data={home}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        words = ["-format", "-datanodes", "1", "-nnport", "0", "-writeConfig", str(home / "conf.xml")]
        java = str(find_java().home / "bin" / "java")
        command = [java, *options, "-cp", f"{place}/*", "org.apache.hadoop.test.MiniDFSClusterManager", *words]
        with (home / "log").open("wb") as log:
            running = subprocess.Popen(command, stdout=log, stderr=log, cwd=home)
        try:
            yield _address(running, home)
        finally:
            running.kill()  # what it has is thrown away
            running.wait()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _version() -> str:
    """The version of Hadoop that Spark brings."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


def _address(running: subprocess.Popen[bytes], home: Path) -> str:
    end = time.monotonic() + _START
    while time.monotonic() < end and running.poll() is None:
        settings = home / "conf.xml"
        text = settings.read_text() if settings.is_file() else ""
        address = re.search(r"<name>fs.defaultFS</name><value>(hdfs://[^<]*)<", text)
        if address is not None:
            return address[1]
        time.sleep(0.05)
    raise UnavailableError(f"HDFS did not start: {(home / 'log').read_text(errors='replace')[-1000:]}")
