"""DuckDB steps: queries whose rows are made of one row each, by DuckDB's own plan; all others are refused."""

from __future__ import annotations

import pickle
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kseg.etl.errors import ConfigurationError
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.errors import ArrowStepError
from kseg.etl.transform import duckdb_sql
from kseg.etl.transform.duckdb_sql import DuckdbStep
from kseg.etl.transform.transform import BatchSteps

SCHEMA = DecodeOptions(addresses=True).schema
ADDRESS = {"topic": "orders", "partition": 1, "offset": 100}


def records(values: list[bytes | None]) -> pa.RecordBatch:
    rows = [
        {
            "key": b"k",
            "value": value,
            "topic": "orders",
            "partition": 1,
            "offset": 100 + number,
            "timestamp": datetime(2026, 1, 1, tzinfo=UTC),
            "timestampType": 0,
            "headers": [None, [], [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]][number % 3],
            "_kseg_topic": "orders",
            "_kseg_partition": 1,
            "_kseg_offset": 100 + number,
        }
        for number, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def step(query: str) -> DuckdbStep:
    return DuckdbStep(query, "transform[0].duckdb")


@cache
def planned(query: str) -> tuple[BatchSteps, pa.Schema]:
    """As a task gets it: the step pickled, the schema from the driver."""
    steps = BatchSteps((step(query),))
    return pickle.loads(pickle.dumps(steps)), steps.output_schema(SCHEMA)


def applied(query: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    steps, expected = planned(query)
    return steps.apply(batch, expected, ADDRESS)


JSON = [b'{"id": 1, "name": "k\xc3\xa4se"}', None, b'{"id": 3}', b'{"id": null, "name": ""}']


def test_columns_are_cast_extracted_filtered_and_passed_on() -> None:
    query = """
        SELECT *, decode(value) AS text, CAST(decode(value)::JSON->>'id' AS BIGINT) AS id,
               decode(value)::JSON->>'name' AS name
        FROM __rows__ WHERE "offset" <> 102
    """
    batch = records(JSON)
    found = applied(query, batch)
    assert found.schema.names == [*SCHEMA.names, "text", "id", "name"]
    assert found.column("id").type == pa.int64()
    assert found.column("id").to_pylist() == [1, None, None]
    assert found.column("name").to_pylist() == ["käse", None, ""]
    for name in SCHEMA.names:
        kept = batch.column(name).to_pylist()
        assert found.column(name).to_pylist() == [kept[0], kept[1], kept[3]]
    assert found.column("timestamp").type == SCHEMA.field("timestamp").type


def test_headers_are_unnested_and_read_by_place() -> None:
    found = applied('SELECT "offset", unnest(headers) AS h, headers[1].key AS first FROM __rows__', records(JSON))
    assert found.to_pylist() == [
        {"offset": 102, "h": {"key": "a", "value": b"1"}, "first": "a"},
        {"offset": 102, "h": {"key": "b", "value": None}, "first": "a"},
    ]


def test_a_batch_without_rows_has_the_columns() -> None:
    query = "SELECT topic, decode(value) AS v FROM __rows__"
    assert applied(query, records([])).num_rows == 0
    assert applied(query + " WHERE false", records(JSON)).num_rows == 0


REFUSED = [
    ("SELECT count(*) FROM __rows__", "an aggregate"),
    ('SELECT topic, max("offset") FROM __rows__ GROUP BY 1', "an aggregate"),
    ("SELECT DISTINCT topic FROM __rows__", "DISTINCT"),
    ("SELECT * FROM __rows__ ORDER BY topic", "ORDER BY"),
    ("SELECT * FROM __rows__ LIMIT 3", "LIMIT"),
    ("SELECT row_number() OVER () FROM __rows__", "a window function"),
    ("SELECT * FROM __rows__ QUALIFY row_number() OVER () = 1", "a window function"),
    ("SELECT a.topic FROM __rows__ a, __rows__ b", "a join"),
    ("SELECT a.topic FROM __rows__ a JOIN __rows__ b USING (topic)", "a join"),
    ("SELECT topic, (SELECT 1) FROM __rows__", "a join or a subquery"),
    ("SELECT * FROM __rows__ WHERE topic IN (SELECT topic FROM __rows__)", "a join or a subquery"),
    ("SELECT * FROM __rows__ WHERE EXISTS (SELECT 1 FROM __rows__)", "a join or a subquery"),
    ("SELECT topic FROM __rows__ UNION ALL SELECT 'x'", "UNION"),
    ("SELECT topic FROM __rows__ EXCEPT SELECT 'x'", "EXCEPT"),
    ("SELECT * FROM __rows__ USING SAMPLE 10%", "a sample"),
    ("SELECT * FROM __rows__ TABLESAMPLE 10%", "a sample"),
    ("SELECT 1 -- __rows__", "without FROM"),
    ("SELECT * FROM (VALUES (1)) -- __rows__", "not __rows__ alone|VALUES|zero times|0 times|more than one row"),
    ("SELECT * FROM range(10) -- __rows__", "reads range"),
    ("SELECT * FROM duckdb_settings() -- __rows__", "reads duckdb_settings"),
    ("SELECT * FROM read_csv('/etc/passwd') -- __rows__", "disabled by configuration"),
    ("SELECT * FROM '/etc/passwd.csv' -- __rows__", "disabled by configuration|does not exist"),
    ("COPY __rows__ TO '/tmp/somewhere.csv'", "disabled by configuration"),
    ("ATTACH '/tmp/x.db' -- __rows__", "."),
    ("INSERT INTO __rows__ SELECT * FROM __rows__", "INSERT"),
    ("DROP TABLE __rows__", "."),
    ("SET threads = 4 -- __rows__", "."),
    ("INSTALL httpfs -- __rows__", "."),
    ("SELECT topic FROM __rows__; SELECT topic FROM __rows__", "2 statements"),
    ("SELECT *, random() AS r FROM __rows__", "calls random"),
    ("SELECT *, uuid() AS r FROM __rows__", "calls uuid"),
    ("SELECT *, gen_random_uuid() AS r FROM __rows__", "calls gen_random_uuid"),
    ("SELECT *, now() AS r FROM __rows__", "calls now"),
    ("SELECT *, current_timestamp AS r FROM __rows__", "calls get_current_timestamp"),
    ("SELECT *, current_date AS r FROM __rows__", "calls current_date"),
    ("SELECT *, today() AS r FROM __rows__", "calls today"),
    ("SELECT *, age(timestamp) AS r FROM __rows__", "calls age"),
    ("SELECT *, list_aggregate([1, 2], 'Reservoir_Quantile', 0.5) AS r FROM __rows__", "calls reservoir_quantile"),
    (
        "SELECT *, list_aggr([1, 2], lower('RESERVOIR_QUANTILE'), 0.5) AS r FROM __rows__",
        "an aggregate that is no const",
    ),
    ("SELECT *, vector_type(topic) AS r FROM __rows__", "calls vector_type"),
    ("SELECT list_transform([1], lambda x: random()) AS r FROM __rows__", "calls random"),
    ("SELECT * FROM __rows__ WHERE random() < 0.5", "calls random"),
    ("SELECT rowid FROM __rows__", "rowid"),
    ("SELECT nothing FROM __rows__", "nothing"),
    ("SELECT $1 FROM __rows__", "."),
    ("SELEC * FROM __rows__", "syntax error"),
]


@pytest.mark.parametrize(("query", "reason"), REFUSED, ids=[query for query, _ in REFUSED])
def test_what_is_not_row_by_row_is_bad_configuration(query: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as caught:
        step(query).output_schema(SCHEMA)
    assert caught.value.faults[0].path == "transform[0].duckdb"


def clocks() -> list[str]:
    """Expressions that are the time: words of SQL's grammar, and functions without arguments that give times."""
    import duckdb

    words = ["current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"]
    functions = duckdb.sql(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ('scalar', 'macro') "
        "AND len(parameters) = 0 AND (return_type SIMILAR TO '(TIME|DATE).*' OR function_name LIKE '%time%') ORDER BY 1"
    ).fetchall()
    return [*words, *(f"{name}()" for (name,) in functions)]


@pytest.mark.parametrize("clock", clocks())
def test_no_clock_is_read(clock: str) -> None:
    with pytest.raises(ConfigurationError, match="gives something else each time"):
        step(f"SELECT *, date_part('second', {clock}) AS r FROM __rows__").output_schema(SCHEMA)


ALLOWED = [
    "SELECT * FROM __rows__",
    "FROM __rows__",
    "SELECT topic, lower(topic) AS t, list_sum([1, 2]) AS s, date_trunc('day', timestamp) AS d FROM __rows__",
    "SELECT topic, list_aggregate([1, 2], 'first') AS f FROM __rows__",
    "WITH x AS (SELECT * FROM __rows__) SELECT topic FROM x WHERE partition > 0",
    "WITH x AS NOT MATERIALIZED (SELECT * FROM __rows__) SELECT topic FROM x",
    "SELECT topic FROM (SELECT * FROM __rows__ WHERE topic IN ('a', 'orders')) WHERE partition = 1",
    "SELECT list_filter(headers, lambda h: h.key = 'a') AS h, age(timestamp, timestamp) AS a FROM __rows__",
    "SELECT CASE WHEN topic IS NULL THEN error('no topic') ELSE topic END AS t FROM __rows__",
    "SELECT COLUMNS('_kseg_.*') FROM __rows__",
]

_values = st.lists(st.none() | st.binary(max_size=4), max_size=12)


@pytest.mark.parametrize("query", ALLOWED)
@settings(max_examples=20, deadline=None)
@given(values=_values, cut=st.integers(0, 12))
def test_rows_do_not_depend_on_how_batches_are_cut(query: str, values: list[bytes | None], cut: int) -> None:
    batch = records(values)
    whole = applied(query, batch)
    parts = [applied(query, batch.slice(0, cut)), applied(query, batch.slice(min(cut, len(values))))]
    assert pa.Table.from_batches(parts).to_pylist() == whole.to_pylist()


@pytest.mark.parametrize("bad", [0, 1, 6, 12])
def test_a_record_that_fails_is_named_by_its_offset(bad: int) -> None:
    values: list[bytes | None] = [b"7"] * 13
    values[bad] = b"seven"
    with pytest.raises(ArrowStepError, match="seven") as caught:
        applied("SELECT CAST(decode(value) AS INTEGER) AS n FROM __rows__", records(values))
    place = {"topic": "orders", "partition": 1, "offset": 100 + bad, "step": "transform[0].duckdb"}
    assert caught.value.address == place


def test_the_first_of_several_is_named() -> None:
    with pytest.raises(ArrowStepError, match="first") as caught:
        applied("SELECT CAST(decode(value) AS INTEGER) AS n FROM __rows__", records([b"1", b"first", b"2", b"last"]))
    assert caught.value.address["offset"] == 101


def test_a_query_in_a_worker_sees_neither_files_nor_variables(tmp_path: Path) -> None:
    """The driver refuses such a query already; a worker that is handed one does not run it either."""
    (tmp_path / "secret.csv").write_text("a\n1\n")
    secret = pa.table({"a": [1]})
    for query in (f"SELECT * FROM '{tmp_path}/secret.csv'", "SELECT * FROM secret", "SET threads = 2"):
        with pytest.raises(ArrowStepError):
            step(query).apply(records(JSON), ADDRESS)
    assert secret.num_rows == 1


def test_without_the_extra_the_way_to_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    given: Any = step("SELECT * FROM __rows__")
    with pytest.raises(ConfigurationError, match="not installed") as caught:
        given.output_schema(SCHEMA)
    assert "kafka-segment-etl[duckdb]" in caught.value.faults[0].remedy


KEEPING = {
    "SELECT *, decode(value) AS text FROM __rows__;": SCHEMA.names,
    'SELECT decode(value) AS text, key AS "the key", value, value AS again FROM __rows__  -- all': ["key", "value"],
    'SELECT "offset" + 1 AS next, v FROM (SELECT "offset", value AS v, upper(topic) FROM __rows__)': ["value"],
    "SELECT headers, topic FROM __rows__": ["headers", "topic"],
    'SELECT "offset" + 1 AS next FROM __rows__': [],
    'SELECT *, decode(value) AS text FROM __rows__ WHERE "offset" <> 102': [],
    "SELECT topic, unnest(headers) FROM __rows__": [],
    "WITH found AS (SELECT value, topic FROM __rows__) SELECT * FROM found": [],
    'SELECT CAST("offset" AS BIGINT) AS same, topic::VARCHAR AS name FROM __rows__': ["offset", "topic"],
}


@pytest.mark.parametrize("query", KEEPING)
def test_columns_that_are_passed_on_are_those_of_the_batch(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = records(JSON)
    found = step(query).apply(batch, ADDRESS)
    addresses = {column.buffers()[-1].address: name for name, column in zip(SCHEMA.names, batch.columns, strict=True)}
    kept = {addresses.get(column.buffers()[-1].address) for column in found.columns} - {None}
    assert set(KEEPING[query]) <= kept
    if not KEEPING[query]:
        assert not kept
    monkeypatch.setattr(duckdb_sql, "columns_kept", lambda _: ())
    duckdb_sql._local.__dict__.pop("prepared")
    assert step(query).apply(batch, ADDRESS).equals(found)


def test_batches_of_other_columns_are_prepared_for_anew() -> None:
    query = "SELECT *, decode(value) AS text FROM __rows__"
    batch = records(JSON)
    narrow = batch.select(["value", "topic"])
    assert step(query).apply(batch, ADDRESS).schema.names == [*SCHEMA.names, "text"]
    assert step(query).apply(narrow, ADDRESS).schema.names == ["value", "topic", "text"]
    assert step(query).apply(batch, ADDRESS).column("text").to_pylist()[0] == '{"id": 1, "name": "käse"}'


@pytest.mark.parametrize(
    "query",
    [
        "SELECT *, CAST(decode(value) AS INT) AS i, upper(topic) AS u FROM __rows__",
        "SELECT CAST(decode(value) AS INT) AS i, topic || 'x' AS t FROM __rows__",
        "SELECT *, CAST(decode(value) AS INT) AS i FROM __rows__ WHERE topic <> 'z'",
    ],
)
def test_a_record_that_fails_behind_many_is_an_error_of_the_step(query: str) -> None:
    """DuckDB gives the first rows of a large result before it has made the last."""
    batch = records([b"7"] * 100_000 + [b"bad"])
    with pytest.raises(ArrowStepError, match="Could not convert string 'bad'"):
        step(query).apply(batch, ADDRESS)


def test_columns_that_the_query_does_not_read_may_be_what_duckdb_has_no_type_for() -> None:
    seconds = pa.array([datetime(9999, 1, 1), datetime(2026, 1, 1)], pa.timestamp("s", "UTC"))
    seconds = pa.concat_arrays([seconds, pa.array([10**15], pa.int64()).cast(pa.timestamp("s", "UTC"))])
    twice = pa.array([[("a", 1), ("a", 2)], [], None], pa.map_(pa.string(), pa.int64()))
    batch = pa.RecordBatch.from_pydict({"s": seconds, "m": twice, "x": ["a", None, "c"]})
    assert step("SELECT x || '!' AS y FROM __rows__").apply(batch, ADDRESS).column(0).to_pylist() == ["a!", None, "c!"]
    kept = step("SELECT m, x, upper(x) AS y FROM __rows__").apply(batch, ADDRESS)
    assert kept.column("m").equals(batch.column("m"))
    assert kept.column("y").to_pylist() == ["A", None, "C"]
    with pytest.raises(ArrowStepError, match="duplicate key"):
        step("SELECT m['a'] AS y FROM __rows__").apply(batch, ADDRESS)


def test_a_type_that_duckdb_does_not_have_is_bad_configuration() -> None:
    with pytest.raises(ConfigurationError, match="Unsupported Internal Arrow Type"):
        step("SELECT 1 AS one FROM __rows__").output_schema(pa.schema({"d": pa.decimal256(60, 2)}))
