"""A Kafka broker and a PostgreSQL server for the demonstration, in temporary directories. Production has its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

from eventide.spark.java import use_java

JARS = Path(__file__).parent / "build"
POM = Path(__file__).parent / "pom.xml"
BROKER = "4.3.1"
START = 60  # seconds
DOWNLOAD = 400  # seconds

# The connector has the version of Spark. A mirror of Maven Central may not have it, or only a part of it.
CONNECTORS = ((pyspark.__version__, pyspark.__version__), ("4.2.0", "4.0.0"))

NO_POSTGRES = "No PostgreSQL on this machine: run 'apt-get install postgresql', or name a server with --postgres URL."
NO_KAFKA = (
    "No Kafka on this machine: set KAFKA_HOME to an unpacked Kafka 4, run 'apt-get install maven' to download one, "
    "or name a broker with --kafka HOST:PORT."
)
NO_CONNECTOR = (
    "No Kafka connector for Spark: run 'apt-get install maven' to download it, or put its jars into the directory {}."
)


@contextmanager
def postgres() -> Iterator[str]:
    """Run a server that listens on a Unix socket, and return its URL."""
    on_path = shutil.which("pg_ctl")
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if not on_path and not installed:
        raise SystemExit(NO_POSTGRES)
    control = on_path or str(installed[-1])
    # PostgreSQL refuses to run as root.
    owner = "postgres" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="example-postgres-") as home:
        if owner:
            shutil.chown(home, owner)
        place = ["-s", "-D", f"{home}/data"]
        settings = f"-k {home} -c listen_addresses='' -c fsync=off"
        initialize = [control, "initdb", *place, "-o", "-U example -A trust -E UTF8 --no-locale"]
        begin = [control, "start", *place, "-w", "-l", f"{home}/log", "-o", settings]
        for command in (initialize, begin):
            subprocess.run(command, user=owner, cwd="/", check=True, stdout=subprocess.DEVNULL)
        try:
            yield f"postgresql:///postgres?host={home}&user=example"
        finally:
            subprocess.run([control, "stop", *place, "-m", "immediate"], user=owner, cwd="/", check=True)


@contextmanager
def kafka(jars: Path = JARS) -> Iterator[str]:
    """Run a broker that is its own controller, and return its address. New topics have three partitions."""
    classes = _broker_classes(jars)
    with tempfile.TemporaryDirectory(prefix="example-kafka-", ignore_cleanup_errors=True) as home:
        port, controller = _free_port(), _free_port()
        settings = Path(home, "server.properties")
        settings.write_text(
            f"""
            process.roles=broker,controller
            node.id=1
            controller.quorum.voters=1@127.0.0.1:{controller}
            controller.listener.names=CONTROLLER
            listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
            advertised.listeners=PLAINTEXT://127.0.0.1:{port}
            log.dirs={home}/data
            num.partitions=3
            offsets.topic.replication.factor=1
            """,
            encoding="utf-8",
        )
        java = [str(use_java().home / "bin" / "java"), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classes]
        identity = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        log = Path(home, "log")
        with log.open("wb") as output:
            command = [*java, "kafka.tools.StorageTool", "format", "-t", identity, "-c", str(settings)]
            subprocess.run(command, stdout=output, stderr=output, check=True, timeout=START)
            broker = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=output, stderr=output)
        try:
            _await_port(port, broker, log)
            yield f"127.0.0.1:{port}"
        finally:
            broker.kill()
            broker.wait()


def connector(jars: Path = JARS) -> str:
    """Return the paths of the jars of Spark's Kafka connector, for ``spark.jars``."""
    downloaded = (next(jars.glob(f"connector-{version}*"), None) for version, _ in CONNECTORS)
    place = next(filter(None, downloaded), None)
    for version, tokens in CONNECTORS:
        if place is None:
            versions = [f"-Dversion={version}", f"-Dtokens={tokens}"]
            place = _download("connector", jars / f"connector-{version}", versions)
    if place is None:
        raise SystemExit(NO_CONNECTOR.format(jars / f"connector-{pyspark.__version__}"))
    # Spark has the other dependencies already.
    names = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
    return ",".join(str(jar) for jar in sorted(place.glob("*.jar")) if jar.name.startswith(names))


def _broker_classes(jars: Path) -> str:
    if "KAFKA_HOME" in os.environ:
        return f"{os.environ['KAFKA_HOME']}/libs/*"
    place = jars / f"broker-{BROKER}"
    if not place.is_dir() and _download("broker", place, [f"-Dversion={BROKER}"]) is None:
        raise SystemExit(NO_KAFKA)
    return f"{place}/*"


def _download(profile: str, place: Path, versions: Sequence[str]) -> Path | None:
    """Copy the jars of a profile of pom.xml into a directory. None: there is no Maven, or it does not find them."""
    maven = shutil.which("mvn")
    if maven is None:
        return None
    place.parent.mkdir(parents=True, exist_ok=True)
    print(f"Downloading jars into {place} …", flush=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as unfinished:
        # In a repository of its own: parts of artifacts in ~/.m2 would break `spark.jars.packages`.
        options = ["-B", "-q", "-f", str(POM), "-P", profile, f"-Dmaven.repo.local={place.parent / 'repository'}"]
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={unfinished}/jars"]
        command = [maven, *options, *goal, *versions]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DOWNLOAD)
        if done.returncode:
            return None
        return Path(unfinished, "jars").rename(place)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_port(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit(f"The Kafka broker did not start: {log.read_text(errors='replace')[-500:]}")
