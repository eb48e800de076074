"""The example DAGs, each run as it is: what it lands, what its asset events tell, and what a run once more changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("airflow.sdk")

from airflow_process import wait_for
from landed import consume, once, read_table

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess, Kseg

HOUR = timedelta(hours=1)


def millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)


@dataclass(frozen=True)
class Scene:
    """A topic `orders` whose records lie in three hours, the runs that landed it, and where."""

    lake: Path
    hours: tuple[datetime, datetime]
    first: str
    second: str
    hourly: str
    recovery: str

    @property
    def table(self) -> Path:
        return self.lake / "orders"


def orders(number: int, times: list[datetime]) -> list[dict[str, Any]]:
    """Records in turns for two partitions, spread over the given times."""
    return [
        {"value": f"order {n}", "partition": n % 2, "timestamp": millis(times[n * len(times) // number])}
        for n in range(number)
    ]


def all_ended(airflow: RunningAirflow, dag: str) -> bool:
    return all(run["state"] in ("success", "failed") for run in airflow.runs(dag))


def put_to_rest(airflow: RunningAirflow, dag: str) -> None:
    """Pause a DAG when none of its runs is active: one that is would stand still in its midst."""

    def rests() -> bool:
        airflow.pause(dag)
        if all_ended(airflow, dag):
            return True
        airflow.unpause(dag)
        return False

    wait_for(rests, f"{dag} rests", every=5)


@pytest.fixture(scope="module")
def scene(_examples: RunningAirflow, _kafka: KafkaProcess) -> Iterator[Scene]:
    """Two ingests with new records in between; one hour and the log files meanwhile."""
    airflow, kafka = _examples, _kafka
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    a, b = now - 3 * HOUR, now - 2 * HOUR
    kafka.topic(2, {"retention.ms": "-1"}, name="orders")
    kafka.produce("orders", orders(20, [a - HOUR / 2, a, a + HOUR / 2]))
    airflow.unpause("kseg_downstream")
    airflow.unpause("kseg_scheduled_ingest")
    first = airflow.wait_for_next_run("kseg_scheduled_ingest")
    # Whichever run lands what is written now, this one or that of the next quarter of an hour, lands all of it.
    wait_for(lambda: all_ended(airflow, "kseg_scheduled_ingest"), "every ingest has ended")
    airflow.wait_for_run("kseg_scheduled_ingest", first)
    kafka.produce("orders", orders(10, [b, b + HOUR / 2]))
    second = airflow.trigger("kseg_scheduled_ingest")
    hourly = airflow.trigger("kseg_interval_ingest", logical_date=a, interval=(a, b))
    recovery = airflow.trigger("kseg_recover_segments", conf={"folders": kafka.log_dirs, "topics": ["orders"]})
    lake = Path(airflow.environment["KSEG_LAKE"])
    yield Scene(lake, (a, b), first, second, hourly, recovery)
    for dag in ("kseg_scheduled_ingest", "kseg_interval_ingest", "kseg_downstream"):
        airflow.pause(dag)


def test_no_example_has_an_import_error(examples: RunningAirflow) -> None:
    assert examples.import_errors() == []


def test_two_scheduled_ingests_land_each_record_once(
    airflow: RunningAirflow, kafka: KafkaProcess, kseg: Kseg, scene: Scene
) -> None:
    airflow.wait_for_run("kseg_scheduled_ingest", scene.second)
    assert read_table(kseg, scene.table).addresses == once(set(consume(kafka, "orders")))
    assert kafka.group_offsets("orders-etl") == {("orders", 0): 15, ("orders", 1): 15}
    before = read_table(kseg, scene.table).version
    nothing_new = airflow.trigger("kseg_scheduled_ingest")
    airflow.wait_for_run("kseg_scheduled_ingest", nothing_new)
    assert read_table(kseg, scene.table).version == before
    assert airflow.asset_events(dag="kseg_scheduled_ingest", run=nothing_new) == []


def test_the_asset_event_tells_what_landed_and_starts_what_comes_after(airflow: RunningAirflow, scene: Scene) -> None:
    airflow.wait_for_run("kseg_scheduled_ingest", scene.second)
    told = airflow.asset_events(dag="kseg_scheduled_ingest")
    assert [event["uri"] for event in told] == [scene.table.as_uri()] * 2
    first, second = (event["extra"]["kseg"] for event in told)
    assert [(r["topic"], r["partition"], r["start"], r["end"]) for r in first["ranges"]] == [
        ("orders", 0, 0, 10),
        ("orders", 1, 0, 10),
    ]
    assert [(r["start"], r["end"]) for r in second["ranges"]] == [(10, 15), (10, 15)]
    assert (first["job"], first["mode"], first["interval"]) == ("orders", "incremental", None)
    assert [table["rows"] for table in (*first["tables"], *second["tables"])] == [20, 10]
    assert {table["path"] for table in (*first["tables"], *second["tables"])} == {str(scene.table)}
    assert first["tables"][0]["version"] < second["tables"][0]["version"]
    assert second["group"] == {"group": "orders-etl", "offsets": {"orders": {"0": 15, "1": 15}}}
    after: list[dict[str, Any]] = []
    while len(after) < 2:
        runs = [run["dag_run_id"] for run in airflow.runs("kseg_downstream")]
        for run in runs:
            airflow.wait_for_run("kseg_downstream", run)
        after = [landed for run in runs for landed in airflow.xcom("kseg_downstream", run, "read_what_landed")]
        if len(after) < 2:
            airflow.wait_for_next_run("kseg_downstream", known=runs)
    assert {(landed["run"], landed["version"]) for landed in after} == {
        (extra["run"], extra["tables"][0]["version"]) for extra in (first, second)
    }


def test_an_hour_lands_what_lies_in_it_and_nothing_when_it_is_cleared(
    airflow: RunningAirflow, kafka: KafkaProcess, kseg: Kseg, scene: Scene
) -> None:
    airflow.wait_for_run("kseg_interval_ingest", scene.hourly)
    a, b = map(millis, scene.hours)
    table = scene.lake / "orders_by_hour"
    in_the_hour = {address for address, time in consume(kafka, "orders").items() if a <= time < b}
    landed = read_table(kseg, table)
    assert landed.addresses >= once(in_the_hour)  # the hour that has just ended may have a run of its own
    assert max(landed.addresses.values()) == 1
    [event] = airflow.asset_events(dag="kseg_interval_ingest", run=scene.hourly)
    assert [datetime.fromisoformat(text) for text in event["extra"]["kseg"]["interval"]] == list(scene.hours)
    airflow.clear("kseg_interval_ingest", scene.hourly)
    airflow.wait_for_task("kseg_interval_ingest", scene.hourly, "land", attempt=2)
    assert len(airflow.asset_events(dag="kseg_interval_ingest", run=scene.hourly)) == 1


def test_log_files_are_recovered(airflow: RunningAirflow, kafka: KafkaProcess, kseg: Kseg, scene: Scene) -> None:
    airflow.wait_for_run("kseg_recover_segments", scene.recovery)
    assert read_table(kseg, scene.lake / "recovered").addresses == once(set(consume(kafka, "orders")))


def test_a_backfill_replaces_what_stands_there(
    airflow: RunningAirflow, kafka: KafkaProcess, kseg: Kseg, scene: Scene
) -> None:
    airflow.wait_for_run("kseg_scheduled_ingest", scene.second)
    before = read_table(kseg, scene.table)
    asked = {"from": ["orders:0:2", "orders:1:3"], "to": ["orders:0:5", "orders:1:4"], "mode": "replace"}
    run = airflow.trigger("kseg_backfill", conf=asked)
    airflow.wait_for_run("kseg_backfill", run)
    after = read_table(kseg, scene.table)
    assert after.version > before.version
    assert after.addresses == before.addresses
    [event] = airflow.asset_events(dag="kseg_backfill", run=run)
    assert [(r["partition"], r["start"], r["end"]) for r in event["extra"]["kseg"]["ranges"]] == [(0, 2, 5), (1, 3, 4)]


@pytest.mark.parametrize(
    "conf",
    [{}, {"from": ["orders:0"], "to": ["orders:0:5"]}, {"from": ["orders:0:1"], "to": ["orders:0:5"], "mode": "again"}],
)
def test_a_backfill_that_makes_no_sense_is_refused_before_it_begins(
    examples: RunningAirflow, conf: dict[str, Any]
) -> None:
    with pytest.raises(AssertionError, match=r": (400|422) "):
        examples.trigger("kseg_backfill", conf=conf)


def test_maintenance_leaves_every_row(airflow: RunningAirflow, kseg: Kseg, scene: Scene) -> None:
    airflow.wait_for_run("kseg_interval_ingest", scene.hourly)
    before = read_table(kseg, scene.table)
    run = airflow.trigger("kseg_table_maintenance")
    airflow.wait_for_run("kseg_table_maintenance", run)
    after = read_table(kseg, scene.table)
    assert after.addresses == before.addresses
    assert after.version > before.version


def test_drift_is_found_when_somebody_moves_the_groups_offset(
    airflow: RunningAirflow, kafka: KafkaProcess, scene: Scene
) -> None:
    for dag, run in (("kseg_scheduled_ingest", scene.second), ("kseg_interval_ingest", scene.hourly)):
        airflow.wait_for_run(dag, run)
    put_to_rest(airflow, "kseg_scheduled_ingest")  # it would notice, too
    agreed = airflow.trigger("kseg_drift_check")
    airflow.wait_for_run("kseg_drift_check", agreed)
    kafka.set_group_offset("orders-etl", "orders", 1, 3)
    try:
        run = airflow.trigger("kseg_drift_check")
        airflow.wait_for_run("kseg_drift_check", run, "failed")
        assert airflow.task("kseg_drift_check", run, "audit_orders")["try_number"] == 1
        assert "orders" in airflow.wait_for_log("kseg_drift_check", run, "audit_orders", "partition=1")
        assert airflow.task("kseg_drift_check", run, "audit_orders_by_hour")["state"] == "success"
    finally:
        kafka.set_group_offset("orders-etl", "orders", 1, 15)
