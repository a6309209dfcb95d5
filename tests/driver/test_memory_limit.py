"""The memory of state follows what the control groups of this process allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventide.spark.memory_limit import group_limits

LIMITS = {
    "memory.max": "9000",  # the root of a container has a limit
    "service/memory.max": "2000",
    "service/job/memory.max": "max",
    "memory/memory.limit_in_bytes": "8000",
    "memory/yarn/container/memory.limit_in_bytes": "3000\n",
}


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    for name, limit in LIMITS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(limit)
    return tmp_path


@pytest.mark.parametrize(
    ("group", "limits"),
    [
        ("0::/service/job\n", [2000, 9000]),
        ("0::/\n", [9000]),
        ("0::/kubepods/of/the/host\n", [9000]),
        ("5:cpu,cpuacct:/service\n4:memory:/yarn/container\n", [3000, 8000]),
        (None, [9000]),
    ],
    ids=["a group", "a container", "a container that shows the path of the host", "version 1", "unknown"],
)
def test_all_groups_that_contain_the_process_limit_it(groups: Path, group: str | None, limits: list[int]) -> None:
    if group is not None:
        (groups / "group").write_text(group)
    assert list(group_limits(groups, groups / "group")) == limits
