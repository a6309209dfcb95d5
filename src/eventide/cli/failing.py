"""What goes wrong, told in a sentence; and the exit code, which says whose turn it is.

0: all is well. 1: the query failed, or what was compared differs. 2: the command, the job or the settings are wrong.
130: interrupted. 141: nobody reads what is printed.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from eventide.cli.unheard import UNHEARD, hush, unread
from eventide.errors import EventideError
from eventide.errors import cli as errors

FAILED, MISTAKE, INTERRUPTED = 1, 2, 130
_OURS = (typer.Exit, typer.Abort, TyperException)  # typer tells of these itself
_MISTAKES = frozenset({"AnalysisException", "ParseException", "IllegalArgumentException"})  # of Spark's errors
_STACK = re.compile(r"\n\s*at |\n=== |\nJVM stacktrace|\n\s*== SQL|;\n'|\n\s*SQLSTATE|\nDriver stacktrace")
_TRACE = "Traceback (most recent call last):\n"
_FRAME = re.compile(r'(  File "[^"]+", line \d+.*\n(?:    .*\n?)*)')
_FRAME_FILE = re.compile(r'  File "([^"]+)"')
_FOREIGN = (str(Path(__file__).parents[1]), str(Path(re.__file__).parents[1]), "<frozen")  # ours, and Python's own
_MARKERS = re.compile(r"^    [ ~^]+\n", re.MULTILINE)
_CALLING = re.compile(r"^An error occurred while calling [\w.]+\.\s+: [\w.$]+: ")
_LONGEST = 2_000

_traces = False
_log: Path | None = None


def show_traces(wanted: bool) -> None:
    """Whether stack traces are shown."""
    global _traces
    _traces = wanted


def traces() -> bool:
    """Whether stack traces are shown."""
    return _traces


def spark_log() -> Path:
    """The file for what Spark and its workers say; it goes with this process, unless something has failed."""
    global _log
    if _log is None:
        handle, name = tempfile.mkstemp(prefix="eventide-spark-", suffix=".log")
        os.close(handle)
        _log = Path(name)
        atexit.register(_forget_log)
    return _log


def _forget_log() -> None:
    if _log is not None:
        _log.unlink(missing_ok=True)


class Commands(TyperGroup):
    """The commands. No stack trace for a mistake, unless ``--debug`` stands somewhere in the line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take ``--debug`` wherever it stands: after an error it is mostly added at the end."""
        end = args.index("--") if "--" in args else len(args)
        own = [word for word in args[:end] if word != "--debug"]
        return super().parse_args(ctx, ["--debug"] * (len(own) < end) + own + args[end:])

    def invoke(self, ctx: Any) -> Any:
        """Run a command, and tell what went wrong."""
        try:
            return super().invoke(ctx)
        except _OURS:
            raise
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError as cause:
            if not unread():
                raise failed(cause) from None
            hush()
            raise typer.Exit(UNHEARD) from None
        except Exception as cause:
            raise failed(cause) from None


def failed(cause: Exception, code: int | None = None) -> typer.Exit:
    """Tell what went wrong, and give the end of the program to raise."""
    if _traces:
        traceback.print_exception(cause, file=sys.stderr)
    else:
        typer.echo(f"Error: {told(cause)}", err=True)
        _keep_log(cause)
    if code is not None:
        return typer.Exit(code)
    return typer.Exit(MISTAKE if _is_mistake(cause) else FAILED)


def _is_mistake(cause: Exception) -> bool:
    if isinstance(cause, OSError):  # a file that was named; and not a full disk, or a line that is cut
        return cause.filename is not None
    return isinstance(cause, EventideError | ImportError) or type(cause).__name__ in _MISTAKES


def _keep_log(cause: Exception) -> None:
    """Name the log where Spark has failed: it may say more."""
    global _log
    if _log is not None and type(cause).__module__.startswith(("pyspark", "py4j")) and _log.stat().st_size:
        typer.echo(f"Spark's own log: {_log}", err=True)
        atexit.unregister(_forget_log)
        _log = None


def told(cause: Exception) -> str:
    """An error as a user can use it: without stacks, those of Java above all.

    >>> told(FileNotFoundError(2, "No such file or directory", "jobs/shop.py"))
    "'jobs/shop.py': No such file or directory."
    """
    if isinstance(cause, EventideError):
        return str(cause)
    if isinstance(cause, OSError) and cause.strerror and cause.filename:
        return f"{cause.filename!r}: {cause.strerror}."
    text = shortened(str(cause)) or "no message"
    if type(cause).__module__.startswith(("pyspark", "py4j")):
        return str(errors.of_spark(text))
    return str(errors.unexpected(type(cause).__name__, text))


def shortened(text: str) -> str:
    """Without Java's stack; where a function of the user's failed, where that was, and no more."""
    found = _STACK.search(text)
    ours = _CALLING.sub("", text if found is None else text[: found.start()])
    _, trace, ours = ours.rpartition(_TRACE)
    return (_own_frames(ours) if trace else ours)[:_LONGEST].strip()


def _own_frames(trace: str) -> str:
    """The frames of the user's own files, and the error: those of Python, Spark and Eventide say nothing to a user."""
    return "".join("" if _foreign(part) else _MARKERS.sub("", part) for part in _FRAME.split(trace))


def _foreign(part: str) -> bool:
    named = _FRAME_FILE.match(part)
    return named is not None and (named[1].startswith(_FOREIGN) or "site-packages" in named[1])
