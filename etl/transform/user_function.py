"""The user's functions that a job file names as `module:function`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

from kseg.etl.errors import ConfigurationError, summary

WHERE_MODULES_ARE: Final = (
    "put the module on PYTHONPATH (one in this folder: PYTHONPATH=. kseg ingest JOB.yaml), or install its package"
)
"""The remedy for a module that is not found."""


def load_function(reference: str, place: str, *, remedy: str) -> Callable[..., Any]:
    """The function behind `module:function`.

    place: the reference's path in the job file; remedy: where its module has to be; both for the error.

    Raises:
        ConfigurationError: there is no such module, it cannot be imported, or has no such function.
    """
    module_name, _, name = reference.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError.of(place, f"cannot load {reference}: {error}", remedy) from error
    except Exception as error:  # whatever the module does when it is imported
        message = f"cannot load {reference}: its module raises {summary(error)}"
        raise ConfigurationError.of(place, message, "correct the module") from error
    if not callable(function):
        raise ConfigurationError.of(place, f"{reference} is not a function")
    return function  # type: ignore[no-any-return]
