"""The Spark session of a command, its options, and the check of a checkpoint before Spark starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eventide.cli.shutdown import JavaProcesses, managed_java
from eventide.cli.terminal import busy, quiet_java
from eventide.errors import PlanError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SPARK = "Spark"
Master = Annotated[
    str | None,
    typer.Option(help="The master of Spark. Default: this machine, or spark-defaults.conf.", rich_help_panel=_SPARK),
]
Cores = Annotated[int | None, typer.Option(help="Parallel tasks on this machine.", min=1, rich_help_panel=_SPARK)]
Memory = Annotated[str | None, typer.Option(help="Memory of Java, such as 4g.", rich_help_panel=_SPARK)]
Conf = Annotated[
    list[str] | None, typer.Option(help="A Spark setting, NAME=VALUE. Repeatable.", rich_help_panel=_SPARK)
]

_PATH = "spark.executorEnv.PYTHONPATH"


def check_checkpoint(checkpoint: str) -> None:
    """Reject a directory on this machine that is not the checkpoint of a query. Others are checked by Spark."""
    from eventide._paths import on_disk

    local = on_disk(checkpoint)
    if local is not None and not (Path(local) / "eventide").is_dir():
        raise no_checkpoint(checkpoint)


def no_checkpoint(path: str) -> PlanError:
    """Return the error for a directory that is not a checkpoint."""
    return PlanError(
        f"{path!r} is not the checkpoint of an Eventide query: it has no directory eventide/control. Name the "
        "directory that was passed as checkpoint= or --checkpoint."
    )


@contextmanager
def open_session(
    name: str,
    *,
    master: str | None = None,
    cores: int | None = None,
    memory: str | None = None,
    conf: Sequence[str] | None = None,
    folder: str | None = None,
    quiet: bool = False,
) -> Iterator[SparkSession]:
    """Open a session for one command. A session that runs already is used, and stays open."""
    config = settings(conf or ())
    if memory is not None and not re.fullmatch(r"[1-9]\d*[kmgt]b?", memory, re.IGNORECASE):
        raise PlanError(f"--memory {memory!r}: write a number and its unit, such as 4g or 512m.")
    if folder is not None:  # so that workers can import the modules of the job
        config[_PATH] = f"{folder}:{config[_PATH]}" if _PATH in config else folder
    running = _running()
    if running is not None:
        yield running
        return
    with managed_java() as java:
        with busy("Starting Spark …", quiet=quiet):
            from eventide.spark.session import spark_session

            with quiet_java():
                spark = spark_session(f"eventide {name}", master=master, cores=cores, memory=memory, config=config)
        try:
            yield spark
        except KeyboardInterrupt:
            raise  # Java is ended: Spark cannot stop while another call to it is open
        except BaseException:
            _stop(spark, java)
            raise
        _stop(spark, java)


def session_for(
    checkpoint: str, name: str, *, conf: Sequence[str] | None
) -> AbstractContextManager[SparkSession | None]:
    """Return a session that reaches a checkpoint. A checkpoint on this machine needs none."""
    from eventide._paths import on_disk

    return nullcontext() if on_disk(checkpoint) is not None else open_session(name, conf=conf)


def _stop(spark: SparkSession, java: JavaProcesses) -> None:
    try:
        spark.stop()
    except Exception:  # unreachable: a service manager may end all processes at once
        java.end()


def settings(texts: Sequence[str]) -> dict[str, object]:
    """Return settings from NAME=VALUE texts.

    >>> settings(["spark.driver.memory=4g"])
    {'spark.driver.memory': '4g'}
    """
    values: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise PlanError(f"--conf {text!r}: write NAME=VALUE, such as --conf spark.driver.memory=4g.")
        values[name.strip()] = value
    return values


def _running() -> SparkSession | None:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return None
    return SparkSession.getActiveSession() or SparkSession._instantiatedSession
