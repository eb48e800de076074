"""Sockets, files and processes that a test leaves open fail it: Python's ResourceWarning, which is an error as all are.

The warning comes when an object is collected as garbage, in whichever test runs then. Tests that are not checked yet
ignore it; what they have left behind is collected before a test that is checked begins. Spark's own Python, in the
tests' process, leaves nothing open.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

#: Files with tests of full scale alone, which have not all been run with the check.
UNCHECKED = (
    "tests/faults/test_brokers.py",
    "tests/faults/test_executors.py",
    "tests/faults/test_network.py",
    "tests/faults/test_people.py",
    "tests/faults/test_stores.py",
    "tests/jobs/bench/test_scaling.py",
    "tests/jobs/bench/test_standalone.py",
)


class Leaks:
    """A pytest plugin. unchecked: whether a test ignores what it leaves open."""

    def __init__(self, unchecked: Callable[[pytest.Item], bool]) -> None:
        self._unchecked = unchecked
        self._others_ran = False

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if self._unchecked(item):
                item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        unchecked = self._unchecked(item)
        if self._others_ran and not unchecked:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                gc.collect()
        self._others_ran = unchecked


def register(config: pytest.Config, unchecked: Callable[[pytest.Item], bool] | None = None) -> None:
    """To be called by a `pytest_configure`; in kseg's environment, the first of two counts, as Airflow's folder has one
    too. Without `unchecked`, `UNCHECKED` decides."""
    if config.pluginmanager.has_plugin("leaks"):
        return
    places = [config.rootpath / place for place in UNCHECKED]

    @cache  # a file has many tests, and a path is slow to compare
    def is_within(path: Path) -> bool:
        return any(path.is_relative_to(place) for place in places)

    config.pluginmanager.register(Leaks(unchecked or (lambda item: is_within(item.path))), "leaks")
