"""A dozen DAGs on CeleryExecutor, while everything of Airflow's is killed at random (`make faults PROFILE=airflow`).

Two workers that share no run folder, a triggerer, a scheduler, an API server, drivers and tasks end by SIGKILL in an
order that a seed decides. In the end every record of every interval has landed once, every landing has its event, no
driver is left, and the password is in no file, log, command line or environment.

Half of the DAGs are deferrable, with a run folder that all see; the others are not, with that of the worker. Three wait
for an interval that ends only while parts are being killed. SEED= gives a run again, MINUTES= says for how long.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("airflow.sdk")

from airflow_faults import drivers, faults, inflict, left_of_drivers
from airflow_process import wait_for
from celery_airflow import WORKERS, CeleryAirflow, redis_server
from landed import consume, once, read_table
from onlooker import Onlooker, content
from patience import Patience
from skips import full_scale_only

if TYPE_CHECKING:
    from kseg_process import KafkaProcess, Kseg

JOBS = [f"faults-{number:02}" for number in range(12)]
LATE = JOBS[:3]
DEFERRABLE = JOBS[:6]
INTERVALS = int(os.environ.get("FAULTS_INTERVALS") or 2)
START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
PARTITIONS = 2
ROWS = 20
#: The records' times lie far back: a broker would remove them within minutes.
KEPT = {"retention.ms": "-1"}
SHORT_MINUTES = 2.0
FIXED_SEED = 20

DAGS = """
from datetime import datetime, timedelta
from airflow.sdk import DAG, CronDataIntervalTimetable
from kseg_airflow.operators import KsegBackfillOperator
from kseg_airflow.sensors import KsegIntervalClosedSensor

for job in {jobs!r}:
    deferrable = job in {deferrable!r}
    start = datetime.fromisoformat({start!r})
    asked = dict(job_file=f"{home}/jobs/{{job}}.yaml", kafka_conn_id="faults", deferrable=deferrable)
    with DAG(
        job,
        schedule=CronDataIntervalTimetable("@hourly", timezone="UTC"),
        start_date=start,
        end_date=start + timedelta(hours={intervals} - 1),
        catchup=True,
        max_active_runs=2,
        default_args={{"retries": 50, "retry_delay": timedelta(seconds=1)}},
    ) as globals()[job]:
        closed = KsegIntervalClosedSensor(task_id="closed", poke_interval=5, timeout=7200, **asked)
        land = KsegBackfillOperator(
            task_id="land",
            commit_offsets=True,
            pool="drivers",
            kill_grace=60,
            run_dir={home!r} + "/shared-runs" if deferrable else None,
            **asked,
        )
        closed >> land
"""


def job(name: str, home: Path, topic: str) -> dict[str, Any]:
    """A job that does not know where Kafka is: only the connection does."""
    return {
        "version": 1,
        "name": name,
        "kafka": {"bootstrap.servers": "told-by-the-connection.invalid:9092"},
        "source": {"topics": [topic]},
        "interval": {"idle_after": "3650d", "max_wait": "3650d"} if name in LATE else {},
        "sink": {"path": str(home / "lake" / name)},
        "ledger": str(home / "lake" / f"ledger-{'deferred' if name in DEFERRABLE else 'in-workers'}"),
        "group": name,
        "run": {"lease": "30s"},
        "spark": {"master": "local[1]", "conf": {"spark.ui.enabled": False, "spark.driver.memory": "512m"}},
    }


def milliseconds(when: datetime) -> int:
    return int(when.timestamp() * 1000)


def produce_hours(kafka: KafkaProcess, topic: str) -> None:
    """Records of all intervals, in each partition."""
    records = [
        {"value": f"{hour}:{n}", "partition": n % PARTITIONS, "timestamp": milliseconds(START + hour * HOUR) + n}
        for hour in range(INTERVALS)
        for n in range(ROWS)
    ]
    kafka.produce(topic, records)


def close_intervals(kafka: KafkaProcess, topic: str) -> None:
    """A record after the last interval, in each partition."""
    after = milliseconds(START + INTERVALS * HOUR)
    kafka.produce(topic, [{"value": "after", "partition": n, "timestamp": after} for n in range(PARTITIONS)])


@pytest.fixture
def seed() -> int:
    given = os.environ.get("FAULTS_SEED")
    if given is None and "FAULTS_MINUTES" not in os.environ:
        return FIXED_SEED
    return int(given) if given else random.randrange(1 << 30)


@pytest.fixture
def production(kafka: KafkaProcess, kseg: Kseg, tmp_path: Path) -> Iterator[CeleryAirflow]:
    for folder in ("jobs", "lake", "tmp", "shared-runs"):
        (tmp_path / folder).mkdir()
    python_path = [str(Path(__file__).parents[2] / "airflow"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        "KSEG_BINARY": str(kseg),
        "KSEG_LOGS": str(tmp_path / "kseg-logs"),
        "KSEG_RUN_DIR": str(tmp_path / "nobodys-runs"),
        "PYTHONPATH": os.pathsep.join(python_path),
        "TMPDIR": str(tmp_path / "tmp"),
    }
    running = CeleryAirflow(tmp_path, environment)
    try:
        running.start_all()
        yield running
    finally:
        running.stop()


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.skipif(
    redis_server() is None, reason="redis-server is not installed (Debian: apt-get install redis-server)"
)
@full_scale_only
def test_whatever_of_airflow_is_killed_each_interval_lands_once_and_has_its_event(
    production: CeleryAirflow, kafka: KafkaProcess, kseg: Kseg, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    home = production.home
    topics = {late: kafka.topic(PARTITIONS, KEPT, prefix=f"faults-{seed}") for late in (False, True)}
    for topic in topics.values():
        produce_hours(kafka, topic)
    close_intervals(kafka, topics[False])
    for name in JOBS:
        (home / "jobs" / f"{name}.yaml").write_text(json.dumps(job(name, home, topics[name in LATE])))
    production.connection("faults", "kafka", extra=kafka.connection)
    production.pool("drivers", 2, include_deferred=True)
    dags = DAGS.format(jobs=JOBS, deferrable=DEFERRABLE, start=START.isoformat(), home=str(home), intervals=INTERVALS)
    production.add_dag(dags, "faults.py", expect=JOBS)
    account = [f"seed {seed}"]

    def say(what: str) -> None:
        account.append(f"{datetime.now(UTC):%H:%M:%S} {what}")
        with capsys.disabled():
            print(account[-1], flush=True)

    with Onlooker(kafka.password, every=2.0) as onlooker:
        for name in JOBS:
            production.unpause(name)
        over = time.monotonic() + 60 * float(os.environ.get("FAULTS_MINUTES") or SHORT_MINUTES)
        for number, fault in enumerate(faults(seed)):
            patience = Patience(fault.pause)
            while not patience.over():
                time.sleep(0.5)
            if time.monotonic() > over or not unended(production):
                break
            if number == 4:
                close_intervals(kafka, topics[True])
                say("the last intervals are closed")
            say(inflict(production, fault))
        else:
            raise AssertionError("the faults never end")
        if number <= 4:
            close_intervals(kafka, topics[True])
        production.restart_missing()
        say("nothing is killed any more")
        try:
            wait_for(lambda: not unended(production), "all runs end", timeout=1800, every=5)
        except TimeoutError as late:
            told = [f"{name} {run}\n{production.account(name, run)}" for name, run in unended(production)]
            raise TimeoutError("\n".join([str(late), *account, *told])) from None
        wait_for(lambda: not drivers(home), "the last drivers end", timeout=300)
        wait_for(lambda: not left_of_drivers(home), "nothing is left of drivers", timeout=60)

    say("all runs have ended")
    assert not failed(production), account
    for name in JOBS:
        assert_landed(production, kafka, kseg, name, topics[name in LATE])
    assert any("--command-config" in line for line in onlooker.seen)
    assert onlooker.found == set()
    written = [path for path in home.rglob("*") if path.is_file()]
    assert {"result.json", "run.json", "driver.log", "triggerer.log", "worker-a.log"} <= {path.name for path in written}
    assert [path for path in written if kafka.password.encode() in content(path)] == []
    assert [path for path in written if path.name == "kafka.properties"] == []
    tries = {worker: len(list(production.run_dir(worker).glob("*/*/*/try-*"))) for worker in WORKERS}
    say(f"drivers: {tries}, shared {len(list((home / 'shared-runs').glob('*/*/*/try-*')))}")


def unended(airflow: CeleryAirflow) -> list[tuple[str, str]]:
    """The runs that have not ended; one for each DAG that has not all of its runs yet."""
    found = []
    for name in JOBS:
        runs = airflow.runs(name)
        found += [(name, run["dag_run_id"]) for run in runs if run["state"] not in ("success", "failed")]
        if len(runs) < INTERVALS and not any(of == name for of, _ in found):
            found.append((name, runs[-1]["dag_run_id"] if runs else ""))
    return found


def failed(airflow: CeleryAirflow) -> list[str]:
    """The account of each run that has failed."""
    runs = [(name, run) for name in JOBS for run in airflow.runs(name) if run["state"] != "success"]
    return [airflow.account(name, run["dag_run_id"]) for name, run in runs]


def assert_landed(airflow: CeleryAirflow, kafka: KafkaProcess, kseg: Kseg, name: str, topic: str) -> None:
    """Every record of the intervals once; an event for each run that has landed rows, and for no other."""
    end = milliseconds(START + INTERVALS * HOUR)
    expected = {address for address, timestamp in consume(kafka, topic).items() if timestamp < end}
    assert len(expected) == ROWS * INTERVALS
    assert read_table(kseg, airflow.home / "lake" / name).addresses == once(expected), name
    landed: set[str] = set()
    for event in airflow.asset_events(dag=name):
        told = event["extra"]["kseg"]
        landed |= {one["run"] for one in (told, *told.get("earlier", []))}
    status = kseg.json("status", airflow.home / "jobs" / f"{name}.yaml", "--runs", "100", *login(airflow, kafka))
    runs = {run["run_id"]: run for run in status["runs"]}
    assert {run["phase"] for run in runs.values()} == {"finished"}, (name, status)
    assert landed == {run for run, told in runs.items() if told["rows_out"]}, (name, status)
    assert len(landed) == INTERVALS, (name, status)
    assert status["leases"] == [], name
    assert kafka.group_offsets(name) == {
        (topic, partition): 1 + max(offset for _, number, offset in expected if number == partition)
        for partition in range(PARTITIONS)
    }


def login(airflow: CeleryAirflow, kafka: KafkaProcess) -> list[str]:
    """How `kseg` itself reaches the broker: by the listener without a password."""
    file = airflow.home / "plain.properties"
    file.write_text(f"bootstrap.servers={kafka.bootstrap_servers}\n")
    return ["--command-config", str(file)]
