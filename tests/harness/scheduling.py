"""Which process runs which test file, where several share the tests (`--dist loadfile`).

Each process has brokers and a Spark session of its own, started when a test first asks for them. So a file goes to a
process that runs already what it asks for, and what few files ask for (three nodes, secured brokers, other releases) is
started by one process for all of them, not by each. Within that long files come first, and short ones that ask for
nothing last: they keep all processes busy to the end.

What a file asks for is known where tests are collected; whoever hands them out does not collect. So the first process
writes it down, and the other reads it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

#: What a process starts once: by the fixture, about how many seconds of a processor that takes.
STARTS = {
    "spark": 12,
    "kafka": 5,
    "kafka3": 15,
    "kafka_release": 20,
    "secure_kafka": 6,
    "guarded_kafka": 6,
    "s3": 5,
    "schema_registry": 6,
}
#: Of these, what takes a processor's time also while nobody uses it: a process takes all files that ask for it one
#: after the other, and then stops it (`kafkas.WhileUsed`).
IDLE_COSTS = frozenset({"kafka3", "kafka_release"})
#: How long files took that take at least so many seconds: `make test ARGS=--record-seconds` writes it. It decides on
#: the order of files, and on nothing else.
RECORD = Path(__file__).with_name("seconds.json")
LEAST = 4
#: Of other files: about how many seconds a test takes that asks for this fixture; one that is marked as slow takes 30.
COSTS = {"spark": 1.5, "kafka3": 2.0, "kafka_release": 0.6, "kafka": 0.3, "secure_kafka": 0.3, "guarded_kafka": 0.3}


@dataclass
class Demand:
    """What the tests of one file take together, in seconds, and which of `STARTS` they ask for."""

    seconds: float = 0.0
    needs: frozenset[str] = frozenset()


def demands(items: Sequence[pytest.Item], root: Path) -> dict[Path, Demand]:
    """What each file of these tests takes. root: the folder that recorded names begin at."""
    found: dict[Path, Demand] = {}
    for item in items:
        fixtures = frozenset(getattr(item, "fixturenames", ()))
        demand = found.setdefault(item.path, Demand())
        slow = 30.0 if item.get_closest_marker("slow") else 0.02
        demand.seconds += max(slow, *(seconds for name, seconds in COSTS.items() if name in fixtures), 0.02)
        demand.needs |= fixtures & STARTS.keys()
    for name, seconds in json.loads(RECORD.read_text()).items():
        if root / name in found:
            found[root / name].seconds = seconds
    return found


def quotas(found: Mapping[str, Demand], processes: int) -> dict[str, int]:
    """How many processes are to start each of `STARTS`: as many as is its share of the work."""
    total = sum(demand.seconds for demand in found.values()) or 1
    asked = {need: sum(demand.seconds for demand in found.values() if need in demand.needs) for need in STARTS}
    return {need: ceil(seconds / total * processes) for need, seconds in asked.items()}


def choose(
    queue: Mapping[str, Demand], quota: Mapping[str, int], started: frozenset[str], others: Sequence[frozenset[str]]
) -> str:
    """The file that a process takes next of a queue, in which long ones come first.

    started: what it has started; others: what each of the other processes has.
    """
    enough = {need for need in STARTS if sum(need in other for other in others) >= quota[need]}

    def reluctance(name: str) -> tuple[int, int]:
        needs, short = queue[name].needs, queue[name].seconds < LEAST
        too_many = sum(STARTS[need] for need in (needs - started) & enough)
        if too_many:
            return (2, too_many)
        return (-1, 0) if needs & started & IDLE_COSTS else (1, 0) if short and not needs else (0, 0)

    return min(queue, key=reluctance)


class ByNeeds(LoadFileScheduling):  # type: ignore[misc]
    """Hands out whole files, each to a process that has what it asks for."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._demands: Mapping[str, Demand] = {}
        self._quotas: Mapping[str, int] = {}
        self._started: dict[Any, frozenset[str]] = {}

    def schedule(self) -> None:
        if self.collection is None:
            self._demands = read_demands(self.nodes[0].workerinput["testrunuid"])
            self._quotas = quotas(self._demands, len(self.nodes))
        super().schedule()

    def _assign_work_unit(self, node: Any) -> None:
        queue = {name: self._demands.get(name, Demand()) for name in self.workqueue}
        started = self._started.get(node, frozenset())
        others = [self._started.get(other, frozenset()) for other in self.nodes if other is not node]
        chosen = choose(queue, self._quotas, started, others)
        self._started[node] = started | queue[chosen].needs
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)

    def remove_node(self, node: Any) -> str | None:
        """The test that a process died in, which is not run again; the rest of what it had goes to others.

        xdist hands out again also the files that the process had done, and waits for ever for an answer about them.
        """
        workload = self.assigned_work[node]
        died_in: str | None = next(
            (test for unit in workload.values() for test, done in unit.items() if not done), None
        )
        self.assigned_work[node] = {}
        super().remove_node(node)
        for file, unit in workload.items():
            left = {test: done for test, done in unit.items() if not done and test != died_in}
            if left:
                self.workqueue[file] = left
        for other in self.assigned_work:
            self._reschedule(other)
        return died_in


def _place(run: str) -> Path:
    return Path(tempfile.gettempdir(), f"kseg-tests-{run}.json")


def write_demands(run: str, found: Mapping[str, Demand]) -> None:
    """Leave word of what files take, for whoever hands them out. run: xdist's id of the test run."""
    partial = _place(run).with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps({name: [demand.seconds, *demand.needs] for name, demand in found.items()}))
    partial.replace(_place(run))


def read_demands(run: str) -> dict[str, Demand]:
    """What was written for this run, which is taken away; nothing where the tests could not be collected."""
    try:
        found = json.loads(_place(run).read_text())
    except FileNotFoundError:
        return {}
    _place(run).unlink()
    return {name: Demand(seconds, frozenset(needs)) for name, (seconds, *needs) in found.items()}


class Failures:
    """A pytest plugin that tells each failure at once, for a run that is stopped before its end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            terminal: pytest.TerminalReporter = self._config.pluginmanager.getplugin("terminalreporter")
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = (crash.message if crash else str(report.longrepr)).partition("\n")[0][:300]
            terminal.write_line(f"\nFAILED {report.nodeid} after {report.duration:.0f} s: {reason}", red=True)


class Recorder:
    """A pytest plugin that writes down how long files take; of those that did not run, what was known before.

    root: the folder that names begin at.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        known = json.loads(RECORD.read_text()) | {name: round(seconds) for name, seconds in self._seconds.items()}
        there = {name: seconds for name, seconds in sorted(known.items()) if (self._root / name).is_file()}
        kept = {name: seconds for name, seconds in there.items() if seconds >= LEAST}
        RECORD.write_text(json.dumps(kept, indent=1) + "\n")
