"""The comparison table: API by API, what has been held against Java's definitions and bytes, and against live brokers.

Tests tell facts while they run: that a message's definition was compared in a version, that its bytes were. What live
brokers answered is taken from the client's own trace point, so no test has to claim it: an answer counts if it came
from a port that one of our Kafka processes listens on, whose class path tells the release. Answers with an error code
count apart, and as none: where an API has no others, the table says so, and that is a gap. Facts of a test that failed
are dropped.

The table is printed when all tests ran, and a gap in it fails the run (where Kafka's jars were to be had at all); with
`--protocol-table` after any run.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from kseg.client.protocol import embedded
from kseg.client.protocol.api import Api
from kseg.client.protocol.registry import API_BY_KEY
from kseg.client.protocol.schema import Message, Versions
from kseg.client.wire.trace import Tap, error_codes
from second_try import WHOLE_FAILED

_PORT = re.compile(r":(\d+)\)?$")
_RELEASE = re.compile(r"/kafka-(\d[\d.]*\d)/")


@dataclass(frozen=True)
class Fact:
    """What a test has seen: `kind` is "definition", "bytes", "live" or "refused"; the last two are an API's."""

    kind: str
    name: str
    version: int
    release: str = ""


class Comparisons:
    """A pytest plugin."""

    def __init__(self) -> None:
        self._facts: dict[Fact, set[str]] = defaultdict(set)
        self._test = ""
        self._failed: set[str] = set()
        self._brokers: dict[int, tuple[psutil.Process, str]] = {}
        self._kafkas: set[int] = set()  # ports of this test
        self._others: set[int] = set()
        self._whole = True

    def compared(self, kind: str, message: str, version: int) -> None:
        """A test has compared a message ("definition" or "bytes") in a version."""
        self._facts[Fact(kind, message, version)].add(self._test)

    def answered(self, port: int, api: str, version: int, response: Any) -> None:
        """Something that listens on a local port has answered; counts if that is a Kafka."""
        if release := self._release(port):
            kind = "refused" if error_codes(response) else "live"
            self._facts[Fact(kind, api, version, release)].add(self._test)

    def listen(self) -> None:
        """Hear every answer that the client gets from here on."""
        received = Tap.received

        def heard(tap: Tap, broker: str, answer: Any) -> None:
            received(tap, broker, answer)
            port = _PORT.search(broker)
            if port:
                self.answered(int(port[1]), answer.request.api.name, answer.request.version, answer.response)

        Tap.received = heard  # type: ignore[method-assign]

    def _release(self, port: int) -> str | None:
        """The release of the Kafka that listens on this port; None for anything else, such as a scripted broker."""
        if port in self._others or (port not in self._kafkas and _listens_here(port)):
            release = None
        else:  # asked each time: a node that a test stops may leave its port to another one
            release = self._release_of_child(port)
        (self._kafkas if release else self._others).add(port)
        return release

    def _release_of_child(self, port: int) -> str | None:
        """The same, looked for in processes that this one has started: of a Spark or a Kafka with hundreds of open
        files that takes a tenth of a second."""
        known = self._brokers.get(port)
        if known and known[0].is_running():
            return known[1]
        for process in psutil.Process().children(recursive=True):
            try:
                listening = {one.laddr.port for one in process.net_connections("tcp") if one.status == "LISTEN"}
                release = _RELEASE.search(" ".join(process.cmdline())) if port in listening else None
            except psutil.Error:
                continue
            if release:
                self._brokers[port] = process, release[1]
                return release[1]
        return None

    # -- pytest's hooks

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        config = session.config
        told = config.option
        last_failed = getattr(told, "lf", False)  # of a plugin that may be turned off
        chosen = any((told.keyword, told.markexpr, last_failed, told.deselect, told.ignore, told.collectonly))
        everything = {str(config.rootpath / path) for path in config.getini("testpaths")}
        asked = {str((config.invocation_params.dir / path).resolve()) for path in config.args}
        self._whole = not chosen and asked == everything

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._test = item.nodeid
        # Another test may have another broker on the same port.
        self._kafkas.clear()
        self._others.clear()
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """In the process that tests are handed out from: a worker has ended, and tells what it has seen."""
        for kind, name, version, release, tests in getattr(node, "workeroutput", {}).get("comparisons", ()):
            self._facts[Fact(kind, name, version, release)].update(tests)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        told = getattr(session.config, "workeroutput", None)
        if told is not None:
            told["comparisons"] = [
                (fact.kind, fact.name, fact.version, fact.release, sorted(tests)) for fact, tests in self._facts.items()
            ]
            return
        with_kafka = any(fact.kind == "live" for fact in self._kept())
        if self._whole and with_kafka and any(self._gaps().values()):
            session.config.cache.set(WHOLE_FAILED, [name for names in self._gaps().values() for name in names])
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        if not self._kept() or not (self._whole or config.option.protocol_table):
            return
        terminalreporter.section("the protocol, API by API")
        for line in self.table():
            terminalreporter.line(line)
        for what, names in self._gaps().items():
            if names and self._whole:
                terminalreporter.line(f"{what}: {', '.join(names)}", red=True)

    # -- the table

    def _kept(self) -> dict[Fact, set[str]]:
        return {fact: tests - self._failed for fact, tests in self._facts.items() if tests - self._failed}

    def _gaps(self) -> dict[str, list[str]]:
        kept = self._kept()
        messages = [message for api in API_BY_KEY.values() for message in (api.request, api.response)]
        gaps = {
            f"{kind} not compared": [
                f"{message.__name__} v{version}"
                for message in [*messages, *_EMBEDDED]
                for version in _versions(message.VERSIONS)
                if Fact(kind, message.__name__, version) not in kept
            ]
            for kind in ("definition", "bytes")
        }
        live = {fact.name for fact in kept if fact.kind == "live"}
        clients = [api.name for api in API_BY_KEY.values() if api.scope == "client"]
        gaps["no live broker has answered without an error"] = [name for name in clients if name not in live]
        return gaps

    def table(self) -> list[str]:
        """The lines: a head, one an API, a sum."""
        kept = self._kept()
        lines = [f"{'key':>3} {'API':<29} {'versions':>8} {'scope':<10} {'definition':>10} {'bytes':>6}  live"]
        total = [0, 0, 0, 0]
        for key, api in sorted(API_BY_KEY.items()):
            versions = _versions(api.versions)
            same = [
                sum(
                    Fact(kind, api.request.__name__, version) in kept
                    and Fact(kind, api.response.__name__, version) in kept
                    for version in versions
                )
                for kind in ("definition", "bytes")
            ]
            refused = _live("refused", api, kept)
            live = _live("live", api, kept) or (f"refusals alone: {refused}" if refused else "")
            of = len(versions)
            spoken = f"{api.versions.lowest}-{api.versions.highest}"
            lines.append(
                f"{key:>3} {api.name:<29} {spoken:>8} {api.scope:<10} {f'{same[0]}/{of}':>10} {f'{same[1]}/{of}':>6}"
                f"  {live or ('none' if api.scope == 'client' else 'codec only')}"
            )
            answered = bool(_live("live", api, kept))
            total = [total[0] + of, total[1] + same[0], total[2] + same[1], total[3] + answered]
        pairs, definitions, parity, answers = total
        lines.append(
            f"{len(API_BY_KEY)} APIs, {pairs} pairs of API and version: {definitions} definitions and {parity} byte "
            f"forms equal to Java's; {answers} APIs answered by live brokers"
        )
        formats = [(cls.__name__, version) for cls in _EMBEDDED for version in _versions(cls.VERSIONS)]
        same = [sum(Fact(kind, *one) in kept for one in formats) for kind in ("definition", "bytes")]
        lines.append(
            f"{len(_EMBEDDED)} embedded messages in {len(formats)} versions: {same[0]} definitions and {same[1]} byte "
            "forms equal to Java's"
        )
        return lines


def _listens_here(port: int) -> bool:
    """Whether this very process listens on a local port, as scripted brokers do. False where there is no /proc."""
    listening = re.compile(rf":{port:04X} [0-9A-F]+:0000 0A +(?:\S+ +){{5}}(\d+)")  # the last one: the socket's inode
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for table in ("tcp", "tcp6"):
            found |= {f"socket:[{inode}]" for inode in listening.findall(Path("/proc/self/net", table).read_text())}
        for file in Path("/proc/self/fd").iterdir() if found else ():
            with contextlib.suppress(OSError):  # one that another thread has closed meanwhile
                if str(file.readlink()) in found:
                    return True
    return False


def _embedded() -> list[type[Message]]:
    """The messages that belong to no API."""
    return [
        value
        for found in pkgutil.iter_modules(embedded.__path__, f"{embedded.__name__}.")
        for value in vars(importlib.import_module(found.name)).values()
        if getattr(value, "__module__", None) == found.name and hasattr(value, "VERSIONS")
    ]


_EMBEDDED = _embedded()


def _versions(versions: Versions) -> range:
    return range(versions.lowest, versions.highest + 1)


def _live(kind: str, api: Api[Any], kept: dict[Fact, set[str]]) -> str:
    """Versions by release, newest first, and one test that got such an answer."""
    answered: dict[str, set[int]] = defaultdict(set)
    tests: set[str] = set()
    for fact, by in kept.items():
        if fact.kind == kind and fact.name == api.name:
            answered[fact.release].add(fact.version)
            tests |= by
    if not answered:
        return ""
    newest_first = sorted(answered, key=lambda release: [int(part) for part in release.split(".")], reverse=True)
    told = "; ".join(f"{release} v{_ranges(answered[release])}" for release in newest_first)
    count = f"{len(tests)} test{'s' if len(tests) > 1 else ''}"
    return f"{told} ({count}, e.g. {min(tests, key=len).removeprefix('tests/')})"


def _ranges(numbers: set[int]) -> str:
    """{0, 1, 2, 5} as "0-2,5"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
