"""The Spark that a command runs on, and the options that say which."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from eventide.cli.java import Java, own_java
from eventide.cli.screen import busy, quiet_java
from eventide.errors import cli as errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK = "Spark"
Master = Annotated[
    str | None,
    typer.Option(help="Where Spark runs. Default: this machine, or spark-defaults.conf.", rich_help_panel=_SPARK),
]
Cores = Annotated[int | None, typer.Option(help="Tasks at once, on this machine.", min=1, rich_help_panel=_SPARK)]
Memory = Annotated[str | None, typer.Option(help="What Java may use, such as 4g.", rich_help_panel=_SPARK)]
Conf = Annotated[
    list[str] | None, typer.Option(help="A setting of Spark's, NAME=VALUE; as often as needed.", rich_help_panel=_SPARK)
]

_PATH = "spark.executorEnv.PYTHONPATH"


@contextmanager
def started(
    name: str,
    *,
    master: str | None = None,
    cores: int | None = None,
    memory: str | None = None,
    conf: Sequence[str] | None = None,
    folder: str | None = None,
    quiet: bool = False,
) -> Iterator[SparkSession]:
    """A session for one command. One that runs already is used, and left as it was."""
    config = settings(conf or ())
    if memory is not None and not re.fullmatch(r"[1-9]\d*[kmgt]b?", memory, re.IGNORECASE):
        raise errors.bad_memory(memory)
    if folder is not None:  # so that workers find what the job imports
        config[_PATH] = f"{folder}:{config[_PATH]}" if _PATH in config else folder
    running = _running()
    if running is not None:
        yield running
        return
    with own_java() as java:
        with busy("Starting Spark …", quiet=quiet):
            from eventide.spark.session import spark_session

            with quiet_java():
                spark = spark_session(f"eventide {name}", master=master, cores=cores, memory=memory, config=config)
        try:
            yield spark
        except KeyboardInterrupt:
            raise  # Java is ended; Spark cannot be asked to stop while another question to it is open
        except BaseException:
            _stop(spark, java)
            raise
        _stop(spark, java)


def _stop(spark: SparkSession, java: Java) -> None:
    try:
        spark.stop()
    except Exception:  # it cannot be reached any more: who stops a service ends all of its processes at once
        java.end()


def settings(texts: Sequence[str]) -> dict[str, object]:
    """Settings as they are written on a command line.

    >>> settings(["spark.driver.memory=4g"])
    {'spark.driver.memory': '4g'}
    """
    found: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise errors.bad_setting(text)
        found[name.strip()] = value
    return found


def _running() -> SparkSession | None:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return None
    return SparkSession.getActiveSession() or SparkSession._instantiatedSession
