"""Output, error messages and exit codes: results on stdout, everything else on stderr.

0: success. 1: the query failed, or a comparison differs. 2: the command, the job or the settings are wrong.
130: interrupted. 141: the reader of stdout has closed the pipe.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from eventide._arguments import is_integer
from eventide._familiar_options import COMMAND_OPTIONS, COMMANDS
from eventide.cli.shutdown import CLOSED_PIPE, is_stdout_closed, silence_stdout
from eventide.errors import EventideError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def stdout_console() -> Console:
    """Return the console of results."""
    from rich.console import Console

    class ResultConsole(Console):
        def on_broken_pipe(self) -> None:
            raise  # rich would end the program with code 1

    return ResultConsole(highlight=False, soft_wrap=True)


def stderr_console() -> Console:
    """Return the console of progress and remarks."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


@contextmanager
def busy(text: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show that something takes a while: a spinner on a terminal, a line elsewhere. The function shows another text."""
    console = stderr_console()
    if quiet:
        yield lambda text: None
    elif console.is_terminal:
        with console.status(text) as status:
            yield status.update
    else:
        console.print(text, style="dim")
        yield lambda text: console.print(text, style="dim")


@contextmanager
def quiet_java() -> Iterator[None]:
    """Redirect the log of a Java that starts meanwhile to a file. Exceptions report what matters.

    An error message names the file. With ``--debug`` there is no file, and everything is shown.
    """
    if traces():
        yield
        return
    log = spark_log()
    sys.stderr.flush()
    stderr = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def print_json(value: Any) -> None:
    """Print a line of JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False, default=str))


def table(*columns: str, rows: Sequence[Sequence[Any]], title: str | None = None) -> Table:
    """Return a plain table. Numbers are aligned to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title=title, title_justify="left")
    for place, name in enumerate(columns):
        numbers = all(isinstance(row[place], int | float) for row in rows) and bool(rows)
        shown.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(cell if isinstance(cell, Text) else Text(_cell(cell)) for cell in row))
    return shown


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if is_integer(value) else str(value)


FAILED, MISTAKE, INTERRUPTED = 1, 2, 130
_REPORTED_BY_TYPER = (typer.Exit, typer.Abort, TyperException)
_MISTAKES = frozenset({"AnalysisException", "ParseException", "IllegalArgumentException"})  # errors of Spark
_STACK = re.compile(r"\n\s*at |\n=== |\nJVM stacktrace|\n\s*== SQL|;\n'|\n\s*SQLSTATE|\nDriver stacktrace")
_TRACE = "Traceback (most recent call last):\n"
_FRAME = re.compile(r'(  File "[^"]+", line \d+.*\n(?:    .*\n?)*)')
_FRAME_FILE = re.compile(r'  File "([^"]+)"')
_FOREIGN = (str(Path(__file__).parents[1]), str(Path(re.__file__).parents[1]), "<frozen")  # Eventide and Python
_MARKERS = re.compile(r"^    [ ~^]+\n", re.MULTILINE)
_CALLING = re.compile(r"^An error occurred while calling [\w.]+\.\s+: [\w.$]+: ")
_LONGEST = 2_000

_traces = False
_log: Path | None = None


def show_traces(wanted: bool) -> None:
    """Set whether stack traces are shown."""
    global _traces
    _traces = wanted


def traces() -> bool:
    """Return whether stack traces are shown."""
    return _traces


def spark_log() -> Path:
    """Return the log file of Spark and its workers. It is deleted at exit, unless Spark has failed."""
    global _log
    if _log is None:
        handle, name = tempfile.mkstemp(prefix="eventide-spark-", suffix=".log")
        os.close(handle)
        _log = Path(name)
        atexit.register(_delete_log)
    return _log


def _delete_log() -> None:
    if _log is not None:
        _log.unlink(missing_ok=True)


class CommandGroup(TyperGroup):
    """The commands. They report errors without a stack trace, unless ``--debug`` is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept ``--debug`` anywhere: after an error, users add it at the end."""
        end = args.index("--") if "--" in args else len(args)
        words = [word for word in args[:end] if word != "--debug"]
        return super().parse_args(ctx, ["--debug"] * (len(words) < end) + words + args[end:])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of a name. One of another system has a hint."""
        if args and args[0] in COMMANDS and args[0] not in self.commands:
            ctx.fail(f"No such command {args[0]!r}. Use {COMMANDS[args[0]]}.")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command, and report its error."""
        try:
            return super().invoke(ctx)
        except TyperException as cause:
            _suggest_option(cause)
            raise
        except _REPORTED_BY_TYPER:
            raise
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError as cause:
            if not is_stdout_closed():
                raise exit_with_error(cause) from None
            silence_stdout()
            raise typer.Exit(CLOSED_PIPE) from None
        except Exception as cause:
            raise exit_with_error(cause) from None


def _suggest_option(cause: Any) -> None:
    """Name the option that is meant by one of another system, if the command has it."""
    meant = COMMAND_OPTIONS.get(getattr(cause, "option_name", ""))
    if meant is not None and any(meant in option.opts for option in cause.ctx.command.params):
        cause.possibilities = [meant]


def exit_with_error(cause: Exception, code: int | None = None) -> typer.Exit:
    """Print an error, and return the exit to raise."""
    if _traces:
        traceback.print_exception(cause, file=sys.stderr)
    else:
        typer.echo(f"Error: {error_text(cause)}", err=True)
        _keep_log(cause)
    if code is not None:
        return typer.Exit(code)
    return typer.Exit(MISTAKE if _is_mistake(cause) else FAILED)


def _is_mistake(cause: Exception) -> bool:
    if isinstance(cause, OSError):  # a wrong file name; not a full disk or a lost connection
        return cause.filename is not None
    return isinstance(cause, EventideError | ImportError) or type(cause).__name__ in _MISTAKES


def _keep_log(cause: Exception) -> None:
    """Name the log if Spark has failed, and keep it."""
    global _log
    if _log is not None and type(cause).__module__.startswith(("pyspark", "py4j")) and _log.stat().st_size:
        typer.echo(f"Spark's own log: {_log}", err=True)
        atexit.unregister(_delete_log)
        _log = None


def error_text(cause: Exception) -> str:
    """Return an error as a message, without the stacks of Python and Java.

    >>> error_text(FileNotFoundError(2, "No such file or directory", "jobs/shop.py"))
    "'jobs/shop.py': No such file or directory."
    """
    if isinstance(cause, EventideError):
        return str(cause)
    if isinstance(cause, OSError) and cause.strerror and cause.filename:
        return f"{cause.filename!r}: {cause.strerror}."
    text = without_stack(str(cause)) or "no message"
    if type(cause).__module__.startswith(("pyspark", "py4j")):
        return str(EventideError(f"Spark failed: {text}\nAdd --debug to see all of it."))
    return str(EventideError(f"{type(cause).__name__}: {text}\nAdd --debug to see where it happened."))


def without_stack(text: str) -> str:
    """Return a message of Spark without Java's stack. Of a Python stack only the frames of the user's files stay."""
    stack = _STACK.search(text)
    message = _CALLING.sub("", text if stack is None else text[: stack.start()])
    _, trace, message = message.rpartition(_TRACE)
    return (_user_frames(message) if trace else message)[:_LONGEST].strip()


def _user_frames(trace: str) -> str:
    """Return the frames of the user's files, and the error. Frames of Python, Spark and Eventide are left out."""
    return "".join("" if _is_foreign(part) else _MARKERS.sub("", part) for part in _FRAME.split(trace))


def _is_foreign(part: str) -> bool:
    file = _FRAME_FILE.match(part)
    return file is not None and (file[1].startswith(_FOREIGN) or "site-packages" in file[1])
