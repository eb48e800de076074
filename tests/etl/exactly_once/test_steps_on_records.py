"""What steps pass on lands as librdkafka wrote it, headers above all, whichever way it takes to the table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.errors import RetriableFailure
from kseg.etl.operations.verify import verify
from kseg.etl.run import range_jobs
from kseg.etl.spark import narrowing
from kseg.etl.tables.errors import AddressChanged

pytestmark = pytest.mark.spark

CASTS = "CAST(value AS STRING) AS value_text, CAST(key AS STRING) AS key_text"
STEPS = """
from pyspark.sql import functions as f

def joined(rows):
    names = rows.sparkSession.createDataFrame([(0, "even"), (1, "odd")], "parity int, name string")
    kept = rows.where("offset >= 10").withColumn("parity", (f.col("offset") % 2).cast("int"))
    return kept.join(f.broadcast(names), "parity")
"""


@pytest.fixture
def crossed(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The columns that cross as they are, of each query that a run narrows."""
    found: list[set[str]] = []
    original = narrowing._Rewriting.rewritten

    def noted(self: Any, fewer: Any, crossing: Any, left_out: Any) -> Any:
        found.append({field.name for field in fewer.schema} - {narrowing.CELLS})
        return original(self, fewer, crossing, left_out)

    monkeypatch.setattr(narrowing._Rewriting, "rewritten", noted)
    return found


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tasks each cut of a run's ranges made."""
    found: list[int] = []
    original = range_jobs.read_tasks

    def noted(*args: Any, **options: Any) -> Any:
        tasks = original(*args, **options)
        found.append(len(tasks))
        return tasks

    monkeypatch.setattr(range_jobs, "read_tasks", noted)
    return found


@pytest.mark.parametrize(
    ("step", "plain"),
    [
        ({"sql": f"SELECT *, {CASTS} FROM __rows__"}, None),
        ({"sql": f"SELECT *, headers[0].key AS first, {CASTS} FROM __rows__ WHERE get(headers, 0) IS NULL "
                 "OR headers[0].key = 'a'"}, {"headers"}),
        ({"duckdb": "SELECT *, decode(value) AS value_text, decode(key) AS key_text FROM __rows__"}, None),
    ],
    ids=["selection", "sql", "duckdb"],
)  # fmt: skip
def test_all_columns_land_beside_those_that_a_query_makes(
    home: Any, records: Any, crossed: list[set[str]], cuts: list[int], step: dict[str, str], plain: set[str] | None
) -> None:
    topic = records.topic(2)
    records.write_mixed(topic)
    job = home(topic, transform=[step])
    job.ingest()
    records.write(topic, 0, 20)
    job.ingest()
    assert job.rows() == records.rows(topic)
    assert crossed == ([] if plain is None else [plain] * 2)
    assert len(cuts) == 2  # once a run: what was cut to analyse a query also runs
    made = job.table("first").to_pyarrow_table(columns=["key", "value", "key_text", "value_text"]).to_pylist()
    for row in made:
        assert (row["key"] or b"").decode() == (row["key_text"] or "")
        assert row["value"].decode() == row["value_text"]
    assert verify(job.job).ok
    job.assert_complete(runs=2)


def test_a_function_that_filters_and_joins(
    home: Any, records: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crossed: list[set[str]]
) -> None:
    (tmp_path / "joining_steps.py").write_text(STEPS)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("joining_steps", None)
    topic = records.topic(2)
    records.write_mixed(topic)
    job = home(topic, transform=[{"python": "joining_steps:joined"}])
    job.ingest()
    assert job.rows() == [row for row in records.rows(topic) if row[2] >= 10]
    assert crossed == [{"offset"}]
    assert verify(job.job).ok


def test_tables_of_sparks_writer_get_the_same_rows(home: Any, records: Any, crossed: list[set[str]]) -> None:
    """They take a DataFrame: all columns cross, and none is missing."""
    topic = records.topic()
    records.write(topic, 0, 30)
    job = home(
        topic,
        transform=[{"sql": f"SELECT *, {CASTS} FROM __rows__"}],
        sink={"cluster_by": ["topic"], "single_driver": True},
    )
    job.ingest()
    assert job.rows() == records.rows(topic)
    assert not crossed
    assert verify(job.job).ok


def test_a_record_that_a_duckdb_step_fails_on_is_named_and_nothing_lands(any_home: Any, records: Any) -> None:
    from kseg.etl.source.errors import ArrowStepError

    topic = records.topic(1)
    records.write(topic, 0, 30)
    bad = records.rows(topic)[17]
    text = bad[4].decode()
    query = f"SELECT *, CASE WHEN decode(value) = '{text}' THEN error('not this one') END AS x FROM __rows__"
    job = any_home(topic, transform=[{"duckdb": query}])
    with pytest.raises(ArrowStepError, match="not this one") as caught:
        job.ingest()
    place = {"topic": topic, "partition": 0, "offset": bad[2], "step": "transform[0].duckdb"}
    assert caught.value.address == place
    assert job.rows() == []


def test_what_fails_where_rows_are_written_is_told_as_without_a_query(home: Any, records: Any) -> None:
    """It was "Spark failed": with exit code 1 where the store did not answer, so that nothing was tried again."""
    topic = records.topic(1)
    records.write(topic, 0, 5)
    job = home(topic, transform=[{"sql": "SELECT * EXCEPT (offset), offset + 1 AS offset FROM __rows__"}])
    with pytest.raises(AddressChanged, match="column offset holds 1 where the row's address has 0"):
        job.ingest()

    upper = [{"sql": "SELECT *, upper(topic) AS up FROM __rows__"}]
    job = home(topic, transform=upper, sink={"partition_by": ["up"]}, run={"deadline": "1s"})
    folder = job.folder / "lake" / "first" / f"up={topic.upper()}"
    folder.parent.mkdir(parents=True)
    folder.write_text("no folder")
    with pytest.raises(RetriableFailure, match="cannot write a data file"):
        job.ingest()
    folder.unlink()
    job.change(run={"deadline": "2m"}).ingest()
    assert job.rows() == records.rows(topic)
