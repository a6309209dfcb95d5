"""The contract of directories on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventide.spark.storage import LocalStorage
from tests.driver.directory_contract import *  # noqa: F403
from tests.driver.directory_contract import Open


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    return lambda: LocalStorage(tmp_path)


def test_a_checksum_of_hadoop_does_not_outlive_its_file(tmp_path: Path) -> None:
    files = LocalStorage(tmp_path)
    for name in ("new/7", "offsets/7", "offsets/.7.crc"):
        files.create(name, [b"x"])
    files.move("new/7", "offsets/7")
    assert list(files.walk("offsets")) == ["7"]
