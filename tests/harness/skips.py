"""Which tests may be skipped: where `CI` is "true", only those that CONTRIBUTING.md's table of parts names.

A skip of the table says how the test is run (`make test-full`) in its reason, and the table names its file. Any other
skip (jars of a release out of reach, a program that is not installed) is a failure there; elsewhere it is a skip.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: `make test-full` runs the full counts.
FULL = os.environ.get("KSEG_TEST_SCALE") == "full"

IN_FULL = "at full scale: make test-full"
full_scale_only = pytest.mark.skipif(not FULL, reason=IN_FULL)

_PART = re.compile(r"`make test-full PART=([\w.-]+)`")
_FILE = re.compile(r"`(tests/[\w./-]+)`")


def parts_of_table(page: Path) -> dict[str, set[str]]:
    """The parts that the table names, each with the test files that are skipped in CI."""
    found: dict[str, set[str]] = {}
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("|") and (part := _PART.search(line)):
            found[part[1]] = set(_FILE.findall(line))
    return found


class Skips:
    """A pytest plugin. root: the folder of CONTRIBUTING.md; part: the part of `make test-full` that runs."""

    def __init__(self, root: Path, part: str | None) -> None:
        self._root = root
        self._part = part
        self._named = set().union(*parts_of_table(root / "CONTRIBUTING.md").values())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if not hasattr(report, "wasxfail"):
            self._judge(report, item.path)
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        self._judge(report, collector.path)
        return report

    def _judge(self, report: pytest.TestReport | pytest.CollectReport, path: Path) -> None:
        if report.outcome != "skipped":
            return
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        inside = path.relative_to(self._root).as_posix() if path.is_relative_to(self._root) else str(path)
        if inside not in self._named:
            fault = "CONTRIBUTING.md's table does not name this file"
        elif "make test-full" not in reason:
            fault = "the reason does not say which part of `make test-full` runs it"
        elif f"PART={self._part}" in reason:
            fault = "this is the part that has to run it"
        else:
            return
        report.outcome = "failed"
        report.longrepr = f"{path}: {reason}\nWith CI=true a skipped test fails: {fault}."


def register(config: pytest.Config, root: Path = ROOT) -> None:
    """Watch a run for skips, where `CI` is "true"."""
    if os.environ.get("CI") == "true" and not config.pluginmanager.has_plugin("skips"):
        config.pluginmanager.register(Skips(root, os.environ.get("KSEG_TEST_PART")), "skips")
