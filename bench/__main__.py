"""``python -m bench [NAME …]``: one line of JSON per benchmark; without a name all of them, and a table."""

from __future__ import annotations

import json
import subprocess
import sys

from bench import local

BENCHMARKS = {run.__name__: run for run in local.ALL}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"There is no benchmark {unknown[0]!r}. There are: {', '.join(BENCHMARKS)}.", file=sys.stderr)
        return 2
    if len(names) == 1:
        print(BENCHMARKS[names[0]]().json(), flush=True)
        return 0
    # Each in a process of its own, so that peaks of memory and warm caches are its own too.
    lines = [line for name in names or BENCHMARKS if (line := _apart(name)) is not None]
    print(_table([json.loads(line) for line in lines]))
    return 0 if len(lines) == len(names or BENCHMARKS) else 1


def _apart(name: str) -> str | None:
    done = subprocess.run([sys.executable, "-m", "bench", name], check=False, stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="", flush=True)
    return done.stdout if done.returncode == 0 else None


def _table(results: list[dict[str, object]]) -> str:
    """Markdown, as it stands in ``bench/README.md``."""
    rows = [
        f"| `{r['name']}` | {r['eventide']:,} | {r['peer']:,} ({r['peer_name']}) | {r['unit']} "
        f"| {r['ratio']} | {local.TARGETS[str(r['name'])]} | {r['peak_rss_mb']:,} | {'yes' if r['equal'] else 'NO'} |"
        for r in results
    ]
    head = "| benchmark | Eventide | peer | unit | ratio | aim | peak MB | results equal |"
    return "\n".join(["", head, "|---|---|---|---|---|---|---|---|", *rows])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
