"""What a job file means: forms, defaults, places, the hash of what decides rows, and the pinned copy."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.config.job import Job
from kseg.etl.config.load import job_from_document, load_job
from kseg.etl.config.sections import ArrowSection, AtTime, PythonSection, Segments, SqlSection, TargetName
from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.source.job_origin import origin_of
from kseg.etl.source.origin import LogFiles
from kseg.etl.transform.arrow import ArrowStep
from kseg.etl.transform.python import PythonStep
from kseg.etl.transform.sql import SqlStep
from kseg.etl.transform.transform import BatchSteps, Transform, transform_of

FULL = """
version: 1
name: orders
kafka:
  bootstrap.servers: localhost:9092
  security.protocol: PLAINTEXT
source:
  topics: [orders]
  isolation_level: read_committed
  starting_offsets: earliest
  ending_offsets: latest
  max_records_per_task: 1000000
  on_data_loss: fail
  on_gap: fail
  untimed: refuse
  provenance: false
transform:
  - arrow: "my_module:enrich"
  - sql: "SELECT *, CAST(value AS STRING) AS body FROM __rows__"
  - python: "my_module:clean"
sink:
  path: ./lake/orders
  partition_by: []
  cluster_by: []
  merge_schema: false
group: orders-etl
group_commit: transactional
transactional_id: null
ledger: ./lake/_kseg_ledger
run: {lease: 2m, deadline: 1h}
spark: {master: "local[*]", conf: {}}
"""

Load = Callable[..., Job]


def test_the_full_form_is_read(load: Load, tmp_path: Path) -> None:
    job = load(FULL)
    assert job.kafka == {"bootstrap.servers": "localhost:9092", "security.protocol": "PLAINTEXT"}
    assert job.source.topics == ("orders",)
    assert job.transform == (
        ArrowSection(arrow="my_module:enrich"),
        SqlSection(sql="SELECT *, CAST(value AS STRING) AS body FROM __rows__"),
        PythonSection(python="my_module:clean"),
    )
    assert transform_of(job) == Transform(
        BatchSteps((ArrowStep("my_module:enrich", "transform[0].arrow"),)),
        (
            SqlStep("SELECT *, CAST(value AS STRING) AS body FROM __rows__", "transform[1].sql"),
            PythonStep("my_module:clean", "transform[2].python"),
        ),
    )
    references = [reference for step in transform_of(job) for reference in step.references]
    assert references == ["my_module:enrich", "my_module:clean"]
    assert job.run.lease == timedelta(minutes=2)
    assert job.run.deadline == timedelta(hours=1)
    assert (job.group, job.group_commit, job.transactional_id) == ("orders-etl", "transactional", None)
    assert (job.sink.path, job.ledger) == (f"{tmp_path}/lake/orders", f"{tmp_path}/lake/_kseg_ledger")


def test_what_is_left_out_has_the_default_of_the_full_form(load: Load) -> None:
    full = load(FULL.replace('- arrow: "my_module:enrich"', "").split("transform:")[0] + FULL[FULL.index("sink:") :])
    short = load({"group": "orders-etl"})
    assert short.model_dump(exclude={"kafka"}) == full.model_dump(exclude={"kafka"})
    assert short.config_hash == full.config_hash


DEAD_LETTERS = {"value": {"format": "string", "as": "text"}, "on_error": "dead_letter"}


def test_without_a_group_nothing_is_committed(load: Load) -> None:
    assert load().group_commit == "none"
    assert load({"group": "g"}).group_commit == "transactional"
    assert load({"group": "g", "group_commit": "plain"}).group_commit == "plain"


@pytest.mark.parametrize("section", ["transform", "group", "run", "spark", "transactional_id"])
def test_a_key_without_a_value_is_a_key_not_given(load: Load, section: str) -> None:
    assert load({section: None}) == load()


@pytest.mark.parametrize(
    "place",
    [
        "decode/value/tombstones", "decode/value/schema", "sink/dead_letters/max", "source/segments/layout",
        "airflow/execution", "airflow/execution/submit", "reporting/openlineage/timeout", "sink/routes/a/columns",
    ],
)  # fmt: skip
def test_a_key_without_a_value_is_not_given_at_any_depth(load: Load, place: str) -> None:
    around = {
        "decode": DEAD_LETTERS,
        "sink": {"routes": {"a": {"path": "./a"}, "*": {"path": "./b"}}, "dead_letters": {"path": "./dead"}},
        "source": {"topics": ["a"], "segments": {"paths": ["/kafka"]}},
        "reporting": {"openlineage": {"enabled": False}},
        "airflow": {"schedule": "@daily"},
    }
    assert load(around | {place: None}) == load(around)


@pytest.mark.parametrize("place", ["kafka/client.id", "spark/conf/spark.x", "sink/routes/*", "decode/value/rename/a"])
def test_a_name_of_the_user_without_a_value_is_a_fault(faults: Callable[..., list[Diagnostic]], place: str) -> None:
    assert faults({"decode": DEAD_LETTERS, "sink/dead_letters/path": "./dead", place: None})


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("committed", "committed"),
        ({"timestamp": "2026-01-01T01:00:00+01:00"}, AtTime(timestamp=datetime(2026, 1, 1, tzinfo=UTC))),
        ({"orders": {0: 23, "1": 5}}, {"orders": {0: 23, 1: 5}}),
    ],
)
@pytest.mark.parametrize("key", ["starting_offsets", "ending_offsets"])
def test_offsets_have_four_forms(load: Load, key: str, written: Any, read: Any) -> None:
    assert getattr(load({f"source/{key}": written, "group": "g"}).source, key) == read


def test_an_unquoted_time_is_a_time_and_an_unquoted_date_in_topics_is_a_name(load: Load) -> None:
    text = FULL.replace("starting_offsets: earliest", "starting_offsets: {timestamp: 2026-01-01T00:00:00Z}")
    assert load(text).source.starting_offsets == AtTime(timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    assert load(FULL.replace("[orders]", "[2026-01-01]")).source.topics == ("2026-01-01",)


def test_a_topic_may_be_called_timestamp(load: Load) -> None:
    spec = {"timestamp": {0: 5}}
    job = load({"source/topics": ["timestamp"], "source/starting_offsets": spec})
    assert job.source.starting_offsets == spec


def test_sources_have_three_forms(load: Load) -> None:
    assert load({"source": {"pattern": "orders-.*"}}).source.named_topics is None
    assigned = load({"source": {"assign": {"orders": [0, 1]}}}).source
    assert assigned.assign == {"orders": (0, 1)}
    assert assigned.named_topics == ("orders",)


@pytest.mark.parametrize(("most", "records"), [("7%", 100), ("14%", 100), ("28%", 100), ("55%", 100), ("56%", 100)])
def test_a_percentage_of_records_is_exact(load: Load, most: str, records: int) -> None:
    """0.07 * 100 is 7.000000000000001 in floats, so eight dead letters were allowed."""
    job = load({"sink/dead_letters/max": most, "decode": DEAD_LETTERS})
    assert job.max_dead_letters(records) == int(most[:-1])
    assert job.max_dead_letters(records + 1) == int(most[:-1]) + 1


def test_routes_lead_topics_to_tables(load: Load, tmp_path: Path) -> None:
    routes = {"orders": {"path": "./a"}, "*": {"path": "./lake/{topic}"}}
    sink = load({"source": {"pattern": "o"}, "sink": {"routes": routes}, "ledger": "./ledger"}).sink
    assert sink.target("orders") == TargetName(f"{tmp_path}/a", None)
    assert sink.target("other") == TargetName(f"{tmp_path}/lake/other", None)
    only = load({"sink": {"routes": {"orders": {"table": "main.sales.orders"}}}}).sink
    assert only.target("orders") == TargetName(None, "main.sales.orders")
    with pytest.raises(ConfigurationError, match="there is no route for topic other"):
        only.target("other")


@pytest.mark.parametrize("topic", ["../../evil", "..", "a/b", "\x1b[2J"])
def test_a_topic_that_kafka_does_not_allow_leads_to_no_table(topic: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a topic name"):
        TargetName("/lake/{topic}", None).of(topic)


def test_a_placeholder_stands_without_routes_too(load: Load) -> None:
    sink = load({"source": {"pattern": "o"}, "sink": {"table": "main.raw.{topic}"}}).sink
    assert str(sink.target("orders")) == "main.raw.orders"
    with pytest.raises(ConfigurationError, match="is not valid"):
        sink.target("orders.eu")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("s3://bucket/a/../b/", "s3://bucket/b"),
        ("S3://Bucket/x", "s3://Bucket/x"),
        ("abfss://c@account.dfs.core.windows.net/x", "abfss://c@account.dfs.core.windows.net/x"),
        ("file:///data/x/", "/data/x"),
        ("/data//x/./y", "/data/x/y"),
        ("hdfs:///user/x", "hdfs:///user/x"),
    ],
)
def test_one_place_has_one_spelling(load: Load, written: str, read: str) -> None:
    assert load({"sink/path": written}).sink.path == read


def test_properties_are_flat_text_however_they_are_written(load: Load) -> None:
    written = {"bootstrap": {"servers": ["a:9092", "b:9092"]}, "fetch": {"max.wait.ms": 500}}
    job = load({"kafka": written, "spark": {"conf": {"spark": {"ui.enabled": False}, "spark.sql.x": 1.5}}})
    assert job.kafka == {"bootstrap.servers": "a:9092,b:9092", "fetch.max.wait.ms": "500"}
    assert job.spark.conf == {"spark.ui.enabled": "false", "spark.sql.x": "1.5"}
    assert dict(job.spark_conf()) == job.spark.conf


def test_the_client_is_named_after_the_job(load: Load) -> None:
    assert load().client_id == "kseg-orders"
    assert load().client_config().client_id == "kseg-orders"
    assert load({"kafka/client.id": "mine"}).client_config().client_id == "mine"


def test_environment_variables_fill_in_plain_values(load: Load) -> None:
    job = load({"sink/path": "${LAKE}/orders", "group": "${TEAM}-etl"}, {"LAKE": "/data", "TEAM": "x"})
    assert (job.sink.path, job.group) == ("/data/orders", "x-etl")
    assert job.pinned()["sink"]["path"] == "/data/orders"


def test_two_dollars_are_one(load: Load) -> None:
    assert load({"group": "$${x}"}).group == "${x}"
    assert load({"source": {"pattern": "orders$"}}).source.pattern == "orders$"


def test_merges_and_anchors_work(load: Load) -> None:
    text = FULL.replace("run: {lease: 2m, deadline: 1h}", "run:\n  <<: {lease: 9s, deadline: 9m}\n  lease: 30s")
    assert load(text).run.lease == timedelta(seconds=30)
    assert load(text).run.deadline == timedelta(minutes=9)


def test_a_job_is_frozen_and_pickles(load: Load) -> None:
    job = load(FULL)
    with pytest.raises(ValueError, match="frozen"):
        job.name = "other"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(job)) == job


def test_a_pinned_job_is_the_same_job(load: Load) -> None:
    changes = {
        "source/starting_offsets": {"orders": {0: 23}},
        "source/ending_offsets": {"timestamp": "2026-01-01T00:00:00.5Z"},
    }
    dollars = {"group": "$${x}", "transform": [{"sql": "SELECT '$${file:x}' FROM __rows__"}]}
    for job in (load(FULL), load(changes), load({"run/lease": "5500ms"}), load(dollars)):
        pinned = json.loads(json.dumps(job.pinned()))
        back = job_from_document(pinned, env={})
        assert back == job
        assert back.config_hash == job.config_hash
        assert back.pinned() == job.pinned()


def test_a_pinned_job_is_validated_again(load: Load) -> None:
    with pytest.raises(ConfigurationError, match=r"sink\.colour: is an unknown key"):
        job_from_document({**load().pinned(), "sink": {"path": "/x", "colour": "red"}})


SAME = [
    {"source/max_records_per_task": 5},
    {"source/on_gap": "record"},
    {"source/on_data_loss": "record"},
    {"source/untimed": "include"},
    {"sink/single_driver": True},
    {"source/on_corruption": "quarantine", "sink/quarantine": {"path": "/bad"}},
    {"group": "g"},
    {"ledger": "/elsewhere"},
    {"run/lease": "10s"},
    {"run/max_records": 1, "run/max_bytes": 1},
    {"spark/conf": {"spark.x": "y"}},
    {"kafka/bootstrap.servers": "other:9092"},
    {"transform": []},
]
OTHER = [
    {"source/topics": ["orders", "more"]},
    {"source/isolation_level": "read_uncommitted"},
    {"source/starting_offsets": "latest"},
    {"source/ending_offsets": {"orders": {0: 5}}},
    {"source/provenance": True},
    {"sink/path": "./other"},
    {"sink/partition_by": ["topic"]},
    {"sink/partition_by": [{"day": "timestamp"}]},
    {"sink/merge_schema": True},
    {"sink/addresses": False},
    {"transform": [{"sql": "SELECT * FROM __rows__"}]},
]


@pytest.mark.parametrize("changes", SAME, ids=lambda c: next(iter(c)))
def test_what_decides_no_row_leaves_the_hash(load: Load, changes: dict[str, Any]) -> None:
    assert load(changes).config_hash == load().config_hash


@pytest.mark.parametrize("changes", OTHER, ids=lambda c: next(iter(c)))
def test_what_decides_rows_changes_the_hash(load: Load, changes: dict[str, Any]) -> None:
    assert load(changes).config_hash != load().config_hash


@pytest.mark.parametrize(
    ("written", "paths"),
    [
        ("/data/kafka/", ("/data/kafka",)),
        (["./a", "../b"], ("{folder}/a", "{parent}/b")),
        ("file:///data/kafka", ("/data/kafka",)),
        (
            {"paths": ["s3://bucket/a//b?endpoint_override=http://x:1"]},
            ("s3://bucket/a//b?endpoint_override=http://x:1",),
        ),
        (["gs://b/x", "hdfs:///x"], ("gs://b/x", "hdfs:///x")),
        ("abfss://c@a.dfs.core.windows.net/x", ("abfss://c@a.dfs.core.windows.net/x",)),
    ],
)
def test_log_files_stand_in_for_brokers(load: Load, tmp_path: Path, written: Any, paths: tuple[str, ...]) -> None:
    job = load({"kafka": ..., "group": "g", "source/segments": written})
    assert origin_of(job) == LogFiles(tuple(path.format(folder=tmp_path, parent=tmp_path.parent) for path in paths))
    assert (job.kafka, job.group, job.group_commit) == (None, "g", "none")
    assert job_from_document(job.pinned()) == job
    assert job.config_hash == load().config_hash


def test_brokers_beside_log_files_are_for_the_group(load: Load) -> None:
    job = load({"group": "g", "source/segments": "/data"})
    assert (origin_of(job), job.group_commit) == (LogFiles(("/data",)), "transactional")


def test_a_job_of_brokers_may_be_read_from_files(load: Load) -> None:
    job = load({"group": "g"})
    alone, beside = (job.of_files(Segments.named(["/data"]), brokers=brokers) for brokers in (False, True))
    assert origin_of(alone) == origin_of(beside) == LogFiles(("/data",))
    assert (alone.kafka, alone.group_commit) == (None, "none")
    assert (beside.kafka, beside.group_commit) == (job.kafka, "transactional")
    assert alone.config_hash == beside.config_hash == job.config_hash


def test_the_order_of_topics_decides_nothing(load: Load) -> None:
    one, two = ({"source/topics": topics} for topics in (["a", "b"], ["b", "a"]))
    assert load(one).config_hash == load(two).config_hash


def test_relative_paths_start_at_the_job_files_folder(
    job_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = job_file()
    monkeypatch.chdir("/")
    by_absolute = load_job(file, env={})
    monkeypatch.chdir(file.parent)
    assert load_job("job.yaml", env={}) == by_absolute
