"""``python -m bench [NAME …]``: one line of JSON per benchmark; without a name all of them, and a table.

``python -m bench simulation`` counts the progress of a cluster instead (``bench/simulation.py``), and
``python -m bench page`` opens the dashboard in a browser (``bench/page.py``).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence

from bench import aggregates, driver, local, marks_log, marks_merge, page, simulation, spark, stores
from bench.measure import Line

Run = Callable[[Sequence[str]], list[Line]]


def _alone(run: Callable[[], Line]) -> Run:
    return lambda names: [run()]


_MODULES = (local, driver, aggregates, stores, marks_log, marks_merge)
BENCHMARKS: dict[str, Run] = {run.__name__: _alone(run) for module in _MODULES for run in module.ALL} | spark.BENCHMARKS
TARGETS: dict[str, str] = {name: aim for module in (*_MODULES, spark) for name, aim in module.TARGETS.items()}


def main(names: list[str]) -> int:
    if names[:1] == ["simulation"]:
        return simulation.main(names[1:])
    if names[:1] == ["page"]:
        return page.main(names[1:])
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"There is no benchmark {unknown[0]!r}. There are: {', '.join(BENCHMARKS)}.", file=sys.stderr)
        return 2
    # Names with the same run share the runs of their peer.
    groups: dict[Run, list[str]] = {}
    for name in names or BENCHMARKS:
        groups.setdefault(BENCHMARKS[name], []).append(name)
    if len(groups) == 1:
        for run, group in groups.items():
            for line in run(group):
                print(line.json(), flush=True)
        return 0
    # Each group in a process of its own, so that peaks of memory and warm caches are its own too.
    lines = [line for group in groups.values() for line in _apart(group)]
    print(_table([json.loads(line) for line in lines]))
    return 0 if len(lines) == len(names or BENCHMARKS) else 1


def _apart(names: list[str]) -> list[str]:
    done = subprocess.run([sys.executable, "-m", "bench", *names], check=False, stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="", flush=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


def _table(results: list[dict[str, object]]) -> str:
    """Markdown, as it stands in ``bench/README.md``."""
    rows = [
        f"| `{r['name']}` | {r['eventide']:,} | {r['peer']:,} ({r['peer_name']}) | {r['unit']} "
        f"| {r['ratio']} | {TARGETS[str(r['name'])]} | {r['peak_rss_mb']:,} | {'yes' if r['equal'] else 'NO'} |"
        for r in results
    ]
    head = "| benchmark | Eventide | peer | unit | ratio | aim | peak MB | results equal |"
    return "\n".join(["", head, "|---|---|---|---|---|---|---|---|", *rows])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
