"""Records that cannot be decoded are accounted for: each is a row, or a dead letter, or was dropped, and never two."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from typing import Any

import pytest
from confluent_kafka import Producer

from kseg.etl.decoding.errors import TooManyDeadLetters
from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger import maintenance
from kseg.etl.operations.status import status
from kseg.etl.operations.verify import verify
from kseg.etl.source.errors import ArrowStepError
from run_steps import steps_of
from skips import IN_FULL

DECODE = {
    "key": {"format": "string", "as": "customer"},
    "value": {"format": "json", "schema": {"columns": {"id": "bigint"}}, "tombstones": "drop"},
    "on_error": "dead_letter",
}
COUNT = 40
STEPS = steps_of("dead", "first")


def value_of(number: int) -> bytes | None:
    """Every fifth does not decode, every eighth is a tombstone."""
    if number % 8 == 7:
        return None
    return b'{"id": "x%d"}' % number if number % 5 == 0 else json.dumps({"id": number}).encode()


DEAD = {n for n in range(COUNT) if n % 5 == 0 and n % 8 != 7}
ROWS = {n for n in range(COUNT) if n % 8 != 7} - DEAD


@pytest.fixture(scope="module")
def topic(records: Any) -> str:
    """Record n is in partition n % 2, at offset n // 2."""
    name = str(records.topic(2))
    producer = Producer(records.settings)
    for number in range(COUNT):
        producer.produce(name, key=f"c{number}", value=value_of(number), partition=number % 2, headers=[("n", b"\0")])
    assert producer.flush(60) == 0
    return name


@pytest.fixture
def job(topic: str, home: Any) -> Any:
    return home(topic, decode=deepcopy(DECODE), sink={"dead_letters": {"path": "./lake/dead", "max": "50%"}})


def numbers(rows: list[dict[str, Any]], prefix: str = "") -> list[int]:
    return sorted(row[f"{prefix}offset"] * 2 + row[f"{prefix}partition"] for row in rows)


def assert_exact(job: Any) -> None:
    """Rows, dead letters, ledger and group have each record once."""
    rows, dead = (job.table(name).to_pyarrow_table().to_pylist() for name in ("first", "dead"))
    assert numbers(rows, "_kseg_") == sorted(ROWS)
    assert {row["id"] for row in rows} == ROWS
    assert numbers(dead) == sorted(DEAD)
    assert {(row["value"], row["key"]) for row in dead} == {(value_of(n), f"c{n}".encode()) for n in DEAD}
    (run,) = (run for run in job.state.runs.values() if run.accounted is not None)
    counts = run.accounted.counts.decoding
    assert (counts.decoded, counts.dead, counts.dropped) == (len(ROWS), len(DEAD), COUNT - len(ROWS) - len(DEAD))
    assert {row["_kseg_run"] for row in [*rows, *dead]} == {run.run_id}
    assert set(job.group_offsets().values()) == {COUNT // 2}


def test_rows_land_and_what_cannot_be_decoded_is_in_the_dead_letter_table(job: Any) -> None:
    report = job.ingest()
    assert_exact(job)
    assert report.counts["dead"] == report.dead_letters.rows == len(DEAD)
    assert [table.rows for table in report.tables] == [len(ROWS)]
    letter = job.table("dead").to_pyarrow_table().to_pylist()[0]
    assert (letter["source"], letter["error"], letter["path"]) == ("value", "WRONG_TYPE", "id")
    assert letter["headers"] == [{"key": "n", "value": b"\0"}]
    assert letter["timestamp"] is not None
    assert job.ingest().status == "nothing-to-do"
    assert verify(job.job).ok


def test_more_than_a_run_may_have_refuse_it_before_anything_is_committed(job: Any) -> None:
    job.change(sink={"dead_letters": {"max": "10%"}})
    with pytest.raises(TooManyDeadLetters) as caught:
        job.ingest()
    assert "value at id: WRONG_TYPE" in str(caught.value)
    assert job.group_offsets() == {}
    assert not any(run.landed for run in job.state.runs.values())
    for name in ("first", "dead"):
        assert job.table(name).to_pyarrow_table().num_rows == 0
    # The limit is no part of what decides rows: the same run goes on.
    job.change(sink={"dead_letters": {"max": len(DEAD)}})
    job.ingest()
    assert_exact(job)
    assert len(job.state.runs) == 1


def test_a_table_of_dead_letters_that_only_spark_can_write_is_refused(job: Any, spark: Any) -> None:
    """The remedy was to run again, with another writer: there is none for it."""
    table = f"delta.`{job.folder / 'lake' / 'dead'}`"
    spark.sql(f"CREATE TABLE {table} (topic STRING) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    with pytest.raises(ConfigurationError, match=r"^sink\.dead_letters: .*table feature rowTracking.* another table"):
        job.ingest()
    job.change(sink={"dead_letters": {"path": "./lake/other"}}).ingest()
    assert numbers(job.table("other").to_pyarrow_table().to_pylist()) == sorted(DEAD)


def test_a_refused_run_is_planned_again_once_the_job_file_is_corrected(job: Any) -> None:
    job.change(sink={"dead_letters": {"max": 0}})
    with pytest.raises(TooManyDeadLetters):
        job.ingest()
    job.change(decode={"on_error": "set_null", "max_nulled": "100%"}, sink={"dead_letters": None})
    job.ingest()
    assert numbers(_rows(job), "_kseg_") == sorted(ROWS | DEAD)
    assert [run.phase for run in job.state.runs.values()] == ["abandoned", "finished"]


def test_nulls_in_place_of_what_cannot_be_decoded_are_counted(job: Any) -> None:
    job.change(decode={"on_error": "set_null", "max_nulled": "100%"}, sink={"dead_letters": None})
    report = job.ingest()
    rows = {row["_kseg_offset"] * 2 + row["_kseg_partition"]: row["id"] for row in _rows(job)}
    assert rows == {n: n for n in ROWS} | dict.fromkeys(DEAD)
    assert (report.counts["nulled"], report.counts["decoded"]) == (len(DEAD), len(DEAD | ROWS))
    assert verify(job.job).ok


def _rows(job: Any) -> list[dict[str, Any]]:
    return list(job.table("first").to_pyarrow_table().to_pylist())


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_run_with_dead_letters_is_taken_up(step: str, job: Any, children: Any, scale: Any) -> None:
    choice = random.Random("dead letters")
    landing = [step for step in STEPS if step.startswith("land:")]
    if step not in scale(("land:dead:committed", choice.choice(landing), "account:before"), STEPS):
        pytest.skip(IN_FULL)
    children.run(job, at=step, signal="SIGKILL").killed()
    report = job.ingest(take_over=True)
    assert report.status == ("nothing-to-do" if step == "finish:after" else "done")
    assert_exact(job)
    assert job.ingest().status == "nothing-to-do"
    assert_exact(job)


def test_tables_that_spark_writes_and_sql_steps_have_dead_letters_too(job: Any) -> None:
    job.change(transform=[{"sql": "SELECT *, id + 1 AS next FROM __rows__ WHERE id <> 1"}])
    job.change(sink={"routes": None, "path": "./lake/first", "cluster_by": ["id"], "single_driver": True})
    job.ingest()
    assert numbers(_rows(job), "_kseg_") == sorted(ROWS - {1})
    assert numbers(job.table("dead").to_pyarrow_table().to_pylist()) == sorted(DEAD)


def test_an_abandoned_run_takes_its_dead_letters_with_it(job: Any) -> None:
    job.die("land:first:before")
    (run,) = job.state.runs
    assert job.table("dead").to_pyarrow_table().num_rows == len(DEAD)
    job.abandon(run)
    assert job.table("dead").to_pyarrow_table().num_rows == 0
    job.ingest()
    assert_exact(job)


# --- steps of the user

MODULE = """
import pyarrow as pa

def inverse(rows):
    ids = rows.column("id").to_pylist()
    if 13 in ids:
        raise ValueError("13 brings bad luck")
    return rows.append_column("next", pa.array([id and id + 1 for id in ids], pa.int64()))
"""


@pytest.fixture
def steps_of_the_user(job: Any, spark: Any) -> Any:
    """The job with a step that raises for the record 13."""
    name = f"steps_{job.document['name'].replace('-', '_')}"
    (job.folder / f"{name}.py").write_text(MODULE)
    spark.sparkContext.addPyFile(str(job.folder / f"{name}.py"))
    return job.change(transform=[{"arrow": f"{name}:inverse"}])


@pytest.mark.parametrize("step", [None, "land:dead:committed", "land:first:committed", "land:first:after"])
def test_a_record_that_a_step_raises_for_is_a_dead_letter(step: str | None, steps_of_the_user: Any) -> None:
    job = steps_of_the_user
    if step is not None:
        job.die(step)
    job.ingest(take_over=True)
    rows, dead = (job.table(name).to_pyarrow_table().to_pylist() for name in ("first", "dead"))
    assert numbers(rows, "_kseg_") == sorted(ROWS - {13})
    assert numbers(dead) == sorted(DEAD | {13})
    (letter,) = (row for row in dead if row["error"] == "TRANSFORM")
    assert (letter["value"], letter["source"], letter["path"]) == (value_of(13), "row", "transform[0].arrow")
    assert letter["message"].endswith("inverse raised ValueError: 13 brings bad luck")
    (run,) = job.state.runs.values()
    counts = run.accounted.counts.decoding
    assert (counts.decoded, counts.dead) == (len(ROWS) - 1, len(DEAD) + 1)
    assert job.redrive().status == "nothing-to-do", "it still raises"
    job.change(transform=None)
    job.redrive()
    assert numbers(_rows(job), "_kseg_") == sorted(ROWS)


def test_a_step_that_raises_ends_the_run_with_the_record_s_address(steps_of_the_user: Any) -> None:
    job = steps_of_the_user.change(decode={"on_error": "set_null", "max_nulled": "100%"}, sink={"dead_letters": None})
    with pytest.raises(ArrowStepError, match="13 brings bad luck") as caught:
        job.ingest()
    assert (caught.value.address["partition"], caught.value.address["offset"]) == (1, 6)


# --- expectations


def test_a_row_that_breaks_an_expectation_is_a_dead_letter(job: Any) -> None:
    job.change(decode={"expect": {"id": "< 30"}}, sink={"dead_letters": {"max": "60%"}})
    job.ingest()
    broken = {n for n in ROWS if n >= 30}
    assert numbers(_rows(job), "_kseg_") == sorted(ROWS - broken)
    letters = job.table("dead").to_pyarrow_table().to_pylist()
    assert numbers(letters) == sorted(DEAD | broken)
    of_rows = [letter for letter in letters if letter["source"] == "row"]
    assert numbers(of_rows) == sorted(broken)
    assert {(letter["error"], letter["path"], letter["value"]) for letter in of_rows} == {
        ("EXPECTATION", "id", value_of(n)) for n in broken
    }
    job.change(decode={"expect": {"id": "< 35"}})
    job.redrive(where="error = 'EXPECTATION'")
    assert numbers(_rows(job), "_kseg_") == sorted(n for n in ROWS if n < 35)
    assert status(job.job).dead_letters["open"] == len(DEAD) + len([n for n in ROWS if n >= 35])
    assert verify(job.job).ok


@pytest.mark.parametrize("on_error", ["dead_letter", "set_null"])
def test_rows_that_break_an_expectation_land_and_are_counted_where_it_only_warns(job: Any, on_error: str) -> None:
    job.change(decode={"expect": {"id": "< 30", "else": "warn"}, "on_error": on_error})
    if on_error == "set_null":
        job.change(decode={"max_nulled": "100%"}, sink={"dead_letters": None})
    job.ingest()
    landed = ROWS if on_error == "dead_letter" else ROWS | DEAD
    assert numbers(_rows(job), "_kseg_") == sorted(landed)
    assert {row["id"] for row in _rows(job)} - {None} == ROWS, "as they are"
    (run,) = job.state.runs.values()
    assert run.accounted.counts.decoding.warned == len([n for n in ROWS if n >= 30])
    assert verify(job.job).ok


# --- redriving


def mended(job: Any) -> Any:
    """The numbers that were written as text are read as text, into a column of their own."""
    return job.change(
        decode={"value": {"schema": {"columns": {"id": "string"}}, "rename": {"id": "text"}}},
        sink={"merge_schema": True},
    )


@pytest.mark.parametrize("step", [None, *steps_of("first")[2:-5], "account:after", "finish:before", "finish:after"])
def test_dead_letters_land_once_after_a_mend(step: str | None, job: Any, scale: Any) -> None:
    if step not in scale((None, "land:first:before", "land:first:committed", "account:before"), (step,)):
        pytest.skip(IN_FULL)
    job.ingest()
    assert job.redrive().status == "nothing-to-do", "nothing was corrected"
    mended(job)
    if step is not None:
        job.die_redriving(step)
    report = job.redrive(take_over=True)
    assert report.status == ("nothing-to-do" if step == "finish:after" else "done")
    rows = _rows(job)
    assert numbers(rows, "_kseg_") == sorted(ROWS | DEAD)
    assert {row["text"] for row in rows if row["text"] is not None} == {f"x{n}" for n in DEAD}
    assert numbers(job.table("dead").to_pyarrow_table().to_pylist()) == sorted(DEAD), "they stay where they are"
    assert job.redrive().status == "nothing-to-do"
    assert numbers(_rows(job), "_kseg_") == sorted(ROWS | DEAD)
    assert set(job.group_offsets().values()) == {COUNT // 2}
    assert verify(job.job).ok
    assert status(job.job).dead_letters == {"redriven": len(DEAD)}


def test_what_was_redriven_stays_so_when_the_ledger_drops_old_runs(job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job.ingest()
    mended(job)
    job.redrive()
    monkeypatch.setattr(maintenance, "RUNS_KEPT", 0)
    assert maintenance.summarise(job.ledger, job.document["name"], after=0)
    assert [run.archived for run in job.state.runs.values()] == [True], "the redrive; the run before it is a sum"
    assert job.redrive().status == "nothing-to-do"
    assert numbers(_rows(job), "_kseg_") == sorted(ROWS | DEAD)


def test_dead_letters_of_another_job_in_the_same_table_are_left_to_it(job: Any, topic: str, home: Any) -> None:
    job.ingest()
    dead = {"path": str(job.folder / "lake" / "dead"), "max": "50%"}
    other = home(topic, decode={"key": DECODE["key"], "on_error": "dead_letter"}, sink={"dead_letters": dead})
    other.ingest()
    report = other.redrive()
    assert (report.status, report.notes) == (
        "nothing-to-do",
        ["none of these dead letters is open: they are of other jobs"],
    )
    assert numbers(_rows(other), "_kseg_") == [*range(COUNT)]
    assert status(other.job).dead_letters == {}
    assert status(job.job).dead_letters == {"open": len(DEAD)}


def test_verify_names_dead_letters_that_are_gone_or_in_a_table_of_before(job: Any) -> None:
    job.ingest()
    assert not [note for note in verify(job.job).notes if "any more" in note]
    (run,) = job.state.runs
    job.table("dead").delete("partition = 1 AND offset < 5")
    gone = len([n for n in DEAD if n % 2 == 1 and n // 2 < 5])
    before = job.job.dead_letters
    assert f"{gone} dead letters are not in {before} any more (run {run}: {gone})" in verify(job.job).notes
    job.change(sink={"dead_letters": {"path": "./lake/other"}})
    moved = f"{len(DEAD)} dead letters were committed to {before}, which the job file does not name any more"
    assert [note for note in verify(job.job).notes if note.startswith(moved)]
