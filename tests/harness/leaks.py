"""Sockets, files and processes that a test leaves open fail it: Python's ResourceWarning, as an error, in `CHECKED`.

The warning comes when an object is collected as garbage, in whichever test runs then. So what the other folders' tests
have left behind is collected before a test of these folders begins. There the warnings are still ignored
(`pyproject.toml`): what pyspark leaves open cannot be told from what is ours, by the warning's text or place.
"""

from __future__ import annotations

import gc
import warnings
from pathlib import Path

import pytest

CHECKED = (
    "tests/client",
    "tests/etl/config",
    "tests/etl/ledger",
    "tests/harness",
    "tests/jobs/broker",
    "tests/jobs/registry",
)


class Leaks:
    """A pytest plugin. root: the folder that CHECKED is relative to."""

    def __init__(self, root: Path) -> None:
        self._folders = [root / folder for folder in CHECKED]
        self._others_ran = False

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if self._checked(item):
                item.add_marker(pytest.mark.filterwarnings("error::ResourceWarning"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        checked = self._checked(item)
        if checked and self._others_ran:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                gc.collect()
        self._others_ran = not checked

    def _checked(self, item: pytest.Item) -> bool:
        return any(item.path.is_relative_to(folder) for folder in self._folders)


def register(config: pytest.Config) -> None:
    """To be called by a `pytest_configure`."""
    config.pluginmanager.register(Leaks(config.rootpath), "leaks")
