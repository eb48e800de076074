"""Others can read the ledger: the queries of docs/reference/ledger.md, as they stand there."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kseg.etl.ledger import events as ev
from kseg.etl.ledger.bases import BasePinned
from kseg.etl.ledger.maintenance import compact

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "ledger.md"


def queries(dialect):
    return re.findall(rf"```{dialect}\n(.*?)```", DOCS.read_text(), re.DOTALL)


@pytest.fixture
def history(ledger, words):
    base = words.step(BasePinned, "", bases={words.tp: 0}, reason="group")
    ledger.transition("orders", lambda state: [words.lease(), base])
    for event in words.whole_run(ledger.read("orders"), "r1", (0, 10)):
        ledger.transition("orders", lambda state, event=event: [event])
    compact(ledger, "orders", small_files=1)
    ledger.transition("orders", lambda state: [words.plan(state, "r2", (10, 15))])
    refusal = words.step(ev.RunRefused, "r2", code="table-restored", message="it's older")
    ledger.transition("orders", lambda state: [refusal])
    return ledger


@pytest.fixture
def duck():
    import duckdb
    import duckdb_ext

    (extension,) = (e for root in duckdb_ext.__path__ for e in Path(root).rglob("delta.duckdb_extension"))
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{extension}'")
    yield connection
    connection.close()


def test_duckdb_reads_it(history, duck):
    last, unfinished, ranges = (
        duck.execute(query.replace("LEDGER", history.path)).fetchall() for query in queries("sql duckdb")
    )
    assert [row[:3] for row in last] == [("orders", "r2", "refused"), ("orders", "r1", "finished")]
    assert [row[:2] for row in unfinished] == [("orders", "r2")]
    assert ranges == [("orders", "r1", "orders", 0, 0, 10, 10, 0, 0, 0, 0)]


def test_a_backfill_that_was_abandoned_and_planned_again_is_unfinished(history, words, duck):
    where = {"chain": "b1"}

    def add(*events):
        history.transition("orders", lambda state: list(events))

    def plan():
        return words.plan(history.read("orders"), "b1", (20, 25), mode="backfill-missing")

    add(words.step(ev.Leased, "", duration=60.0, **where))
    add(plan())
    add(words.step(ev.Abandoning, "b1", reason="for the test", **where))
    add(words.step(ev.Abandoned, "b1", tables={}, reason="for the test", **where))
    assert unfinished(history, duck) == {"r2"}
    add(plan())
    assert unfinished(history, duck) == {"r2", "b1"}


def unfinished(history, duck):
    query = queries("sql duckdb")[1].replace("LEDGER", history.path)
    return {row[1] for row in duck.execute(query).fetchall()}


@pytest.mark.spark
def test_spark_reads_it(history, spark):
    rows, refusals = (spark.sql(query.replace("LEDGER", history.path)).collect() for query in queries("sql spark"))
    assert [tuple(row)[:2] + tuple(row)[3:] for row in rows] == [("orders", "r1", 10, 10, "t", 1)]
    assert [(row.code, row.message) for row in refusals] == [("table-restored", "it's older")]
    table = spark.read.format("delta").load(history.path)
    count, last = table.selectExpr("count(*)", "unix_micros(max(written_at))").first()
    assert count == 9
    assert datetime.fromtimestamp(0, UTC) + timedelta(microseconds=last) == history.read("orders").updated_at


def test_python_reads_it(history, capsys):
    (example,) = queries("python")
    exec(example.replace("LEDGER", history.path), {})
    assert capsys.readouterr().out.splitlines() == [
        "10 {[0, 10)}",
        "r1 incremental finished RangeCounts(data=10, control=0, aborted=0, dead_lettered=0, absent=0, late=0, "
        "decoding=None)",
        "r2 incremental planned None",
    ]
