"""What the membership tests share: Kafka's jars, and Java programs that run with them."""

from __future__ import annotations

import itertools
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from java_programs import java_with_kafka
from kseg.client import ClientConfig
from kseg.client.membership.member import GroupMember
from kseg.client.membership.settings import MemberSettings
from kseg.jobs.broker.errors import JarsUnavailable, JavaMissing

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def java_command() -> list[str]:
    """How to start a Java program with Kafka's jars; the program and its arguments come after it. Skips where they are
    not in the cache and cannot be fetched."""
    try:
        return java_with_kafka("-Xmx256m")
    except (JarsUnavailable, JavaMissing) as fault:
        pytest.skip(f"Kafka's jars are out of reach: {fault}")


@pytest.fixture(scope="session")
def java(java_command: list[str]) -> Callable[[str, str], list[str]]:
    """`java("Program.java", stdin)` runs a program of this folder; returns the lines it prints."""

    def run(program: str, stdin: str = "") -> list[str]:
        command = [*java_command, str(HERE / program)]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


class JavaMembers:
    """Java's own consumers, and Kafka's consumer-groups tool, in one JVM (Members.java)."""

    def __init__(self, command: list[str]) -> None:
        self.owned: dict[str, set[str]] = {}
        self._numbers = itertools.count(1)
        self._printed: queue.Queue[str] = queue.Queue()
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def open(self, topic: str, **properties: object) -> str:
        """A consumer that joins a group; underscores stand for dots. Gives its name."""
        name = f"java-{next(self._numbers)}"
        self.owned[name] = set()
        self._say("open", name, topic, *(f"{key.replace('_', '.')}={value}" for key, value in properties.items()))
        return name

    def close(self, name: str) -> None:
        """The consumer leaves its group."""
        self._say("close", name)
        with self._changed:
            assert self._changed.wait_for(lambda: name not in self.owned, 120), f"{name} does not close"

    def groups(self, *arguments: str) -> list[str]:
        """What Kafka's own consumer-groups tool prints."""
        self._say("groups", "tool", *arguments)
        lines: list[str] = []
        while (line := self._printed.get(timeout=120)) != "tool done":
            lines.append(line.removeprefix("tool | "))
        return lines

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._reader.join(60)
        self._process.stdout.close()

    def _say(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            name, what, *rest = line.rstrip("\n").split(" ")
            with self._changed:
                if what == "owns":
                    self.owned[name] = {word for word in rest if word}
                elif what == "closed":
                    self.owned.pop(name, None)
                else:
                    self._printed.put(line.rstrip("\n"))
                self._changed.notify_all()


@pytest.fixture(scope="module")
def java_members(java_command: list[str]) -> Iterator[JavaMembers]:
    """Java's consumers: `open(topic, **properties)`, `owned`, `close(name)`; and `groups(…)`, Kafka's own tool."""
    members = JavaMembers([*java_command, str(HERE / "Members.java")])
    yield members
    members.end()


@pytest.fixture(scope="session")
def until() -> Callable[..., None]:
    """`until(condition, seconds, what, step)`: calls `step` over and over until the condition holds."""

    def wait(
        condition: Callable[[], object],
        seconds: float = 60.0,
        what: object = "",
        step: Callable[[], object] = lambda: time.sleep(0.05),
    ) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"not within {seconds} s: {what() if callable(what) else what}"
            step()

    return wait


@pytest.fixture
def member(fake: Any) -> Iterator[Callable[..., GroupMember]]:
    """`member(instance_id=…, assignors=…)`: a member before the scripted broker, with times of milliseconds."""
    opened: list[GroupMember] = []
    fake.add_topic("t", [1, 1])

    def open_(servers: str | None = None, **options: Any) -> GroupMember:
        times = {"session_timeout_ms": 20_000, "heartbeat_interval_ms": 30}
        names = MemberSettings.__dataclass_fields__
        times |= {name: options.pop(name) for name in list(options) if name in names}
        properties = {
            "bootstrap.servers": servers or fake.bootstrap_servers,
            "retry.backoff.ms": "10",
            "retry.backoff.max.ms": "20",
            "metadata.max.age.ms": str(options.pop("max_age", 60_000)),
            "client.rack": options.pop("rack", ""),
        }
        config = ClientConfig.from_properties(properties, client_id="c")
        options.setdefault("topics", ["t"])
        opened.append(GroupMember(config, "g", settings=MemberSettings(**times), **options))
        return opened[-1]

    yield open_
    for one in opened:
        one.close(timeout=0.3)
