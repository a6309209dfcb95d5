"""Help is quick, complete and with examples; a mistake is reported in a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.typed import typed

CONTROLS = ("drain", "retire", "skip-gap", "advance-watermark", "end")
COMMANDS = ("run", "sql", "explain", "inspect", *CONTROLS, "replay", "plot", "doctor", "demo")
MARKS = ("streams", "create", "writers", "marks", "segments", "scale", "seal", "truncate", "delete")


def python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)


def test_importing_the_command_line_imports_nothing_heavy() -> None:
    heavy = "{'pyspark', 'polars', 'pyarrow', 'pandas', 'numpy', 'rich'}"
    code = f"import sys, eventide.cli.app; print(sorted({{m.split('.')[0] for m in sys.modules}} & {heavy}))"
    assert python("-c", code).stdout == "[]\n"


def test_it_is_a_module_that_python_runs() -> None:
    assert python("-m", "eventide", "--version").stdout.startswith("eventide ")


def test_it_is_a_program_that_pip_installs() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert 'eventide = "eventide.cli:main"' in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command: str) -> None:
    shown = typed(command, "--help")
    assert shown.exit_code == 0
    assert f"eventide {command}" in shown.stdout.split("Example")[1]


def test_kinds_of_addresses_are_listed_once() -> None:
    shown = typed("run", "--help").stdout
    assert shown.count("sqlite:///FILE#TABLE") == 1 and shown.count("kafka:TOPIC@HOST:PORT") == 1


@pytest.mark.parametrize("command", MARKS)
def test_help_of_marks_has_examples(command: str) -> None:
    assert f"eventide marks {command}" in typed("marks", command, "--help").stdout.split("Example")[1]


def test_all_commands_are_listed() -> None:
    shown = typed("--help").stdout
    assert [command for command in (*COMMANDS, "marks") if f"│ {command} " not in shown] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete_commands(shell: str) -> None:
    line = {"COMP_WORDS": "eventide ins", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "eventide ins"}
    environment = {
        **os.environ,
        **line,
        "_EVENTIDE_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    code = "from eventide.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert "inspect" in done.stdout


def test_a_mistake_is_reported_without_a_stack_trace() -> None:
    result = typed("explain", "nowhere.py")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: There is no file 'nowhere.py'.")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("words", [("--debug", "explain", "nowhere.py"), ("explain", "nowhere.py", "--debug")])
def test_with_debug_at_any_position_the_trace_is_shown(words: tuple[str, ...]) -> None:
    result = typed(*words)
    assert result.exit_code == 2
    assert "Traceback" in result.stderr


def test_an_unknown_command_is_a_mistake() -> None:
    assert typed("rnu").exit_code == 2


def test_an_interrupt_has_its_own_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(path: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("eventide.cli.jobs.load", interrupted)
    assert typed("explain", "job.py").exit_code == 130


def test_a_fault_of_ours_is_no_mistake_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: str) -> None:
        raise KeyError("shop")

    monkeypatch.setattr("eventide.cli.jobs.load", broken)
    result = typed("explain", "job.py")
    assert result.exit_code == 1
    assert "KeyError: 'shop'" in result.stderr and "--debug" in result.stderr
