"""How long the fault suite runs, and from which seed: `make faults PROFILE=… SEED=… MINUTES=…`, or `make test-full`."""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import shared_jvm
from children import Children
from fault_suite.jobs import JobFolder
from fault_suite.journal import Journal
from fault_suite.load import Load
from fault_suite.oracle import Tables, TopicReader
from fault_suite.schedule import Lane
from fault_suite.settle import settle
from fault_suite.world import Perform, World

FIXED_SEED = 18
"""Of `make test-full`."""

SHORT_SECONDS = 25.0


@pytest.fixture(scope="session")
def seconds() -> float:
    """How long faults are injected in a profile."""
    return float(os.environ["FAULTS_MINUTES"]) * 60 if "FAULTS_MINUTES" in os.environ else SHORT_SECONDS


@pytest.fixture(scope="session")
def seed() -> int:
    given = os.environ.get("FAULTS_SEED")
    if given is None and "FAULTS_MINUTES" not in os.environ:
        return FIXED_SEED
    return int(given) if given else random.randrange(1 << 30)


@pytest.fixture(scope="module")
def children(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Children]:
    made = Children(tmp_path_factory.mktemp("drivers"), shared_jvm.gateway(spark))
    yield made
    made.close()


@pytest.fixture
def suite(
    children: Children, seed: int, seconds: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., World]:
    """suite(servers, lanes, table): run the lanes for so long as was asked for, settle, and print what came of it.

    replication: of the topics. root, seen_at, environment: of the job's ledger and tables (`JobFolder`).
    """

    def run(
        servers: str,
        lanes: tuple[Lane, ...],
        table: dict[str, Perform],
        *,
        allowed: frozenset[str] = frozenset(),
        led_out: frozenset[str] = frozenset(),
        watched: bool = True,
        replication: int = 1,
        root: str = "",
        environment: dict[str, str] | None = None,
        seen_at: Path | None = None,
        prepare: Callable[[World], None] = lambda _: None,
        restore: Callable[[World], None] = lambda _: None,
    ) -> World:
        mark = uuid.uuid4().hex[:6]
        topics = {f"orders-{mark}": 3, f"payments-{mark}": 2}
        _create(servers, topics, replication)
        job = JobFolder(tmp_path, servers, topics, root, seen_at, environment or {})
        journal = Journal()
        with closing(TopicReader(servers, topics)) as reader:
            world = World(job, children, journal, reader, Tables(job.table_folders), seed, allowed)
            world.led_out |= led_out
            world.watched = watched
            prepare(world)
            try:
                with Load(servers, topics, journal, seed) as load:
                    world.go(seconds, lanes, table)
                restore(world)
                assert load.errors == []
                settle(world)
                world.settled = True
            finally:
                with capsys.disabled():
                    print("\n" + report(world))
        return world

    return run


def report(world: World) -> str:
    """The table of faults and outcomes, what was found, and the last line."""
    lines = [f"{kind:70} {outcome:40} {count:4}" for (kind, outcome), count in sorted(world.outcomes.items())]
    if not world.settled or not world.findings.sound:
        lines += ["", *world.history, "", *world.findings.examples]
    return "\n".join([*lines, "", f"seed {world.seed}: {world.findings}"])


def _create(servers: str, topics: dict[str, int], replication: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    config = {"min.insync.replicas": "2"} if replication > 1 else {}
    new = [NewTopic(name, count, replication, config=config) for name, count in topics.items()]
    for created in admin.create_topics(new, operation_timeout=60).values():
        created.result(120)
    for name, count in topics.items():  # the controller answers before every broker knows
        deadline = time.monotonic() + 60
        while len(getattr(admin.list_topics(timeout=60).topics.get(name), "partitions", ())) < count:
            assert time.monotonic() < deadline, f"{name} is not there"
            time.sleep(0.05)
