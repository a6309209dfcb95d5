"""A rescale that is killed: ``python -m tests.spark.rescale_job CHECKPOINT TARGET STEP``.

The process kills itself before step ``STEP`` of the installation, which begins with the journal. It prints "staging"
when it writes the state, for a parent that kills it by the clock. ``TARGET`` is a number of buckets or ``driver``.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import eventide as ev
from eventide.spark.replacement import FOLDER
from eventide.spark.storage import LocalStorage


def kill_before(step: int) -> None:
    """Count the steps of the installation."""
    steps = 0

    def counted(function: Any) -> Any:
        def call(storage: LocalStorage, name: str, *arguments: Any) -> Any:
            nonlocal steps
            journal = name.startswith(FOLDER) and name.endswith(".json")
            if steps or journal:
                steps += 1
                if steps == step:
                    os.killpg(0, signal.SIGKILL)
            return function(storage, name, *arguments)

        return call

    for name in ("create", "replace", "move", "remove"):
        setattr(LocalStorage, name, counted(getattr(LocalStorage, name)))


def show(step: str) -> None:
    if step.startswith("Writing"):
        print("staging", flush=True)


def main(checkpoint: str, target: str, step: int) -> None:
    if step:
        kill_before(step)
    spark = ev.spark_session("rescale", master="local[2]", config={"spark.ui.enabled": "false"})
    if target == "driver":
        ev.rescale(checkpoint, to="driver", spark=spark, on_progress=show)
    else:
        ev.rescale(checkpoint, buckets=int(target), spark=spark, on_progress=show)
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
