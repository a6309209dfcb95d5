"""The contract of storages with obstore's client of S3, whose puts are conditional."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from eventide.spark.object_storage import object_storage
from tests.driver.storage_contract import *  # noqa: F403
from tests.driver.storage_contract import Open
from tests.s3 import BUCKET, s3
from tests.services import running


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    yield from running(s3())


@pytest.fixture
def opened(endpoint: str) -> Open:
    stores = pytest.importorskip("obstore.store")
    folder = uuid.uuid4().hex
    return lambda: object_storage(
        stores.S3Store(
            BUCKET,
            prefix="queries",
            endpoint=endpoint,
            region="us-east-1",
            access_key_id="test",
            secret_access_key="test",
            client_options={"allow_http": True},
        ),
        folder,
    )
