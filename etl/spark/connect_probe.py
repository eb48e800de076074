"""Asked in a worker that may have nothing of ours: which Python it runs, and whether it has our packages as they are.

Pickled by value, so it imports nothing of ours.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def digest(packages: tuple[str, ...]) -> str | None:
    """Of the packages' sources, 16 hex digits; None where one of them is not there as files."""
    found = hashlib.sha256()
    for package in packages:
        try:
            spec = importlib.util.find_spec(package)
        except ModuleNotFoundError:  # of the package that it is in
            return None
        if spec is None or spec.origin is None or not Path(spec.origin).is_file():
            return None
        folder = Path(spec.origin).parent
        for file in sorted(folder.rglob("*.py")):
            found.update(str(file.relative_to(folder.parent)).encode())
            found.update(file.read_bytes())
    return found.hexdigest()[:16]


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
