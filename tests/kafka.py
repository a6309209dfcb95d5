"""A Kafka broker of one's own: jars from Maven Central, a temporary directory, and nothing left of it afterwards."""

from __future__ import annotations

import base64
import fcntl
import re
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from eventide.spark.java import find_java
from tests.services import UnavailableError

ROOT = Path(__file__).parents[1]
JARS = ROOT / "build" / "kafka"  # `make clean` lets them be fetched again
BROKER = "4.3.1"  # needs Java 17, as Spark does
_START = 60  # seconds until a broker listens
_FETCH = 400  # seconds for Maven


@dataclass(frozen=True)
class Connector:
    """The jars of Spark's Kafka source and sink, and which they are."""

    version: str
    tokens: str  # the version of its part for delegation tokens
    jars: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.version if self.tokens == self.version else f"{self.version} with token provider {self.tokens}"


# Copies of Maven Central can be behind, and not have the connector of this Spark, or only a part of it.
STAND_IN = Connector("4.2.0", "4.0.0")


@dataclass(frozen=True)
class Broker:
    """A broker that runs."""

    servers: str
    java: str
    classes: str

    def create(self, topic: str, *, partitions: int) -> None:
        """A new topic."""
        words = ["--create", "--topic", topic, "--partitions", str(partitions)]
        self._said(self._tool("TopicCommand", *words))

    def read(self, *topics: str) -> list[list[str]]:
        """The values of all messages of each topic, by consumers that are not Spark's."""
        words = ["--from-beginning", "--timeout-ms", "3000"]
        readers = [self._tool("consumer.ConsoleConsumer", "--topic", topic, *words) for topic in topics]
        return [self._said(reader).splitlines() for reader in readers]

    def _tool(self, name: str, *words: str) -> subprocess.Popen[str]:
        program = [self.java, *_QUICK, "-cp", self.classes, f"org.apache.kafka.tools.{name}"]
        command = [*program, "--bootstrap-server", self.servers, *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def _said(self, tool: subprocess.Popen[str]) -> str:
        out, errors = tool.communicate(timeout=60)
        # A consumer whose time is up has read all there is, and says so as an error.
        if tool.returncode and "TimeoutException" not in errors:
            raise AssertionError(f"A tool of Kafka's failed: {(out + errors)[-1000:]}")
        return out


_QUICK = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")


@contextmanager
def broker() -> Iterator[Broker]:
    """One broker that is its own controller, on a free port of this machine."""
    fetched = fetch("kafka-broker", f"broker {BROKER}", kafka=BROKER)
    java = str(find_java().home / "bin" / "java")
    classes = f"{fetched}/*"
    home = Path(tempfile.mkdtemp(prefix="eventide-kafka-"))
    try:
        port = _free_port()
        settings = home / "server.properties"
        settings.write_text(_settings(home, port, _free_port()), encoding="utf-8")
        name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = [java, *_QUICK, "-cp", classes]
        with (home / "log").open("wb") as log:
            formatted = [*tool, "kafka.tools.StorageTool", "format", "-t", name, "-c", str(settings)]
            subprocess.run(formatted, stdout=log, stderr=log, check=False, timeout=_START)
            running = subprocess.Popen([*tool, "kafka.Kafka", str(settings)], stdout=log, stderr=log)
        try:
            _wait(running, port, home / "log")
            yield Broker(f"127.0.0.1:{port}", java, classes)
        finally:
            running.kill()  # what it has is thrown away
            running.wait()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def connector() -> Connector:
    """That of the installed Spark; where Maven does not find it, one that stands in."""
    exact = Connector(pyspark.__version__, pyspark.__version__)
    if not _fetched(f"connector {STAND_IN}"):
        try:
            return _with_jars(exact)
        except UnavailableError:
            pass  # the reason of the last attempt is reported
    return _with_jars(STAND_IN)


def _with_jars(wanted: Connector) -> Connector:
    place = fetch("kafka-connector", f"connector {wanted}", connector=wanted.version, tokens=wanted.tokens)
    shipped = {_artifact(jar) for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    jars = sorted(str(jar) for jar in place.glob("*.jar") if _artifact(jar) not in shipped)
    return Connector(wanted.version, wanted.tokens, tuple(jars))


def fetch(pom: str, name: str, **versions: str) -> Path:
    """A directory with the jars of a pom in tests/jars, fetched once."""
    place = JARS / name.replace(" ", "-")
    if _fetched(name):
        return place
    maven = shutil.which("mvn")
    if maven is None:
        reason = "The jars are fetched by Maven, and there is no mvn: apt-get install maven"
        raise UnavailableError(reason, needs="maven")
    JARS.mkdir(parents=True, exist_ok=True)
    with _exclusive():
        if not _fetched(name):
            _copy_jars(maven, pom, name, place, versions)
    return place


@contextmanager
def _exclusive() -> Iterator[None]:
    """Test processes share the jars and Maven's repository: one of them fetches, the others wait for it."""
    with (JARS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _copy_jars(maven: str, pom: str, name: str, place: Path, versions: dict[str, str]) -> None:
    unfinished = Path(tempfile.mkdtemp(dir=JARS))
    try:
        properties = [f"-D{key}={value}" for key, value in versions.items()]
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={unfinished}"]
        # Not into the user's repository: poms without their jars there would break `spark.jars.packages`.
        quiet = ["-B", "-q", "-Dstyle.color=never", f"-Dmaven.repo.local={JARS / 'repository'}"]
        _maven([maven, *quiet, "-f", str(ROOT / "tests" / "jars" / f"{pom}.xml"), *goal, *properties], name)
        unfinished.rename(place)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _maven(command: Sequence[str], name: str) -> None:
    """Twice if need be: of some hundred files, one may not come at once."""
    for _ in range(2):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_FETCH)
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"Maven did not fetch the jars of {name} in {_FETCH} seconds") from None
        if not done.returncode:
            return
    reason = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr)
    raise UnavailableError(f"Maven did not fetch the jars of {name}: {reason[:500]}")


def _fetched(name: str) -> bool:
    return (JARS / name.replace(" ", "-")).is_dir()


def _artifact(jar: Path) -> str:
    return re.sub(r"-\d[^-]*(-[^-]*)?\.jar$", "", jar.name)


def _settings(home: Path, port: int, controller: int) -> str:
    return f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={home}/data
num.partitions=3
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
"""


def _wait(running: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _START
    while time.monotonic() < end and running.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise UnavailableError(f"The Kafka broker did not start: {log.read_text(errors='replace')[-1000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number
