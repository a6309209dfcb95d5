"""``python -m bench [NAME …]``: one line of JSON per benchmark; without a name all of them, and a table."""

from __future__ import annotations

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
    codes = [
        subprocess.run([sys.executable, "-m", "bench", name], check=False).returncode for name in names or BENCHMARKS
    ]
    return max(codes, default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
