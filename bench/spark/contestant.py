"""Contestants in processes of their own, which take turns: none warms up or disturbs another's JVM."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

Answer = dict[str, Any]
_MARK = "answer: "  # Spark and Java print to stdout as well


class ContestantProcess:
    """A process that runs ``python -m MODULE ARGUMENT …`` and answers requests, one line each."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", module, *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> ContestantProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()  # the end of requests ends the process
        self._process.wait()

    def ask(self, **request: Any) -> Answer:
        """Send a request and wait for its answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(_MARK):
                return dict(json.loads(line.removeprefix(_MARK)))
        raise RuntimeError(f"{self._process.args!r} ended with {self._process.wait()} instead of an answer.")


def answer_requests(answer: Callable[..., Answer]) -> None:
    """Answer the requests of ``ContestantProcess.ask`` until there are no more."""
    for line in sys.stdin:
        print(_MARK + json.dumps(answer(**json.loads(line))), flush=True)
