"""Modules that are imported when they are first used, by those that were imported before."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


class Later(ModuleType):
    """Stands for a module until something is asked of it; then it has all that the module has."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked by what looks at modules, not by what uses them
            raise AttributeError(name)
        real = importlib.import_module(self.__name__)
        self.__dict__.update(vars(real))
        return getattr(real, name)


@contextmanager
def later(*names: str) -> Iterator[None]:
    """What is imported in here gets stand-ins for the modules named; whoever imports them afterwards gets them.

    A package comes before its modules. Where one of them is imported already, nothing is put off.
    """
    if any(name in sys.modules for name in names):
        yield
        return
    for name in names:
        sys.modules[name] = stands = Later(name)
        package, _, own = name.rpartition(".")
        if package:
            setattr(sys.modules[package], own, stands)
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
