"""A task declares the header of its state at once, and the map of pages when it is needed."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

from eventide.spark.state_processor import PAGES, lazy_page_map

HandleState = Enum("HandleState", ["PRE_INIT", "CREATED", "INITIALIZED"])


class Client:
    """The connection of a handle to Spark."""

    def __init__(self, state: HandleState) -> None:
        self.handle_state = state
        self.states: list[HandleState] = []

    def set_handle_state(self, state: HandleState) -> None:
        self.handle_state = state
        self.states.append(state)


class Handle:
    """A handle that declares a map only once, and only while it is new, as Spark's does."""

    def __init__(self, client: Any = None, attribute: str = "_statefulProcessorApiClient") -> None:
        self.declared: list[str] = []
        self._client = client
        setattr(self, attribute, client)

    def getMapState(self, name: str, *types: Any) -> str:  # noqa: N802
        assert getattr(self._client, "handle_state", None) is not HandleState.INITIALIZED, "the handle is initialized"
        assert name not in self.declared, "declared already"
        self.declared.append(name)
        return f"the map {name}"


@pytest.mark.parametrize("attribute", ["_statefulProcessorApiClient", "stateful_processor_api_client"])
def test_a_task_declares_the_map_once_when_it_is_needed(attribute: str) -> None:
    client = Client(HandleState.CREATED)
    handle = Handle(client, attribute)
    pages: Any = lazy_page_map(handle)  # type: ignore[arg-type]
    client.set_handle_state(HandleState.INITIALIZED)
    assert handle.declared == []
    assert pages() == pages() == "the map pages"
    assert handle.declared == [PAGES]
    assert client.states == [HandleState.INITIALIZED, HandleState.CREATED, HandleState.INITIALIZED]


def test_the_process_that_lists_the_state_variables_declares_the_map_at_once() -> None:
    handle = Handle(Client(HandleState.PRE_INIT))
    lazy_page_map(handle)  # type: ignore[arg-type]
    assert handle.declared == [PAGES]


@pytest.mark.parametrize("client", [None, object(), Client(HandleState.PRE_INIT)], ids=["none", "another", "elsewhere"])
def test_with_an_unknown_kind_of_handle_the_map_is_declared_at_once(client: Any) -> None:
    handle = Handle(client)
    pages: Any = lazy_page_map(handle)  # type: ignore[arg-type]
    assert handle.declared == [PAGES]
    assert pages() == "the map pages"


def test_with_a_handle_whose_state_cannot_be_set_the_map_is_declared_at_once() -> None:
    class ReadOnly:
        handle_state = HandleState.CREATED

    handle = Handle(ReadOnly())
    lazy_page_map(handle)  # type: ignore[arg-type]
    assert handle.declared == [PAGES]
