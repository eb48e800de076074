"""What the tests on other releases share."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _load(name: str) -> ModuleType:
    """Under pytest's importlib mode no test can import what stands in `checks/`."""
    spec = importlib.util.spec_from_file_location(f"live_{name}", Path(__file__).parent / "checks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_Peer = _load("peer").Peer


@pytest.fixture(scope="module")
def peers(kafka_release: Callable[[str], Any]) -> Iterator[Callable[[str], Any]]:
    """`peers(release)` gives a `Peer` (checks/peer.py): one broker, asked in whatever version it is told to."""
    made: dict[str, Any] = {}

    def ask(release: str) -> Any:
        kafka = kafka_release(release)
        if release not in made or made[release].kafka is not kafka:
            made[release] = _Peer(kafka, release)
        return made[release]

    yield ask
    for peer in made.values():
        peer.close()
