"""Change the core at random places, one at a time, and print how many of the changes the tests notice.

``.ci/mutants.py COSMIC_RAY``, with the path of the program. ``EVENTIDE_MUTANTS`` is the number of changes, and
``EVENTIDE_SEED`` chooses which. The changes are made in a copy of the source.
"""

from __future__ import annotations

import ast
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from random import Random

PACKAGES = ("windows", "watermarks", "triggers", "operators")
TESTS = (*PACKAGES, "transcripts", "oracle")
CONFIGURATION = """
[cosmic-ray]
module-path = [{modules}]
timeout = {timeout}
excluded-modules = []
test-command = "{command}"
[cosmic-ray.distributor]
name = "local"
"""


def main(cosmic_ray: str, count: int, seed: str) -> int:
    """Return 1 where the tests fail without any change."""
    with tempfile.TemporaryDirectory(prefix="eventide-mutants-") as name:
        copy = Path(name)
        for part in ("src", "tests"):
            shutil.copytree(part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy("pyproject.toml", copy)
        tests = " ".join(f"tests/{folder}" for folder in TESTS)
        command = f"{sys.executable} -m pytest -x -q -p no:cacheprovider -m 'not long' {tests}"
        os.environ.setdefault("EVENTIDE_HISTORIES", "40")  # nearly all changes are noticed by the first histories
        start = time.monotonic()
        if subprocess.run(command, shell=True, cwd=copy, stdout=subprocess.DEVNULL, check=False).returncode:
            print("The tests fail without any change.", file=sys.stderr)
            return 1
        seconds = time.monotonic() - start
        print(f"The tests pass in {seconds:.0f} s without any change.", flush=True)
        modules = ", ".join(f'"src/eventide/{package}"' for package in PACKAGES)
        text = CONFIGURATION.format(modules=modules, timeout=30 + 2 * seconds, command=command)
        (copy / "mutants.toml").write_text(text)
        subprocess.run([cosmic_ray, "init", "mutants.toml", "session.sqlite"], cwd=copy, check=True)
        with sqlite3.connect(copy / "session.sqlite") as session:
            choose(session, copy, count, seed)
        subprocess.run([cosmic_ray, "exec", "mutants.toml", "session.sqlite"], cwd=copy, check=True)
        with sqlite3.connect(copy / "session.sqlite") as session:
            report(session)
    return 0


def choose(session: sqlite3.Connection, copy: Path, count: int, seed: str) -> None:
    """Keep one change at each of ``count`` places, none of them in an annotation."""
    places: dict[tuple[str, int, int], list[str]] = defaultdict(list)
    annotated = {str(path.relative_to(copy)): annotations(path) for path in copy.glob("src/eventide/**/*.py")}
    query = """
        SELECT job_id, module_path, start_pos_row, start_pos_col FROM mutation_specs
        ORDER BY module_path, start_pos_row, start_pos_col, operator_name, operator_args, occurrence
    """
    for job, module, row, column in session.execute(query):
        if not any(first <= (row, column) < last for first, last in annotated[module]):
            places[module, row, column].append(job)
    rng = Random(seed)
    chosen = [(rng.choice(places[place]),) for place in rng.sample(sorted(places), min(count, len(places)))]
    session.execute("CREATE TEMP TABLE chosen (job_id VARCHAR)")
    session.executemany("INSERT INTO chosen VALUES (?)", chosen)
    for table in ("mutation_specs", "work_items"):
        session.execute(f"DELETE FROM {table} WHERE job_id NOT IN (SELECT job_id FROM chosen)")
    print(f"{len(chosen)} of {len(places)} places are changed.", flush=True)


def annotations(path: Path) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where annotations begin and end: they are never evaluated, so a change there changes nothing."""
    nodes = ast.walk(ast.parse(path.read_text()))
    parts = [getattr(node, name, None) for node in nodes for name in ("annotation", "returns")]
    return [
        ((part.lineno, part.col_offset), (part.end_lineno or 0, part.end_col_offset or 0))
        for part in parts
        if isinstance(part, ast.expr)
    ]


def report(session: sqlite3.Connection) -> None:
    """Print the changes that no test noticed, and the score."""
    query = "SELECT test_outcome, diff FROM work_results JOIN mutation_specs USING (job_id) ORDER BY module_path"
    results = session.execute(query).fetchall()
    survived = [diff for outcome, diff in results if outcome.upper() == "SURVIVED"]
    for diff in survived:
        print(f"\nNo test notices:\n{diff}")
    noticed = len(results) - len(survived)
    print(f"\nThe tests notice {noticed} of {len(results)} changes: {100 * noticed / max(len(results), 1):.0f} %.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(os.environ.get("EVENTIDE_MUTANTS", "40")), os.environ.get("EVENTIDE_SEED", "0")))
