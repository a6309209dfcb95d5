"""The command line: ``eventide run``, ``inspect``, ``control``, ``explain``, ``doctor``, ``replay``, ``plot`` and more.

Commands are thin: they read what was typed, call the library, and show what it gives. What is heavy (Spark, Polars) is
imported inside of commands, so that ``--help`` and completion are quick.
"""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command that was typed."""
    try:
        _run()
    except KeyboardInterrupt:  # before a command was found that could take it
        sys.stderr.write("Interrupted.\n")
        raise SystemExit(130) from None
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is said: a second Ctrl-C must not change the exit code


def _run() -> None:
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:  # pragma: no cover - the extra is installed wherever tests run
        from eventide.errors import cli as errors

        raise SystemExit(str(errors.no_typer())) from None
    from eventide.cli.app import app

    app(prog_name="eventide")
