"""Asked in a worker that may have nothing of ours: which Python it runs, and whether it has our packages as they are.

Pickled by value, so it imports nothing of ours.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any


def digest(packages: tuple[str, ...]) -> str | None:
    """The digest of the packages' sources, 16 hex digits; None if one of them does not exist as files."""
    found = hashlib.sha256()
    for package in packages:
        spec = _find(package)
        if spec is None or spec.origin is None or not Path(spec.origin).is_file():
            return None
        folder = Path(spec.origin).parent
        for file in sorted(folder.rglob("*.py")):
            found.update(str(file.relative_to(folder.parent)).encode())
            found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _find(name: str) -> ModuleSpec | None:
    """Does the same as `importlib.util.find_spec`, without importing the packages above: a worker that had imported an
    installed `kseg` would search its parts there, also after others were sent to it."""
    parts = name.split(".")
    path: Sequence[str] | None = None
    spec = None
    for end in range(1, len(parts) + 1):
        full = ".".join(parts[:end])
        found = (finder.find_spec(full, path) for finder in sys.meta_path if hasattr(finder, "find_spec"))
        spec = next((one for one in found if one is not None), None)
        if spec is None:
            return None
        path = spec.submodule_search_locations or []
    return spec


def asker(packages: tuple[str, ...], module: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For `mapInArrow(…, "report string")`: one row, JSON. module: what has to be importable; "" is nothing."""

    def ask(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for _ in batches:
            pass
        missing = None
        try:
            if module:
                importlib.import_module(module)
        except ImportError as error:
            missing = str(error)
        report = {"python": list(sys.version_info[:2]), "digest": digest(packages), "missing": missing}
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(report)]})

    return ask
