"""Every fault is told: where, on which line, what is wrong, what to do; and all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kseg.etl.errors import ConfigurationError, Diagnostic

Faults = Callable[..., list[Diagnostic]]

CASES: list[tuple[dict[str, Any], str, str, str]] = [
    # changes, path, part of the message, part of the remedy
    ({"version": 2}, "version", "is not 1", "1"),
    ({"version": True}, "version", "is not 1", "1"),
    ({"version": ...}, "version", "is missing", "version: 1"),
    ({"name": "or ders"}, "name", "is not a job name", "letters"),
    ({"name": "a/b"}, "name", "is not a job name", "letters"),
    ({"name": "x" * 101}, "name", "is not a job name", "1 to 100"),
    ({"name": 5}, "name", "is a number where text is expected", "quotes"),
    ({"name": ["orders"]}, "name", "is a list where text is expected", "write one text"),
    ({"sink": "./lake/orders"}, "sink", "is text where a mapping is expected", "{path: ./lake/orders}"),
    ({"source/starting_offsets": "yesterday"}, "source.starting_offsets", "is not one of earliest", "or {timestamp: 2"),
    ({"source/ending_offsets": "now"}, "source.ending_offsets", "is not one of", "or {timestamp: 2026"),
    ({"nmae": "x"}, "nmae", "unknown key", "did you mean name?"),
    ({7: "x"}, "7", "unknown key", "valid keys"),
    # kafka
    ({"kafka": ...}, "kafka", "is missing", "bootstrap.servers"),
    ({"source/segments": 5}, "source.segments", "is not a location", "a path or URL"),
    ({"source/segments": []}, "source.segments.paths", "is empty", "at least one"),
    ({"source/segments": ["./a", "a"]}, "source.segments.paths", "more than once", "once"),
    ({"source/segments": "s3://u:secret@b/x"}, "source.segments.paths.0", "has a password in it", "log.dirs"),
    ({"source/segments": {"paths": ["a"], "layuot": "x"}}, "source.segments.layuot", "unknown key", "layout?"),
    (
        {"source/segments": {"paths": ["a"], "layout": "tape"}},
        "source.segments.layout",
        "'tape' is not a layout",
        "kafka",
    ),
    ({"kafka": ..., "source/segments": "x", "group": "g", "group_commit": "plain"}, "group_commit", "brokers", "none"),
    ({"source/ending_offsets": "log_end"}, "source.ending_offsets", "only supported for files", "source.segments"),
    ({"source/starting_offsets": "log_end"}, "source.starting_offsets", "is not one of", "earliest"),
    ({"kafka": ["x"]}, "kafka", "is a list where a mapping", "pairs"),
    ({"kafka": {"fetch.max.wait.ms": 5}}, "kafka.bootstrap.servers", "is missing", "host:9092"),
    (
        {"kafka/boostrap.servers": "a:1"},
        "kafka.boostrap.servers",
        "unknown property",
        "did you mean bootstrap.servers?",
    ),
    ({"kafka/bootstrap.servers": "nope"}, "kafka.bootstrap.servers", "host:port", "host:port"),
    ({"kafka/fetch.max.bytes": "x"}, "kafka.fetch.max.bytes", "whole number", "bytes"),
    ({"kafka/client.id": None}, "kafka.client.id", "has no value", "write text"),
    ({"kafka/client.id": [["a"]]}, "kafka.client.id", "is a list", "write text"),
    ({"kafka/client.id": {}}, "kafka.client.id", "is a mapping", "write text"),
    ({"kafka/bootstrap": {"servers": "a:1"}}, "kafka.bootstrap.servers", "given twice", "keep one"),
    ({"kafka/group.id": "x"}, "kafka.group.id", "another key of the job file", "use `group`"),
    ({"kafka/isolation.level": "x"}, "kafka.isolation.level", "another key of the job file", "source.isolation_level"),
    ({"kafka/ssl.key.password": "x"}, "kafka.ssl.key.password", "is a secret", "${NAME}"),
    ({"kafka/ssl.keystore.key": "x${A}"}, "kafka.ssl.keystore.key", "is a secret", "${NAME}"),
    ({"kafka/sasl.jaas.config": 'm password="x" u="${A}";'}, "kafka.sasl.jaas.config", "is a secret", "${NAME}"),
    ({"kafka/client.id": "${NOPE}"}, "kafka.client.id", "NOPE is not set", "set NOPE"),
    ({"kafka/client.id": "${env:X}"}, "kafka.client.id", "is not ${NAME}", "$${"),
    ({"kafka/client.id": "${X"}, "kafka.client.id", "not closed", "${NAME}"),
    ({"kafka/client.id": "${file:/no/such}"}, "kafka.client.id", "cannot read /no/such", "readable"),
    ({"kafka/client.id": "${file:}"}, "kafka.client.id", "names no file", "${file:/path}"),
    # source
    ({"source": ...}, "source", "is missing", "topics"),
    ({"source": {}}, "source", "which topics to read", "topics, pattern and assign"),
    ({"source/topics": []}, "source.topics", "is empty", "at least one"),
    ({"source/topics": "orders"}, "source.topics", "is text where a list", "brackets"),
    ({"source/topics": ["a b"]}, "source.topics[0]", "not a topic name", "letters"),
    ({"source/topics": ["orders", ".."]}, "source.topics[1]", "not a topic name", "letters"),
    ({"source/topics": ["orders", 7]}, "source.topics[1]", "is a number", "quotes"),
    ({"source/topics": ["orders", "orders"]}, "source.topics", "more than once", "each once"),
    ({"source/pattern": "x"}, "source.pattern", "combined with topics", "one of topics, pattern and assign"),
    ({"source": {"pattern": "x("}}, "source.pattern", "not a regular expression", "anywhere"),
    ({"source": {"assign": {}}}, "source.assign", "is empty", "at least one"),
    ({"source": {"assign": {"orders": []}}}, "source.assign.orders", "is empty", "at least one"),
    ({"source": {"assign": {"orders": [-1]}}}, "source.assign.orders[0]", "too small", "0 or more"),
    ({"source": {"assign": {"o o": [1]}}}, "source.assign.o o", "the name is not a topic name", "letters"),
    ({"source/isolation_level": "read_comitted"}, "source.isolation_level", "'read_comitted'", "read_committed?"),
    ({"source/isolation_level": 3}, "source.isolation_level", "is not read_committed or", "write read_committed or"),
    ({"source/starting_offsets": "erliest"}, "source.starting_offsets", "is not one of", "did you mean earliest?"),
    (
        {"source/starting_offsets": 5},
        "source.starting_offsets",
        "not a valid start or end",
        "{topic: {partition: offset}}",
    ),
    ({"source/starting_offsets": {}}, "source.starting_offsets", "is empty", "at least one"),
    ({"source/starting_offsets": {"orders": {}}}, "source.starting_offsets.orders", "is empty", "at least one"),
    ({"source/starting_offsets": {"orders": {0: -1}}}, "source.starting_offsets.orders.0", "too small", "0 or more"),
    ({"source/starting_offsets": {"orders": {"x": 1}}}, "source.starting_offsets.orders.x", "the name", "digits"),
    (
        {"source/starting_offsets": {"orders": {0: 1, "00": 2}}},
        "source.starting_offsets.orders",
        "more than once",
        "once",
    ),
    ({"source/starting_offsets": {"ordrs": {0: 1}}}, "source.starting_offsets.ordrs", "does not read", "mean orders?"),
    ({"source/starting_offsets": {"timestamp": "2026-01-01"}}, "source.starting_offsets.timestamp", "time zone", "Z"),
    ({"source/starting_offsets": {"timestamp": 5}}, "source.starting_offsets.timestamp", "is not a time", "Z"),
    ({"source/starting_offsets": "committed"}, "source.starting_offsets", "needs a group", "group:"),
    ({"source/ending_offsets": "committed"}, "source.ending_offsets", "needs a group", "group:"),
    (
        {"source/starting_offsets": {"orders": {0: 9}}, "source/ending_offsets": {"orders": {0: 5}}},
        "source.ending_offsets.orders.0",
        "5 is before the start, 9",
        "exclusive",
    ),
    (
        {
            "source/starting_offsets": {"timestamp": "2026-01-02T00:00:00Z"},
            "source/ending_offsets": {"timestamp": "2026-01-01T00:00:00Z"},
        },
        "source.ending_offsets.timestamp",
        "before the start",
        "after",
    ),
    (
        {"source": {"assign": {"orders": [0]}, "starting_offsets": {"orders": {0: 1, 1: 1}}}},
        "source.starting_offsets.orders.1",
        "not assigned",
        "assign",
    ),
    ({"source/max_records_per_task": 0}, "source.max_records_per_task", "too small", "1 or more"),
    ({"source/max_records_per_task": "5"}, "source.max_records_per_task", "is text where a whole number", "digits"),
    ({"source/max_records_per_task": True}, "source.max_records_per_task", "is true or false where", "digits"),
    ({"source/max_records_per_task": 1.5}, "source.max_records_per_task", "is a number where a whole", "digits"),
    ({"source/on_gap": "ignore"}, "source.on_gap", "is not fail or record", "write fail or record"),
    ({"source/provenance": "yes please"}, "source.provenance", "is text where true or false", "without quotes"),
    ({"source/provenanc": True}, "source.provenanc", "unknown key", "did you mean provenance?"),
    # transform
    ({"transform": {"sql": "x"}}, "transform", "is a mapping where a list", "begin each entry with `- `"),
    ({"transform": ["x"]}, "transform[0]", "is not a step", "arrow"),
    ({"transform": [{"sqll": "x"}]}, "transform[0]", "is not a step", "sql"),
    (
        {"transform": [{"sql": "SELECT * FROM __rows__", "arrow": "a:b"}]},
        "transform[0]",
        "arrow and sql",
        "one of",
    ),
    ({"transform": [{"sql": "SELECT * FROM __rows__", "x": 1}]}, "transform[0].x", "unknown key", "valid keys: sql"),
    ({"transform": [{"sql": "SELECT 1"}]}, "transform[0].sql", "does not read __rows__", "__rows__"),
    ({"transform": [{"arrow": "module"}]}, "transform[0].arrow", "is not module:function", "my_module"),
    ({"transform": [{"python": 5}]}, "transform[0].python", "is a number", "quotes"),
    (
        {"transform": [{"sql": "SELECT * FROM __rows__"}, {"arrow": "a:b"}]},
        "transform[1].arrow",
        "an arrow step follows an",
        "move it up",
    ),
    (
        {"transform": [{"python": "a:b"}, {"duckdb": "SELECT * FROM __rows__"}]},
        "transform[1].duckdb",
        "a duckdb step follows an",
        "move it up",
    ),
    ({"transform": [{"duckdb": "SELECT 1"}]}, "transform[0].duckdb", "does not read __rows__", "__rows__"),
    # sink
    ({"sink": ...}, "sink", "is missing", "path"),
    ({"sink": {}}, "sink", "does not say where", "path, table and routes"),
    ({"sink/table": "a.b"}, "sink.table", "combined with path", "one of"),
    ({"sink": {"path": "x", "routes": {"*": {"path": "y"}}}}, "sink.routes", "combined with path", "one of"),
    ({"sink": {"routes": {}}}, "sink.routes", "is empty", "at least one"),
    ({"sink": {"routes": {"orders": {}}}}, "sink.routes.orders", "does not say where", "path and table"),
    ({"sink": {"routes": {"orders": None}}}, "sink.routes.orders", "is nothing where a mapping", "pairs"),
    (
        {"sink": {"routes": {"orders": {"path": "a", "table": "b"}}}},
        "sink.routes.orders.table",
        "combined with",
        "one of",
    ),
    ({"sink": {"routes": {"orders": {"pth": "a"}}}}, "sink.routes.orders.pth", "unknown key", "did you mean path?"),
    (
        {"sink": {"routes": {"or ders": {"path": "a"}}}},
        "sink.routes.or ders",
        "the name is not a topic name",
        "letters",
    ),
    (
        {"sink": {"routes": {"other": {"path": "a"}, "*": {"path": "b"}}}},
        "sink.routes.other",
        "does not read",
        "orders",
    ),
    (
        {"source/topics": ["orders", "x"], "sink": {"routes": {"orders": {"path": "a"}}}},
        "sink.routes",
        "no route for x",
        '"*"',
    ),
    ({"source": {"pattern": "o"}, "sink": {"routes": {"o": {"path": "a"}}}}, "sink.routes", "may match", '"*"'),
    ({"sink/path": "~/lake"}, "sink.path", "~", "local path"),
    ({"sink/path": "s3:/bucket/x"}, "sink.path", "without ://", "s3://"),
    ({"sink/path": "s3:///x"}, "sink.path", "names no bucket", "s3://"),
    ({"sink/path": "s3://me:pw@bucket/x"}, "sink.path", "has a password", "s3://"),
    ({"sink/path": "file://host/x"}, "sink.path", "names a host", "local path"),
    ({"sink/path": ""}, "sink.path", "is empty", "value"),
    ({"sink/path": "lake/{date}"}, "sink.path", "placeholder other than {topic}", "{topic}"),
    ({"sink": {"table": "a.b.c.d"}}, "sink.table", "not a table name", "catalog.schema.name"),
    ({"sink": {"table": "a-b"}}, "sink.table", "not a table name", "underscores"),
    ({"source/topics": ["a.b"], "sink": {"table": "x.{topic}"}}, "sink.table", "a.b is not valid", "route"),
    ({"sink/partition_by": "topic"}, "sink.partition_by", "is text where a list", "brackets"),
    ({"sink/partition_by": ["topic", "topic"]}, "sink.partition_by", "more than once", "once"),
    ({"sink/partition_by": ["topci"]}, "sink.partition_by[0]", "no column topci", "did you mean topic?"),
    ({"sink/partition_by": ["headers"]}, "sink.partition_by[0]", "is a list", "not a list"),
    ({"sink/partition_by": ["producerId"]}, "sink.partition_by[0]", "no column producerId", "the rows have"),
    (
        {"sink/partition_by": ["topic"], "sink/cluster_by": ["topic"], "sink/single_driver": True},
        "sink.cluster_by",
        "combined with partition_by",
        "either partitions or clustering",
    ),
    (
        {"sink/cluster_by": ["topic", "partition", "offset", "timestamp", "timestampType"], "sink/single_driver": True},
        "sink.cluster_by",
        "more than 4",
        "four",
    ),
    (
        {"sink/cluster_by": ["topic", "key"], "sink/single_driver": True},
        "sink.cluster_by[1]",
        "key is binary",
        "numbers, text, dates or times",
    ),
    ({"sink/cluster_by": ["topic"]}, "sink.cluster_by", "Spark's own writer", "single_driver: true"),
    ({"sink/merge_schema": 1}, "sink.merge_schema", "is a number where true or false", "true or false"),
    (
        {"source/on_corruption": "quarantine"},
        "source.on_corruption",
        "there is no quarantine table",
        "sink: {quarantine",
    ),
    ({"sink/quarantine": {"path": "./q"}}, "sink.quarantine", "is never written to", "on_corruption: quarantine"),
    # group, ledger, run, spark
    ({"group": ""}, "group", "is empty", "value"),
    ({"group_commit": "plain"}, "group_commit", "plain needs a group", "group:"),
    ({"group_commit": "transactional"}, "group_commit", "needs a group", "group_commit: none"),
    ({"group_commit": "transactionel", "group": "g"}, "group_commit", "is not one of", "did you mean transactional?"),
    ({"transactional_id": "x" * 250}, "transactional_id", "longer than 249", "shorten"),
    ({"ledger": ...}, "ledger", "is missing", "_kseg_ledger"),
    ({"ledger": "./lake/orders/ledger"}, "ledger", "is inside the table", "of its own"),
    ({"ledger": "./lake/orders"}, "ledger", "is inside the table", "of its own"),
    ({"ledger": "file:./lake/../lake/orders/x"}, "ledger", "without ://", "local path"),
    ({"ledger": "./lake"}, "sink.path", "is inside the ledger", "of its own"),
    ({"ledger": "./lake/{topic}"}, "ledger", "has a placeholder", "write the path without a placeholder"),
    (
        {"source": {"pattern": "_l"}, "sink": {"path": "x/{topic}"}, "ledger": "x/_l"},
        "ledger",
        "inside the table",
        "own",
    ),
    (
        {"source/topics": ["a", "b"], "sink": {"routes": {"a": {"path": "x"}, "b": {"path": "x/y"}}}},
        "sink.routes.b.path",
        "is inside the table",
        "not inside another table",
    ),
    (
        {"source/topics": ["a", "b"], "sink": {"routes": {"a": {"path": "x"}, "*": {"path": "x/{topic}"}}}},
        "sink.routes.*.path",
        "is inside the table",
        "not inside another table",
    ),
    ({"run/lease": "4s"}, "run.lease", "shorter than 5s", "5s or more"),
    ({"run/lease": 120}, "run.lease", "a number without a unit", "30s"),
    ({"run/lease": "soon"}, "run.lease", "is not a duration", "30s"),
    ({"run/lease": True}, "run.lease", "where a duration is expected", "30s"),
    ({"run/deadline": "0s"}, "run.deadline", "shorter than 1s", "1s or more"),
    ({"run/leese": "5s"}, "run.leese", "unknown key", "did you mean lease?"),
    ({"spark/master": 4}, "spark.master", "is a number", "quotes"),
    ({"spark": "local"}, "spark", "is text where a mapping", "pairs"),
    ({"spark/conf": "x"}, "spark.conf", "is text where a mapping", "pairs"),
    ({"spark/conf": {"sql.x": 1}}, "spark.conf.sql.x", "does not start with spark.", "did you mean spark.sql.x?"),
    ({"spark/conf": {"fs.s3a.endpoint": 1}}, "spark.conf.fs.s3a.endpoint", "does not start", "spark.hadoop.fs"),
    (
        {"spark/conf": {"spark.master": "local"}},
        "spark.conf.spark.master",
        "another key of the job file",
        "spark.master",
    ),
    (
        {"spark/conf": {"spark.hadoop.fs.s3a.secret.key": "x"}},
        "spark.conf.spark.hadoop.fs.s3a.secret.key",
        "secret",
        "${",
    ),
    # references where values are shown
    ({"sink/path": "${NOPE}/x"}, "sink.path", "NOPE is not set", "set NOPE"),
    ({"group": "${file:/x}"}, "group", "refers to a file", "`kafka`, `registry`, `spark.conf`"),
    ({"sink/path": "${DB_PASSWORD}/x"}, "sink.path", "refers to DB_PASSWORD", "`kafka`, `registry`, `spark.conf`"),
]


@pytest.mark.parametrize(
    ("changes", "path", "message", "remedy"), CASES, ids=[f"{c[1]}-{i}" for i, c in enumerate(CASES)]
)
def test_each_fault_is_told_alone(
    faults: Faults, changes: dict[Any, Any], path: str, message: str, remedy: str
) -> None:
    found = faults(changes)
    assert [fault.path for fault in found] == [path]
    assert message in found[0].message
    assert remedy in (found[0].remedy or "")


def test_what_clustering_needs_can_be_given(load: Callable[..., Any]) -> None:
    store = {"spark.delta.logStore.s3a.impl": "io.delta.storage.S3DynamoDBLogStore"}
    load({"sink": {"path": "s3a://b/x", "cluster_by": ["topic"]}, "spark/conf": store})
    load({"sink": {"path": "abfss://c@a.dfs.core.windows.net/x", "cluster_by": ["topic"]}})
    load({"sink": {"table": "main.raw.orders", "cluster_by": ["topic"]}})


MANY = """\
version: 1
name: "or ders"
kafak: {}
kafka:
  boostrap.servers: a:1
  group.id: x
source:
  topics: [orders, 5]
  pattern: "x("
  isolation_level: read_comitted
  starting_offsets: committed
transform:
  - sql: "select 1"
  - arrow: "my_module"
sink:
  path: ./lake
  table: a.b
  colour: red
group_commit: plain
ledger: ./lake/_l
run: {lease: 2s}
name: again
"""


def test_all_faults_come_at_once_in_the_order_of_the_file(faults: Faults) -> None:
    found = [(fault.path, fault.line) for fault in faults(MANY)]
    assert found == [
        ("name", 2),
        ("kafak", 3),
        ("kafka.bootstrap.servers", 4),
        ("kafka.boostrap.servers", 5),
        ("kafka.group.id", 6),
        ("source.topics[1]", 8),
        ("source.pattern", 9),
        ("source.pattern", 9),
        ("source.isolation_level", 10),
        ("source.starting_offsets", 11),
        ("transform[0].sql", 13),
        ("transform[1].arrow", 14),
        ("transform[1].arrow", 14),
        ("sink.table", 17),
        ("sink.colour", 18),
        ("group_commit", 19),
        ("ledger", 20),
        ("run.lease", 21),
        ("name", 22),
    ]


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("", "is empty", None),
        ("- a\n- b\n", "is not a mapping", 1),
        ("just text", "is not a mapping", 1),
        ("a: [1, 2\nb: 3", "is not YAML", 2),
        ("a: *nope", "is not YAML: found undefined alias", 1),
        ("a: \x01", "is not YAML", None),
        ("a: !!python/object:os.system x", "YAML tag that is not supported", 1),
        ("a: !!int x", "YAML tag that is not supported", 1),
        ("? [a]\n: b", "a key is not text", 1),
        ("a: &x [*x]", "is nested too deeply", None),
        ("a: " + "[" * 3000, "", None),
    ],
)
def test_a_broken_document_is_one_plain_fault(faults: Faults, text: str, message: str, line: int | None) -> None:
    first = faults(text)[0]
    assert message in first.message
    assert first.line == line or line is None


def test_a_document_may_not_expand_without_bound(faults: Faults) -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    assert "expands to too many" in faults(text)[0].message
    merges = "a0: &a0 {x: 1}\n"
    merges += "".join(f"a{n}: &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    assert "expands to too many" in faults(merges)[0].message


def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Any) -> None:
    from kseg.etl.config.load import load_job

    for file, message in ((tmp_path / "no.yaml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigurationError, match=message):
            load_job(file)
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff\xfe")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        load_job(tmp_path / "latin.yaml")
    (tmp_path / "large.yaml").write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(ConfigurationError, match="larger than"):
        load_job(tmp_path / "large.yaml")


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.integers(0, 3), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = [
    "version", "name", "kafka", "source", "transform", "sink", "group", "group_commit", "transactional_id", "ledger",
    "run", "spark", "source/topics", "source/pattern", "source/assign", "source/starting_offsets", "sink/routes",
    "sink/path", "sink/partition_by", "run/lease", "spark/conf", "kafka/client.id",
]  # fmt: skip


@given(st.dictionaries(st.sampled_from(KEYS), values, min_size=1, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_values_make_a_job_or_faults(load: Callable[..., Any], changes: dict[str, Any]) -> None:
    changes = {key: value for key, value in changes.items() if "/" not in key or key.split("/")[0] not in changes}
    found: tuple[Diagnostic, ...] = (Diagnostic("", "none"),)
    try:
        load(changes)
    except ConfigurationError as error:
        found = error.faults
    assert found
    assert all(fault.message for fault in found)
