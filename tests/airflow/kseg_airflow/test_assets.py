"""Tables as assets: known from the job file before a run, and told of by events after it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import DAG

from kseg_airflow.assets import (
    emit,
    event_extra,
    job_alias,
    job_assets,
    job_outlets,
    job_tables,
    landed_tables,
    table_asset,
    table_uri,
)
from kseg_airflow.compat import Asset, AssetAlias
from kseg_airflow.operators import KsegBackfillOperator, KsegIngestOperator, KsegRecoverOperator

if TYPE_CHECKING:
    from kseg_process import Kseg

JOB = """
version: 1
name: orders
kafka: {{bootstrap.servers: "localhost:9092"}}
source: {source}
sink: {sink}
ledger: ./lake/_ledger
"""
REPORT = {
    "job": "orders",
    "run": "r1",
    "mode": "interval",
    "status": "done",
    "ranges": [{"topic": "orders", "partition": 0, "start": 5, "end": 9, "records": 4}],
    "counts": {"records": 4},
    "tables": [{"path": "/lake/orders", "version": 3, "rows": 4}, {"path": "/lake/empty", "version": None, "rows": 0}],
    "group": {"group": "g", "how": "transactional", "offsets": {"orders": {"0": 9}}},
    "report": "/runs/r1.html",
    "seconds": {"total": 1.0},
}


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/lake/orders", "file:///lake/orders"),
        ("/lake/my orders/", "file:///lake/my%20orders"),
        ("s3://lake/orders/", "s3://lake/orders"),
        ("S3://lake//raw/./orders", "s3://lake/raw/orders"),
        ("file:///lake/my orders", "file:///lake/my%20orders"),
        ("file:///lake/my%20orders", "file:///lake/my%20orders"),
        ("file://localhost/lake/orders", "file:///lake/orders"),
        ("main.raw.orders", "x-delta:main.raw.orders"),
    ],
)
def test_a_table_has_one_uri_which_airflow_leaves_as_it_is(path: str, uri: str) -> None:
    assert table_uri(path) == uri
    assert table_asset(path).uri == uri


@pytest.mark.parametrize(
    ("source", "sink", "tables", "complete"),
    [
        ("{topics: [a]}", "{path: ./lake/orders}", ["lake/orders"], True),
        ("{topics: [a, b]}", "{path: './lake/{topic}'}", ["lake/a", "lake/b"], True),
        ("{assign: {a: [0]}}", "{path: './lake/{topic}'}", ["lake/a"], True),
        ("{pattern: '^o'}", "{path: './lake/{topic}'}", [], False),
        ("{pattern: '^o'}", "{routes: {a: {path: ./x}, '*': {path: '{topic}'}}}", ["x"], False),
        ("{topics: [a]}", "{path: './${KSEG_TEST_FOLDER}/orders'}", ["deep/orders"], True),
        ("{topics: [a]}", "{path: './${KSEG_TEST_NOWHERE}/orders'}", [], False),
    ],
)
def test_the_tables_of_a_job_are_known_from_its_file(
    tmp_path: Path, source: str, sink: str, tables: list[str], complete: bool
) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(JOB.format(source=source, sink=sink))
    known = job_tables(file, {"KSEG_TEST_FOLDER": "deep"})
    assert known == ([str(tmp_path / table) for table in tables], complete)
    outlets = job_outlets(file, {"KSEG_TEST_FOLDER": "deep"})
    assert [o.uri for o in outlets if isinstance(o, Asset)] == [f"file://{tmp_path}/{table}" for table in tables]
    assert [o.name for o in outlets if isinstance(o, AssetAlias)] == ([] if complete else ["kseg:orders"])


@pytest.mark.parametrize(
    ("path", "landed"),
    [
        ("${LAKE}/orders", "s3://lake/orders"),
        ("S3://lake/./orders/", "s3://lake/orders"),
        ("s3://lake", "s3://lake"),
        ("file:///lake/my orders", "/lake/my orders"),
        ("file://localhost/lake//orders", "/lake/orders"),
    ],
)
def test_a_landing_has_its_event_however_the_job_file_spells_the_tables_place(
    tmp_path: Path, path: str, landed: str
) -> None:
    """The outlet had another URI than the table of the report: no event, although the log said "Landed in"."""
    file = tmp_path / "orders.yaml"
    file.write_text(JOB.format(source="{topics: [a]}", sink=f"{{path: '{path}'}}"))
    task, events = KsegIngestOperator(task_id="i", job_file=file, env={"LAKE": "s3://lake/"}), Events()
    [outlet] = task.outlets
    emit({"outlet_events": events}, task, [landed], {"kseg": 1})
    assert task.outlets == [outlet]
    assert events[outlet].extra == {"kseg": 1}


def test_a_table_that_nothing_can_tell_of_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    emit({"outlet_events": Events()}, Task(table_asset("/lake/orders")), ["/lake/orders", "/lake/other"], {})
    assert [record.getMessage() for record in caplog.records] == [
        "No asset event tells of file:///lake/other: it is no outlet of the task, and the task has no alias"
    ]


def test_what_kseg_refuses_as_a_place_is_no_outlet(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(JOB.format(source="{topics: [a]}", sink="{path: 'file://host/orders'}"))
    assert job_tables(file) == ([], False)
    [outlet] = KsegRecoverOperator(task_id="r", folders="/logs", to="s3:///orders").outlets
    assert isinstance(outlet, AssetAlias)


def test_two_dollars_are_no_reference(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(JOB.format(source="{topics: [a]}", sink="{path: './$${KSEG_TEST_NOWHERE}/orders'}"))
    assert job_tables(file) == ([str(tmp_path / "${KSEG_TEST_NOWHERE}" / "orders")], True)


def test_a_job_file_is_read_as_kseg_reads_it(tmp_path: Path, kseg: Kseg) -> None:
    """The table's place, spelled as a run's report spells it."""
    file = tmp_path / "orders.yaml"
    file.write_text(JOB.format(source="{topics: [orders]}", sink="{path: ./x/../lake//orders/}"))
    assert kseg.json("check", file)
    assert [asset.uri for asset in job_assets(file)] == [f"file://{tmp_path}/lake/orders"]


def test_an_unreadable_job_file_takes_no_dag_away(tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text("{")
    task = KsegIngestOperator(task_id="ingest", job_file=str(file))
    assert [outlet.name for outlet in task.outlets] == ["kseg:broken"]


def test_tables_that_are_known_only_when_a_task_runs_have_an_alias(tmp_path: Path) -> None:
    """They had no outlet at all, or one with the template in its address."""
    file = tmp_path / "orders.yaml"
    file.write_text(JOB.format(source="{topics: [orders]}", sink="{path: './${KSEG_TEST_FOLDER}/orders'}"))
    with DAG("known_later", schedule=None):
        tasks = [
            KsegIngestOperator(task_id="templated", job_file="{{ params.job }}"),
            KsegIngestOperator(task_id="environment", job_file=file, env={"KSEG_TEST_FOLDER": "{{ ds }}"}),
            KsegRecoverOperator(task_id="recover", folders="/logs", to="/lake/{{ ds }}"),
        ]
    assert [[outlet.name for outlet in task.outlets] for task in tasks] == [
        ["kseg:known_later.templated"],
        ["kseg:orders"],
        ["kseg:known_later.recover"],
    ]
    assert tasks[1].job_file == str(file)
    events, landed = Events(), {**REPORT, "status": "done"}
    emit({"outlet_events": events}, tasks[0], landed_tables(landed), {"kseg": 1})
    assert events[tasks[0].outlets[0]].added == [("file:///lake/orders", {"kseg": 1})]


def test_a_mapped_task_tells_of_its_tables_by_the_alias_that_it_was_given(tmp_path: Path) -> None:
    """Its tables are no outlets that the scheduler knows."""
    file = tmp_path / "orders.yaml"
    file.write_text(JOB.format(source="{topics: [orders]}", sink="{path: /lake/orders}"))
    alias = job_alias("all_jobs")
    with DAG("mapped", schedule=None):
        mapped = KsegIngestOperator.partial(task_id="ingest", outlets=[alias]).expand(job_file=[str(file)])
    assert mapped.outlets == [alias]
    task = mapped.unmap({"job_file": str(file)})
    assert task.outlets == [alias]
    events = Events()
    emit({"outlet_events": events}, task, landed_tables(REPORT), {"kseg": 1})
    assert events[alias].added == [("file:///lake/orders", {"kseg": 1})]


def test_operators_have_the_tables_as_outlets_beside_given_ones(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(JOB.format(source="{topics: [orders]}", sink="{path: ./lake/orders}"))
    other = Asset(uri="x-other://thing")
    task = KsegBackfillOperator(task_id="land", job_file=str(file), outlets=[other])
    assert [outlet.uri for outlet in task.outlets] == ["x-other://thing", f"file://{tmp_path}/lake/orders"]
    assert KsegIngestOperator(task_id="i", job_file=str(file), emit_assets=False).outlets == []
    rescue = KsegRecoverOperator(task_id="r", folders="/logs", to="/lake/rescued")
    assert [outlet.uri for outlet in rescue.outlets] == ["file:///lake/rescued"]


def test_an_event_tells_of_ranges_counts_and_versions() -> None:
    told = event_extra(REPORT, ("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"))["kseg"]
    assert told == {
        "version": 1,
        "job": "orders",
        "run": "r1",
        "mode": "interval",
        "interval": ["2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"],
        "ranges": [{"topic": "orders", "partition": 0, "start": 5, "end": 9}],
        "counts": {"records": 4},
        "tables": REPORT["tables"],
        "group": {"group": "g", "offsets": {"orders": {"0": 9}}},
        "report": "/runs/r1.html",
    }


def test_many_ranges_are_left_to_the_ledger_and_counted() -> None:
    ranges = [{"topic": "t", "partition": n, "start": 0, "end": 1} for n in range(10_000)]
    told = event_extra({**REPORT, "ranges": ranges})["kseg"]
    assert len(told["ranges"]) + told["ranges_left_out"] == 10_000
    assert told["ranges_left_out"] == 8_000


class Events(dict[Any, Any]):
    """Stands where Airflow's accessors stand: makes an entry for what is asked for."""

    class Entry:
        def __init__(self) -> None:
            self.extra: Any = None
            self.added: list[Any] = []

        def add(self, asset: Any, extra: Any) -> None:
            self.added.append((asset.uri, extra))

    def __missing__(self, key: Any) -> Any:
        self[key] = self.Entry()
        return self[key]


class Task:
    def __init__(self, *ours: Any, others: tuple[Any, ...] = ()) -> None:
        self.kseg_outlets = list(ours)
        self.outlets = [*ours, *others]


def test_only_tables_that_were_landed_in_keep_their_event() -> None:
    orders, empty, other = table_asset("/lake/orders"), table_asset("/lake/empty"), Asset(uri="x-other://thing")
    task, events = Task(orders, empty, others=(other,)), Events()
    assert emit({"outlet_events": events}, task, landed_tables(REPORT), {"kseg": 1}) == ["file:///lake/orders"]
    assert task.outlets == [orders, other]
    assert events[orders].extra == {"kseg": 1}


def test_where_nothing_was_landed_there_is_no_event() -> None:
    orders = table_asset("/lake/orders")
    task = Task(orders)
    assert emit({"outlet_events": Events()}, task, landed_tables({**REPORT, "status": "nothing-to-do"}), {}) == []
    assert task.outlets == []
    assert landed_tables({**REPORT, "status": "nothing-to-do"}) == []


def test_a_table_that_nobody_named_is_told_of_by_the_jobs_alias() -> None:
    alias = AssetAlias("kseg:orders")
    task, events = Task(alias), Events()
    emit({"outlet_events": events}, task, landed_tables(REPORT), {"kseg": 1})
    assert events[alias].added == [("file:///lake/orders", {"kseg": 1})]
