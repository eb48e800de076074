"""The formats inside of bytes (`client.protocol.embedded`), by name and by the module that documents them."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from kseg.client.protocol import embedded
from kseg.client.protocol.schema import Message


@cache
def modules() -> dict[str, ModuleType]:
    """Every module that defines a format, by its name."""
    names = [found.name for found in pkgutil.iter_modules(embedded.__path__)]
    loaded = {name: importlib.import_module(f"{embedded.__name__}.{name}") for name in names}
    return {name: module for name, module in loaded.items() if defined_in(module)}


def defined_in(module: ModuleType) -> list[type[Message]]:
    """The messages of one module, in its own order."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Message)
        and value.__module__ == module.__name__
        and hasattr(value, "VERSIONS")
    ]


@cache
def by_name() -> dict[str, type[Message]]:
    """Every embedded message by its class's name."""
    return {cls.__name__: cls for module in modules().values() for cls in defined_in(module)}
