"""The command line: ``eventide run``, ``inspect``, ``control``, ``explain``, ``doctor``, ``replay``, ``plot`` and more.

Commands are thin: they read what was typed, call the library, and show what it gives. What is heavy (Spark, Polars) is
imported inside of commands, so that ``--help`` and completion are quick.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command that was typed."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:  # pragma: no cover - the extra is installed wherever tests run
        from eventide.errors import cli as errors

        raise SystemExit(str(errors.no_typer())) from None
    from eventide.cli.app import app

    app(prog_name="eventide")
