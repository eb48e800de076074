"""What the proofs of exactly once are made with: topics whose records are known, jobs in homes of their own, and child
processes that can be killed or suspended at any step.

What should have landed is known from the producer's delivery reports, and what the group holds is asked of librdkafka:
neither comes from the code under test.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import json
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import shared_jvm
from children import Children
from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.executors.local import pool, server_process
from kseg.etl.executors.local.server_process import ServerProcess
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.store import Ledger
from kseg.etl.operations import repair
from kseg.etl.operations.accept_source import SourceReport, accept_source
from kseg.etl.operations.accept_table import AcceptReport, accept_table
from kseg.etl.operations.backfill import run_backfill
from kseg.etl.operations.redrive import run_redrive
from kseg.etl.planning.backfill_request import BackfillRequest
from kseg.etl.planning.preflight import preflight
from kseg.etl.run.dry_run import plan_only
from kseg.etl.run.pipeline import run_ingest
from kseg.etl.run.report import RunReport
from kseg.etl.spark.job_session import JobSession
from skips import FULL


def _beside(name: str) -> ModuleType:
    """A module of this folder: importlib mode puts none of them where imports look."""
    spec = importlib.util.spec_from_file_location(f"exactly_once_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_records = _beside("records")
Records, Row = _records.Records, _records.Row


class Died(Exception):
    """What an observer raises to end a run at a step, where a death of the whole process is not the point."""


def die_at(step: str) -> Callable[[str], None]:
    """An observer: `ingest(observe=die_at("land:first:after"))` raises Died there."""

    def observe(seen: str) -> None:
        first, *middle, last = seen.split(":")
        if ":".join([first, *(Path(part).name for part in middle), last]) == step:
            raise Died(step)

    return observe


@pytest.fixture(scope="session")
def records(kafka: Any) -> Records:
    return Records(kafka)


@pytest.fixture(scope="session")
def records_of() -> Callable[[Any], Records]:
    """records_of(kafka): the same at a broker of a test's own."""
    return Records


# --- a job and all that belongs to it


@dataclass
class Home:
    """A job's folder: its file, its ledger, its tables; and its group.

    environment, python_path: what a child process that runs the job needs besides its file.
    """

    folder: Path
    records: Records
    topics: tuple[str, ...]
    document: dict[str, Any]
    servers: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    python_path: str = ""

    @property
    def file(self) -> Path:
        return self.folder / "job.yaml"

    @property
    def job(self) -> Job:
        return load_job(self.file)

    @property
    def group(self) -> str:
        return str(self.document["group"])

    @property
    def ledger(self) -> Ledger:
        return Ledger.open(self.folder / "ledger", create=False)

    @property
    def state(self) -> JobState:
        return self.ledger.read(self.document["name"])

    def change(self, **changes: Any) -> Home:
        """Change the job file; sections are merged, a None takes a key away."""
        _merge(self.document, changes)
        self.file.write_text(json.dumps(self.document, indent=1))  # JSON is YAML
        return self

    # --- running it here

    def ingest(self, **options: Any) -> RunReport:
        return run_ingest(self.job, **options)

    def plan(self, **options: Any) -> RunReport:
        return plan_only(self.job, **options)

    def die(self, step: str, **request: Any) -> None:
        """A run, or a backfill where one is asked for, that ends at this step."""
        run = self.backfill if request else self.ingest
        with pytest.raises(Died):
            run(observe=die_at(step), **request)

    def backfill(self, *, take_over: bool = False, observe: Any = None, **request: Any) -> RunReport:
        return run_backfill(self.job, BackfillRequest.parse(**request), take_over=take_over, observe=observe)

    def redrive(self, **options: Any) -> RunReport:
        return run_redrive(self.job, **options)

    def finish(self, run_id: str, **options: Any) -> RunReport:
        return repair.finish(self.job, run_id, **options)

    def abandon(self, run_id: str, **options: Any) -> RunReport:
        return repair.abandon(self.job, run_id, **options)

    def accept_table(self, name: str, **options: Any) -> AcceptReport:
        return accept_table(self.job, str(self.folder / "lake" / name), **options)

    def accept_source(self, *named: str, **options: Any) -> SourceReport:
        return accept_source(self.job, named, **options)

    def die_redriving(self, step: str) -> None:
        """A redrive that ends at this step."""
        with pytest.raises(Died):
            self.redrive(observe=die_at(step))

    # --- looking at what came of it

    @property
    def tables(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "lake").iterdir() if (path / "_delta_log").is_dir())

    def table(self, name: str) -> DeltaTable:
        return DeltaTable(self.folder / "lake" / name)

    def rows(self, *tables: str) -> list[Row]:
        """All rows of these tables, or of all there are."""
        found: list[Row] = []
        for table in tables or self.tables:
            read = self.table(table).to_pyarrow_table()
            read = read.set_column(
                read.schema.get_field_index("timestamp"), "timestamp", read["timestamp"].cast(pa.timestamp("ms", "UTC"))
            )
            for row in read.to_pylist():
                headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
                millis = int(row["timestamp"].timestamp() * 1000 + 0.5)
                place = (row["topic"], row["partition"], row["offset"])
                found.append((*place, row["key"], row["value"], millis, headers))
        return sorted(found)

    def addresses(self, *tables: str) -> list[tuple[str, int, int]]:
        return [row[:3] for row in self.rows(*tables)]

    def orphans(self) -> set[str]:
        """Data files that no version of any table has."""
        found = set()
        for name in self.tables:
            folder = self.folder / "lake" / name
            on_disk = {str(path.relative_to(folder)) for path in folder.rglob("*.parquet")}
            log = "".join(entry.read_text() for entry in (folder / "_delta_log").glob("*.json"))
            found |= {f"{name}/{path}" for path in on_disk if path not in log and "_delta_log" not in path}
        return found

    def frontiers(self) -> dict[tuple[str, int], int | None]:
        state = self.state
        return {(tp.topic, tp.partition): state.frontier(tp) for tp in state.bases}

    def group_offsets(self) -> dict[tuple[str, int], int]:
        return self.records.group_offsets(self.group)

    def assert_complete(self, *, runs: int, committed: bool = True, swept: bool = True) -> None:
        """Tables, ledger and group hold exactly what the topics hold up to their last stable offsets.

        runs: finished ones that the ledger must know. committed: the group has its offsets. swept: no files are left of
        attempts that did not land; not to be had where tasks of a dead driver still run in the tests' JVM.
        """
        assert self.rows() == self.records.rows(*self.topics)
        state, ends = self.state, self.records.ends(*self.topics)
        assert [run.phase for run in state.runs.values() if not run.abandoned] == ["finished"] * runs
        assert self.frontiers() == ends
        for tp, offsets in state.landed_offsets.items():
            assert list(offsets) == [(state.bases[tp], ends[tp])], tp
        assert state.leases
        assert all(lease.released for lease in state.leases.values())
        for path, known in state.tables.items():
            now = DeltaTable(path)
            assert (str(now.metadata().id), now.version()) == (known.id, known.version)
            assert known.rows == len(self.rows(Path(path).name))
        if committed:
            assert self.group_offsets() == ends
        if swept:
            assert self.orphans() == set()


def _merge(document: dict[str, Any], changes: dict[str, Any]) -> None:
    for key, value in changes.items():
        if value is None:
            document.pop(key, None)
        elif isinstance(value, dict) and isinstance(document.get(key), dict):
            _merge(document[key], value)
        else:
            document[key] = value


@pytest.fixture
def home_of(spark: Any, tmp_path: Path) -> Callable[..., Home]:
    """home_of(records, *topics, **changes): a job of its own over these topics. One topic lands in the table `first`;
    of several the first one does and all others in `rest`. Runs here land in the tests' Spark session."""
    return functools.partial(_home, tmp_path)


def _home(parent: Path, records: Records, *topics: str, **changes: Any) -> Home:
    name = f"job-{uuid.uuid4().hex[:8]}"
    folder = parent / f"home-{next(_numbers)}"
    folder.mkdir()
    document: dict[str, Any] = {
        "version": 1,
        "name": name,
        "kafka": {"bootstrap.servers": records.kafka.bootstrap_servers},
        "source": {"topics": list(topics)},
        "sink": {"path": "./lake/first"}
        if len(topics) == 1
        else {"routes": {topics[0]: {"path": "./lake/first"}, "*": {"path": "./lake/rest"}}},
        "group": f"group-of-{name}",
        "ledger": "./ledger",
        "run": {"lease": "2m", "deadline": "2m"},
        "spark": {"master": "local[1]", "conf": {"spark.driver.memory": "512m"}},
    }
    return Home(folder, records, topics, document).change(**changes)


_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def local_server() -> Iterator[ServerProcess]:
    """The process that forks the local engine's workers: what it loads, it loads once for all tests of a file. Others
    look whether there are such processes."""
    server = ServerProcess()
    yield server
    server.close()


@pytest.fixture
def spark_of_the_tests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a command starts Spark after all, it gets the tests' session: one that it made itself would stay for later
    tests of the process."""
    for way in ("session", "context"):
        started = getattr(JobSession, way)

        def start(self: JobSession, *, started: Callable[..., Any] = started, **options: Any) -> Any:
            if not self.remote:
                request.getfixturevalue("spark")
            return started(self, **options)

        monkeypatch.setattr(JobSession, way, start)


@pytest.fixture
def local_home(
    records: Records,
    tmp_path: Path,
    local_server: ServerProcess,
    spark_of_the_tests: None,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Home]:
    """As `home`, of jobs that run on the local engine: for tests whose subject is the ledger or a table."""
    shared = SimpleNamespace(fork=local_server.fork, close=lambda: None)
    for module in (pool, server_process):
        monkeypatch.setattr(module, "ServerProcess", lambda **_: shared)
    return functools.partial(_local_home, tmp_path, records)


@pytest.fixture(params=["local", "spark"] if FULL else ["local"])
def any_home(request: pytest.FixtureRequest) -> Callable[..., Home]:
    """As `home`, for tests whose subject is the ledger, the group or a table, and not where tasks run: on the local
    engine, which needs no Spark session; in the full scale on Spark as well."""
    if FULL:  # also for commands of the test that use Spark
        request.getfixturevalue("spark")
    made: Callable[..., Home] = request.getfixturevalue("local_home" if request.param == "local" else "home")
    return made


def _local_home(parent: Path, records: Records, *topics: str, **changes: Any) -> Home:
    made = _home(parent, records, *topics, run={"lease": "2m", "deadline": "2m", "engine": "local"})
    return made.change(**changes)


@pytest.fixture
def topic(records: Records) -> str:
    """A topic of two partitions, with committed and aborted transactions; tests of other topics have their own."""
    topic: str = records.topic(2)
    records.write_mixed(topic, 2, rounds=1)
    return topic


@pytest.fixture
def home(records: Records, home_of: Callable[..., Home]) -> Callable[..., Home]:
    """home(*topics, **changes): a job at the broker that the tests share; see `home_of`."""
    return functools.partial(home_of, records)


@pytest.fixture
def lasting_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' Spark outlives a run, and so does its catalog, which is in memory."""
    monkeypatch.setattr("kseg.etl.spark.job_session.refuse_forgetful", lambda *_: None)


@pytest.fixture
def in_bucket(
    s3: Any, home: Callable[..., Home], spark: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Home]]:
    """in_bucket(*topics): a job whose tables and ledger are in a bucket, which a folder of the test's shows."""
    workers: dict[str, str] = spark.sparkContext.environment
    environment = {**s3.environment, "AWS_ALLOW_HTTP": "true"}
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    for name, value in environment.items():
        monkeypatch.setitem(workers, name, value)
    made: list[Path] = []

    def make(*topics: str) -> Home:
        job = home(*topics)
        place = s3.folder / job.document["name"]
        (place / "lake").mkdir(parents=True)
        made.append(place)
        (job.folder / "lake").symlink_to(place / "lake")
        (job.folder / "ledger").symlink_to(place / "ledger")
        root = f"s3://logs/{job.document['name']}"
        job.environment = environment
        return job.change(
            ledger=f"{root}/ledger",
            sink={"routes": {topics[0]: {"path": f"{root}/lake/first"}, "*": {"path": f"{root}/lake/rest"}}},
        )

    yield make
    for place in made:
        shutil.rmtree(place)


@pytest.fixture
def look_behind(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[JobState]]:
    """look_behind(module, happens): a look of that module's at the job comes after something that happens when the
    ledger has been read. It happens once; gives the states that were looked from."""

    def patch(module: str, happens: Callable[[], Any]) -> list[JobState]:
        looks: list[JobState] = []

        def late(inputs: Any, state: JobState, *args: Any, **options: Any) -> Any:
            looks.append(state)
            if len(looks) == 1:
                happens()
            return preflight(inputs, state, *args, **options)

        monkeypatch.setattr(f"{module}.preflight", late)
        return looks

    return patch


# --- processes


@pytest.fixture(scope="session")
def all_children(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Children]:
    children = Children(tmp_path_factory.mktemp("children"), shared_jvm.gateway(spark))
    yield children
    children.close()


@pytest.fixture
def children(all_children: Children) -> Iterator[Children]:
    """children.run(home, at=step, signal=name): a process that runs the home's job."""
    before = len(all_children.all)
    yield all_children
    for child in all_children.all[before:]:
        child.end()
