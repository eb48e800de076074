"""What becomes of runs when parts of Airflow die in their midst, and when a person stops one.

The jobs have a step that holds their tasks until a test lets them go, so that all that happens meanwhile
happens in the midst of a run, however slow the machine is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

pytest.importorskip("airflow.sdk")

from airflow_process import wait_for
from kseg_airflow.processes import find
from landed import consume, once, read_table

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess, Kseg

ANOTHER_RUN_ACTIVE = 5  # a driver's exit code

RETRIED = {"retries": 2, "retry_delay": "1s"}


class Hold:
    """The folder that holding.py looks at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.again()

    def again(self) -> None:
        for file in self.folder.iterdir():
            file.unlink()

    def release(self) -> None:
        (self.folder / "released").touch()

    def wait_for(self, count: int) -> None:
        """Until so many tasks stand still."""
        wait_for(lambda: len(list(self.folder.glob("held-*"))) >= count, f"{count} tasks stand still", timeout=400)


@pytest.fixture
def hold(airflow: RunningAirflow) -> Iterator[Hold]:
    held = Hold(Path(airflow.environment["KSEG_TEST_HOLD"]))
    yield held
    held.release()


def drivers(airflow: RunningAirflow, job: str, run: str) -> list[psutil.Process]:
    """The driver processes that a run's task has started so far, dead ones left out."""
    found = []
    for file in sorted((airflow.home / "kseg" / job).glob(f"{glob_escaped(run)}*/ingest/try-*/run.json")):
        told = json.loads(file.read_text())
        if (process := find(told["pid"], told["pid_started"])) is not None:
            found.append(process)
    return found


def succeeded(airflow: RunningAirflow, job: str) -> list[bool]:
    """Whether each driver of a job's only run came to its end, the first one's first.

    Those that met the lease of a driver that had been killed (5) are left out: the task starts another one at once,
    which takes the lease over. Whether there is such a one depends on whether the next try comes before the lease ends.
    """
    tries = (airflow.home / "kseg" / job).glob("*/ingest/try-*")
    codes = [int((of / "exit").read_text()) for of in sorted(tries, key=lambda of: int(of.name.partition("-")[2]))]
    return [code == 0 for code in codes if code != ANOTHER_RUN_ACTIVE]


def glob_escaped(run: str) -> str:
    """A run's folder begins with the run id, as far as that is a file's name."""
    return run.partition("T")[0].replace("[", "[[]")


def test_runs_outlive_triggerer_worker_and_scheduler_and_a_stopped_one_ends_its_spark_job(
    job_files: Any, airflow: RunningAirflow, kafka: KafkaProcess, kseg: Kseg, hold: Hold
) -> None:
    topic = kafka.topic(1)
    kafka.produce(topic, [{"value": f"record {n}"} for n in range(5)])
    steps = [{"arrow": "holding:until_released"}]
    deferred = job_files.add(topic, transform=steps, airflow=RETRIED)
    stopped = job_files.add(topic, engine="spark", transform=steps, airflow=RETRIED)
    in_a_worker = job_files.add(topic, transform=steps, airflow=RETRIED | {"execution": {"deferrable": False}})
    jobs = (deferred, stopped, in_a_worker)
    runs = {job: airflow.trigger(job) for job in jobs}
    hold.wait_for(3)
    before = {job: drivers(airflow, job, runs[job]) for job in jobs}
    assert [len(found) for found in before.values()] == [1, 1, 1]

    # A person stops one: its Spark job ends, those of the others do not.
    airflow.wait_until_watched(stopped, runs[stopped], "ingest")
    airflow.mark_task(stopped, runs[stopped], "ingest", "failed")
    psutil.wait_procs(before[stopped], timeout=300)
    assert drivers(airflow, stopped, runs[stopped]) == []
    airflow.wait_for_run(stopped, runs[stopped], "failed")

    # Everything of Airflow's dies that has to do with the others.
    airflow.wait_for_task(deferred, runs[deferred], "ingest", "deferred")
    airflow.kill("triggerer")
    airflow.kill_task(in_a_worker, runs[in_a_worker], "ingest")
    airflow.kill("scheduler")
    for job in (deferred, in_a_worker):
        assert drivers(airflow, job, runs[job]) == before[job]
    airflow.restart("scheduler")
    airflow.restart("triggerer")

    hold.release()
    airflow.clear(stopped, runs[stopped])
    for job in jobs:
        airflow.wait_for_run(job, runs[job], timeout=300)
        assert read_table(kseg, job_files.table(job)).addresses == once(set(consume(kafka, topic)))
        assert kafka.group_offsets(job) == {(topic, 0): 5}
    assert [succeeded(airflow, job) for job in jobs] == [[True], [False, True], [True]]
    assert airflow.task(in_a_worker, runs[in_a_worker], "ingest")["try_number"] == 2


def test_a_run_that_is_cleared_in_its_midst_is_stopped_unless_the_new_attempt_has_attached_to_it(
    job_files: Any, airflow: RunningAirflow, kafka: KafkaProcess, kseg: Kseg, hold: Hold
) -> None:
    topic = kafka.topic(1)
    kafka.produce(topic, [{"value": f"record {n}"} for n in range(5)])
    job = job_files.add(topic, transform=[{"arrow": "holding:until_released"}], airflow=RETRIED)
    run = airflow.trigger(job)
    hold.wait_for(1)
    [driver] = drivers(airflow, job, run)
    airflow.wait_until_watched(job, run, "ingest")
    airflow.clear(job, run)

    def attached() -> bool:
        return "Attached to the driver of a previous try" in airflow.log(job, run, "ingest")

    # Airflow starts the new attempt and tells the triggerer of the clear in no order.
    wait_for(
        lambda: driver not in drivers(airflow, job, run) or attached(),
        "the driver ends or is followed again",
        timeout=300,
    )
    continued = driver in drivers(airflow, job, run)
    if continued:
        wait_for(
            lambda: "Another try of the task follows the driver" in airflow.log(job, run, "ingest", 1),
            "the old attempt's trigger leaves the driver alone",
            timeout=300,
        )
        assert drivers(airflow, job, run) == [driver]
    hold.release()
    airflow.wait_for_run(job, run, timeout=300)
    assert read_table(kseg, job_files.table(job)).addresses == once(set(consume(kafka, topic)))
    assert kafka.group_offsets(job) == {(topic, 0): 5}
    assert succeeded(airflow, job) == ([True] if continued else [False, True])
