"""The command line: ``eventide run``, ``inspect``, ``drain``, ``explain``, ``doctor``, ``replay``, ``plot`` and more.

Commands are thin: they parse arguments, call the library, and show the result. Heavy packages (Spark, Polars) are
imported inside commands, so that ``--help`` and completion are quick.
"""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        _run()
    except KeyboardInterrupt:  # before a command could handle it
        sys.stderr.write("Interrupted.\n")
        raise SystemExit(130) from None
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not change the exit code


def _run() -> None:
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:  # pragma: no cover - the extra is installed wherever tests run
        raise SystemExit(
            "The command line needs the packages typer and rich. Install them: pip install 'pyspark-eventide[cli]'"
        ) from None
    from eventide.cli.app import app

    app(prog_name="eventide")
