"""Ctrl-C and SIGTERM while Spark starts: the program ends at once, and its Java with it."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eventide.cli.shutdown import managed_java

JOB = """
import eventide as ev
pipeline = ev.stream(time='ts', watermark=ev.bounded_delay('30s')).window(ev.tumbling('1 minute')).agg(n=ev.count())
"""
# Stands in for a Java that never comes up. Like Spark's own it ignores Ctrl-C, and its output is that of the program.
JAVA = "#!/bin/sh\necho here is $$\nexec sleep 600\n"


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    script = tmp_path / "spark" / "bin" / "spark-submit"
    script.parent.mkdir(parents=True)
    script.write_text(JAVA, encoding="utf-8")
    script.chmod(0o755)
    return {**os.environ, "SPARK_HOME": str(tmp_path / "spark")}


def begun(words: list[str], surroundings: dict[str, str]) -> tuple[subprocess.Popen[str], int]:
    """A program whose Java has just been started, and the number of that process."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    program = subprocess.Popen([sys.executable, "-m", "eventide", *words], env=surroundings, **options)  # type: ignore[call-overload]
    assert program.stdout is not None
    return program, int(program.stdout.readline().split()[-1])


def ended(program: subprocess.Popen[str], java: int) -> tuple[int, str]:
    """How it ended. The output is open for as long as a Java is left that holds it."""
    try:
        _, output = program.communicate(timeout=8)
    finally:
        for number in (program.pid, java):
            if Path(f"/proc/{number}").exists():
                os.kill(number, signal.SIGKILL)
    return program.returncode, output


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
@pytest.mark.parametrize("to", ["the program", pytest.param("its group", marks=pytest.mark.long)])
def test_a_signal_while_spark_starts_ends_java_too(
    tmp_path: Path, surroundings: dict[str, str], number: signal.Signals, to: str
) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB, encoding="utf-8")
    program, java = begun(["run", str(job), "rate:1", "--sink", "noop"], surroundings)
    (os.killpg if to == "its group" else os.kill)(program.pid, number)
    code, output = ended(program, java)
    assert code == 130
    assert output.endswith("Interrupted.\n") and "Traceback" not in output


def test_doctor_leaves_no_java_behind(surroundings: dict[str, str]) -> None:
    program, java = begun(["doctor", "--start"], surroundings)
    os.killpg(program.pid, signal.SIGINT)
    assert ended(program, java)[0] == 130


def test_a_signal_while_the_program_itself_is_imported_is_an_interrupt() -> None:
    code = "import os, signal, sys\n"
    code += "class Finder:\n    def find_spec(self, name, *rest):\n"
    code += "        if name == 'eventide.cli.app': os.kill(os.getpid(), signal.SIGINT)\n"
    code += "sys.meta_path.insert(0, Finder())\nfrom eventide.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "Interrupted.\n")


@pytest.mark.parametrize(("path", "heard"), [("/lib/py4j/java_gateway.py", False), ("/home/me/job.py", True)])
def test_a_talk_with_java_that_was_cut_off_is_not_logged(
    caplog: pytest.LogCaptureFixture, path: str, heard: bool
) -> None:
    record = logging.LogRecord("root", logging.ERROR, path, 1, "KeyboardInterrupt while sending command.", None, None)
    with managed_java():
        logging.root.handle(record)
    assert (record in caplog.records) is heard


def test_who_breaks_off_ends_java_in_its_own_group() -> None:
    with pytest.raises(KeyboardInterrupt), managed_java() as java:
        process = java.start(["sleep", "600"])
        raise KeyboardInterrupt
    assert process.returncode == -signal.SIGTERM
