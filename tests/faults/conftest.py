"""How long the fault suite runs, and from which seed: `make faults PROFILE=… SEED=… MINUTES=…`, or `make test-full`."""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import clocks
import shared_jvm
from children import Children
from fault_suite import letters, results
from fault_suite.decoded import DecodedTables, Events
from fault_suite.jobs import JobFolder
from fault_suite.journal import Journal
from fault_suite.load import Load
from fault_suite.oracle import Tables, TopicReader
from fault_suite.schedule import Lane, jobs_of
from fault_suite.settle import settle
from fault_suite.world import Perform, World

FIXED_SEED = 101
"""Of `make test` and `make test-full`: within seconds drivers are killed before, between and after commits, and one is
suspended."""

SHORT_SECONDS, FULL_SECONDS = 12.0, 25.0
"""Of these two."""


@pytest.fixture(scope="session")
def seconds(scale: Callable[[float, float], float]) -> float:
    """How long faults are injected in a profile."""
    if "FAULTS_MINUTES" in os.environ:
        return float(os.environ["FAULTS_MINUTES"]) * 60
    return scale(SHORT_SECONDS, FULL_SECONDS)


@pytest.fixture(scope="session")
def seed() -> int:
    given = os.environ.get("FAULTS_SEED")
    if given is None and "FAULTS_MINUTES" not in os.environ:
        return FIXED_SEED
    return int(given) if given else random.randrange(1 << 30)


@pytest.fixture(scope="module")
def children(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Children]:
    clock = clocks.environment(tmp_path_factory.mktemp("clock"))
    made = Children(tmp_path_factory.mktemp("drivers"), shared_jvm.gateway(spark), clock)
    yield made
    made.close()


@pytest.fixture
def suite(
    children: Children,
    seed: int,
    seconds: float,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> Callable[..., World]:
    """suite(servers, lanes, table): run the lanes for so long as was asked for, settle, and print what came of it.

    replication: of the topics. driver_servers, driver_registry: as drivers reach them, where not as the suite does.
    registry: for the lanes of a job with decoded values. root, seen_at, environment: of the job's ledger and tables
    (`JobFolder`). source: more of the job file's section. spark: that section. reached: what a run must have had, which
    goes on for it on a busy machine.
    """

    tested = results.commit()  # files may be edited while it runs

    def _record(world: World, error: BaseException | None) -> None:
        if "FAULTS_MINUTES" in os.environ and not isinstance(error, KeyboardInterrupt):
            profile = request.path.stem.removeprefix("test_")
            results.append(results.result_of(profile, world, seconds / 60, tested, error))

    def run(
        servers: str,
        lanes: tuple[Lane, ...],
        table: dict[str, Perform],
        *,
        allowed: frozenset[str] = frozenset(),
        led_out: frozenset[str] = frozenset(),
        watched: bool = True,
        replication: int = 1,
        driver_servers: str = "",
        registry: str = "",
        driver_registry: str = "",
        root: str = "",
        environment: dict[str, str] | None = None,
        seen_at: Path | None = None,
        source: dict[str, Any] | None = None,
        spark: dict[str, Any] | None = None,
        prepare: Callable[[World], None] = lambda _: None,
        restore: Callable[[World], None] = lambda _: None,
        reached: Callable[[World], bool] = lambda _: True,
    ) -> World:
        mark = uuid.uuid4().hex[:6]
        topics = {f"orders-{mark}": 3, f"payments-{mark}": 2}
        _create(servers, topics, replication)
        seen_at = seen_at or tmp_path
        changes = {"source": {"topics": list(topics), **(source or {})}} | ({"spark": spark} if spark else {})
        job = JobFolder(tmp_path, driver_servers or servers, topics, root, seen_at, environment or {}, changes=changes)
        journal = Journal()
        values: dict[str, Any] = {}
        with ExitStack() as readers:
            reader = readers.enter_context(closing(TopicReader(servers, topics)))
            world = World(job, children, journal, reader, Tables(job.table_folders), seed, allowed)
            world.led_out |= led_out
            world.watched = watched
            world.direct_servers = servers
            if "intervals" in jobs_of(lanes):
                _add_intervals(world)
            if "decoded" in jobs_of(lanes):
                events = Events(registry, f"events-{mark}")
                _create(servers, {events.topic: 2}, replication)
                own = readers.enter_context(closing(TopicReader(servers, {events.topic: 2})))
                _add_decoded(world, own, events, driver_registry or registry)
                values[events.topic] = events.value
                topics = topics | {events.topic: 2}
            if "letters" in jobs_of(lanes):
                own_topics = {f"letters-{mark}": 2}
                _create(servers, own_topics, replication)
                own = readers.enter_context(closing(TopicReader(servers, own_topics)))
                _add_letters(world, own, own_topics)
                values |= dict.fromkeys(own_topics, letters.value)
                topics = topics | own_topics
            prepare(world)
            try:
                with Load(servers, topics, journal, seed, values=values) as load:
                    world.load = load
                    world.go(seconds, lanes, table, reached)
                restore(world)
                assert load.errors == []
                settle(world)
                world.settled = True
            except BaseException as error:
                _record(world, error)
                raise
            finally:
                with capsys.disabled():
                    print("\n" + report(world))
            _record(world, None)
        return world

    return run


def _add_intervals(world: World) -> None:
    """A job that lands the same topics by data intervals."""
    changes = {"interval": {"idle_after": "2s", "max_wait": "6s"}}
    job = _beside(world.job, "intervals", world.job.topics, changes)
    world.beside("intervals", job, world.reader, Tables(job.table_folders), allowed={"try again"})


def _add_decoded(world: World, reader: TopicReader, events: Events, registry: str) -> None:
    """A job with a schema registry, typed columns and dead letters."""
    where = f"{world.job.root or world.job.folder}/decoded/lake/typed"
    job = _beside(world.job, "decoded", {events.topic: 2}, events.job(registry, where))
    folder = str((world.job.seen_at or world.job.folder) / "decoded" / "lake" / "typed")
    tables = DecodedTables(folder, f"{folder}_dead_letters", events)
    decoded = world.beside("decoded", job, reader, tables, allowed=())
    tables.runs_of = decoded.runs_of


def _add_letters(world: World, reader: TopicReader, topics: dict[str, int]) -> None:
    """A job whose dead letters are redriven."""
    changes = letters.sections(f"{world.job.root or world.job.folder}/letters/lake/typed")
    changes["source"] = {"topics": list(topics), "on_data_loss": "record"}
    job = _beside(world.job, "letters", topics, changes)
    folder = str((world.job.seen_at or world.job.folder) / "letters" / "lake" / "typed")
    tables = letters.RedrivenTables(folder, f"{folder}_dead_letters")
    world.beside("letters", job, reader, tables, allowed=letters.ALLOWED, at_end=letters.at_end)


def _beside(job: JobFolder, name: str, topics: dict[str, int], changes: dict[str, Any]) -> JobFolder:
    root = f"{job.root}/{name}" if job.root else ""
    seen_at = (job.seen_at or job.folder) / name
    (seen_at / "lake").mkdir(parents=True)
    return JobFolder(job.folder / name, job.servers, topics, root, seen_at, job.environment, changes=changes)


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
