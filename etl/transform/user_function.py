"""The user's functions that a job file names as `module:function`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from kseg.etl.errors import ConfigurationError


def load_function(reference: str, place: str, *, remedy: str) -> Callable[..., Any]:
    """The function behind `module:function`.

    place: the reference's path in the job file; remedy: where its module has to be; both for the error.

    Raises:
        ConfigurationError: there is no such module, or no such function in it.
    """
    module_name, _, name = reference.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError.of(place, f"cannot load {reference}: {error}", remedy) from error
    if not callable(function):
        raise ConfigurationError.of(place, f"{reference} is not a function")
    return function  # type: ignore[no-any-return]
