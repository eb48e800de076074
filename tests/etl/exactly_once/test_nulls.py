"""Nulls by column of a run's rows, beside those of the run before: what a query that fails silently leaves."""

from __future__ import annotations

from typing import Any

from kseg.etl.operations.status import run_report

COUNTED = "SELECT *, {} AS amount, partition = 0 AS first FROM __rows__"


def test_a_column_that_turns_null_is_noted_beside_the_run_before(topic: str, home: Any, records: Any) -> None:
    job = home(topic, transform=[{"sql": COUNTED.format("CASE WHEN offset % 2 = 0 THEN 1 END")}])
    first = job.ingest()
    [table] = first.tables
    rows = job.table("first").to_pyarrow_table()
    assert table.nulls is not None
    assert (table.nulls["amount"], table.nulls["first"]) == (rows["amount"].null_count, 0)
    assert 0 < table.nulls["amount"] < len(rows)
    assert (table.before, [note for note in first.notes if "amount" in note]) == (None, [])
    records.write(topic, 0, 5)
    job.change(transform=[{"sql": COUNTED.format("CAST(NULL AS int)")}])
    second = job.ingest()
    [after] = second.tables
    assert (after.nulls["amount"], after.rows) == (5, 5)
    assert after.before is not None
    assert (after.before.run, after.before.nulls, after.before.rows) == (first.run_id, table.nulls, table.rows)
    [note] = [note for note in second.notes if "column amount is null in all 5 rows" in note]
    assert str(first.run_id) in note
    records.write(topic, 0, 2)
    third = job.ingest()
    assert not [note for note in third.notes if "amount" in note]  # as it was in the run before
    assert run_report(job.job, second.run_id).tables[0] == after
