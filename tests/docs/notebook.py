"""The tutorial: run from its first cell to its last, and compared with the output that is stored in it.

``python -m tests.docs.notebook`` runs it and stores real output.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs/tutorial.ipynb"


def stored() -> Any:
    """The notebook as it lies in the repository."""
    return nbformat.read(TUTORIAL, as_version=4)


def executed() -> Any:
    """The notebook after a run of all its cells. A cell that fails raises an error that shows it."""
    notebook = stored()
    client = NotebookClient(notebook, timeout=60, record_timing=False)
    client.create_kernel_manager().transport = "ipc"  # files of this user's, no ports
    # A kernel is a process of its own: it must find this source tree, and not one that is installed.
    client.execute(env=os.environ | {"PYTHONPATH": str(ROOT / "src")})
    return notebook


def shown(cell: Any) -> list[tuple[str, str]]:
    """What a cell shows, as pairs of a kind and a text."""
    observed: list[tuple[str, str]] = []
    for output in cell.get("outputs", ()):
        if output["output_type"] == "stream":
            observed.append((output["name"], output["text"]))
        else:
            observed.extend(sorted(output["data"].items()))
    return observed


if __name__ == "__main__":
    notebook = executed()
    notebook.metadata = stored().metadata  # without the versions of this machine
    nbformat.write(notebook, TUTORIAL)
