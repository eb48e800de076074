"""`kseg redrive`: dead letters land once after a mend, whichever of them, whoever else runs, and wherever it dies."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml
from click.testing import CliRunner
from confluent_kafka import Producer
from deltalake import write_deltalake

from kseg.etl.errors import ConfigurationError, ExitCode, Refused
from kseg.etl.ledger import maintenance
from kseg.etl.operations import redrive
from kseg.etl.operations.status import status
from kseg.etl.operations.verify import verify
from kseg.jobs.cli import cli
from run_steps import steps_of
from skips import IN_FULL

COLUMNS = {"at": "timestamp"}

#: What a record is: decoded, decoded once the job file says `time_zone`, and decoded by nothing.
GOOD, LOCAL, BROKEN = b'{"at": "2026-01-02T03:04:05Z"}', b'{"at": "2026-01-02 03:04:05"}', b'{"at": '


def decode() -> dict[str, Any]:
    return {"value": {"format": "json", "schema": {"columns": dict(COLUMNS)}}, "on_error": "dead_letter"}


def dead_letters() -> dict[str, Any]:
    return {"dead_letters": {"path": "./lake/dead", "max": "100%"}}


def write(records: Any, topic: str, *values: bytes, partition: int = 0) -> None:
    producer = Producer(records.settings)
    for value in values:
        producer.produce(topic, value=value, partition=partition)
    assert producer.flush(60) == 0


@pytest.fixture
def topic(records: Any) -> str:
    """One partition: offsets 1, 3 and 5 have no time zone."""
    name = str(records.topic(1))
    write(records, name, GOOD, LOCAL, GOOD, LOCAL, GOOD, LOCAL, GOOD)
    return name


@pytest.fixture
def job(topic: str, home: Any) -> Any:
    return home(topic, decode=decode(), sink=dead_letters())


def mend(job: Any) -> Any:
    return job.change(decode={"value": {"time_zone": "UTC"}})


def unmend(job: Any) -> Any:
    return job.change(decode={"value": {"time_zone": None}})


def offsets(job: Any, table: str = "first") -> list[int]:
    """With each row's, as often as it is there."""
    rows = job.table(table).to_pyarrow_table()
    return sorted(rows["_kseg_offset" if "_kseg_offset" in rows.column_names else "offset"].to_pylist())


def kseg(job: Any, command: str, *options: str) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON output."""
    done = CliRunner().invoke(cli, [command, str(job.file), *options, "--json", "--progress", "none"])
    assert done.stdout.strip(), done.stderr[-3000:]
    return done.exit_code, json.loads(done.stdout)


def test_a_condition_and_a_run_say_which(job: Any, topic: str, records: Any) -> None:
    job.ingest()
    (first,) = job.state.runs
    write(records, topic, LOCAL, GOOD, LOCAL)
    job.ingest()
    mend(job)
    code, error = kseg(job, "redrive", "--where", "no_such = 1")
    assert (code, "no_such" in json.dumps(error)) == (ExitCode.BAD_CONFIGURATION, True)
    assert kseg(job, "redrive", "--run", "ffff")[0] == ExitCode.REFUSED
    code, report = kseg(job, "redrive", "--where", "error = 'WRONG_TYPE' AND \"offset\" > 4", "--run", first)
    assert (code, report["status"], offsets(job)) == (0, "done", [0, 2, 4, 5, 6, 8])
    assert status(job.job).dead_letters == {"open": 4, "redriven": 1}
    assert kseg(job, "redrive", "--where", '"offset" = 5')[1]["status"] == "nothing-to-do"
    kseg(job, "redrive", "--run", first)
    assert offsets(job) == [0, 1, 2, 3, 4, 5, 6, 8]
    kseg(job, "redrive")
    assert offsets(job) == list(range(10))
    assert status(job.job).dead_letters == {"redriven": 5}
    assert verify(job.job).ok


def test_what_still_fails_stays_open_and_is_named(job: Any, topic: str, records: Any) -> None:
    write(records, topic, BROKEN, GOOD)
    job.ingest()
    report = mend(job).redrive()
    assert "still cannot be decoded, and stay open: 1. The first" in " ".join(report.notes)
    assert f"{topic}-0 offset 7: value at at: TRUNCATED" in " ".join(report.notes)
    assert offsets(job) == [0, 1, 2, 3, 4, 5, 6, 8]
    assert status(job.job).dead_letters == {"open": 1, "redriven": 3}
    again = job.redrive()
    assert (again.status, "stay open: 1." in " ".join(again.notes)) == ("nothing-to-do", True)
    found = verify(job.job)
    assert (found.ok, [table.compared for table in found.tables]) == (True, ["decoded"])
    job.change(decode={"value": None}).change(decode={"value": {"format": "string"}}, sink={"merge_schema": True})
    assert job.redrive().status == "done"
    assert offsets(job) == list(range(9))
    assert status(job.job).dead_letters == {"redriven": 4}
    assert verify(job.job).ok


def test_dead_letters_land_with_nulls_by_set_null(job: Any, topic: str, records: Any) -> None:
    write(records, topic, BROKEN)
    job.ingest()
    job.change(decode={"on_error": "set_null"})
    write(records, topic, *[GOOD] * 99, LOCAL)  # of a run, `max_nulled` limits them; all of a redrive are such records
    job.ingest()
    assert job.redrive().status == "done"
    assert offsets(job) == list(range(108))
    rows = job.table("first").to_pyarrow_table()
    assert sorted(rows.filter(pc.is_null(rows["at"]))["_kseg_offset"].to_pylist()) == [1, 3, 5, 7, 107]
    assert status(job.job).dead_letters == {"redriven": 4}
    assert (job.redrive().status, verify(job.job).ok) == ("nothing-to-do", True)


def test_set_null_without_the_table_of_earlier_letters_says_how_to_name_it(topic: str, home: Any) -> None:
    job = home(topic, decode=decode(), sink={"dead_letters": {"max": "100%"}})
    job.ingest()
    job.change(decode={"on_error": "set_null"}, sink={"dead_letters": None})
    with pytest.raises(ConfigurationError) as refused:
        job.redrive()
    named = re.search(r"`(sink: .*)`", refused.value.faults[0].remedy or "")
    assert named is not None
    assert job.change(**yaml.safe_load(named[1])).redrive().status == "done"
    assert offsets(job) == list(range(7))
    with pytest.raises(ConfigurationError, match="nothing to redrive"):
        job.change(decode={"on_error": "fail"}, sink={"dead_letters": None}).redrive()


def test_a_redrive_whose_job_file_changes_before_anything_has_landed_is_planned_again(job: Any) -> None:
    job.ingest()
    mend(job).die_redriving("plan:after")
    unmend(job)
    assert job.redrive(take_over=True).status == "nothing-to-do"
    assert offsets(job) == [0, 2, 4, 6]
    assert mend(job).redrive().status == "done"
    assert offsets(job) == list(range(7))


STEPS = tuple(step for step in steps_of("first") if not step.startswith("commit:"))


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_redrive_is_completed_by_the_same_command(step: str, job: Any, children: Any, scale: Any) -> None:
    if step not in scale(("plan:after", "land:first:committed", "account:after"), STEPS):
        pytest.skip(IN_FULL)
    job.ingest()
    mend(job)
    children.run(job, do="redrive", at=step, signal="SIGKILL").killed()
    job.redrive(take_over=True)
    assert offsets(job) == list(range(7))
    assert job.redrive().status == "nothing-to-do"
    assert (offsets(job), offsets(job, "dead")) == (list(range(7)), [1, 3, 5])
    assert verify(job.job).ok


def test_two_processes_at_once_land_each_record_once(job: Any, topic: str, records: Any, children: Any) -> None:
    pair = children.start(), children.start()
    job.ingest()
    mend(job)
    for number in range(4):
        if number:
            unmend(job)
            write(records, topic, LOCAL, GOOD, LOCAL)
            job.ingest()
            mend(job)
        go = job.folder / f"go-{number}"
        for child in pair:
            child.send({"job": str(job.file), "do": "redrive", "go": str(go)}, last=False)
        for child in pair:
            child.ready()
        go.touch()
        exits = [child.answer()["exit"] for child in pair]
        assert 0 in exits
        assert set(exits) <= {0, ExitCode.ANOTHER_RUN_ACTIVE}
        assert offsets(job) == list(range(7 + 3 * number))
    assert set(status(job.job).dead_letters) == {"redriven"}
    assert verify(job.job).ok


def test_a_replacement_decides_anew_what_is_a_dead_letter(job: Any, topic: str) -> None:
    job.ingest()
    whole = {"from_": [f"{topic}:0:0"], "to": [f"{topic}:0:7"], "mode": "replace"}
    job.backfill(**whole)
    assert offsets(job) == [0, 2, 4, 6]
    assert status(job.job).dead_letters == {"open": 3, "replaced": 3}
    assert verify(job.job).ok
    mend(job).redrive()
    assert offsets(job) == list(range(7))
    assert status(job.job).dead_letters == {"redriven": 6}
    job.backfill(**whole, label="again")
    assert offsets(job) == list(range(7))
    assert job.redrive().status == "nothing-to-do"
    assert offsets(job) == list(range(7))
    assert verify(job.job).ok


def test_an_abandoned_replacement_leaves_no_dead_letter_open(job: Any, topic: str) -> None:
    job.ingest()
    mend(job)
    job.die("land:first:after", from_=[f"{topic}:0:0"], to=[f"{topic}:0:7"], mode="replace")
    (run,) = (run.run_id for run in job.state.unfinished_runs())
    job.abandon(run)
    assert job.redrive().status == "nothing-to-do"
    job.ingest()
    assert offsets(job) == list(range(7))
    assert job.redrive().status == "nothing-to-do"
    assert offsets(job) == list(range(7))


def test_what_was_redriven_stays_so_when_the_ledger_forgets_runs(job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job.ingest()
    mend(job).redrive(where='"offset" > 2')
    monkeypatch.setattr(maintenance, "RUNS_KEPT", 0)
    assert maintenance.summarise(job.ledger, job.document["name"], after=0)
    assert all(run.archived for run in job.state.runs.values())
    assert status(job.job).dead_letters == {"open": 1, "redriven": 2}
    assert verify(job.job).ok
    job.redrive()
    assert job.redrive().status == "nothing-to-do"
    assert offsets(job) == list(range(7))
    assert verify(job.job).ok


def test_jobs_with_one_dead_letter_table_redrive_their_own(job: Any, topic: str, home: Any) -> None:
    job.ingest()
    shared = {"dead_letters": {"path": str(job.folder / "lake" / "dead"), "max": "100%"}}
    other = mend(home(topic, decode=decode(), sink=shared))
    other.ingest()
    assert other.redrive().notes == ["none of these dead letters is open: they are of other jobs"]
    assert offsets(other) == list(range(7))
    assert (status(other.job).dead_letters, verify(other.job).ok) == ({}, True)
    unmend(other)
    other.backfill(from_=[f"{topic}:0:0"], to=[f"{topic}:0:7"], mode="replace")
    assert (offsets(other), offsets(job, "dead")) == ([0, 2, 4, 6], [1, 1, 3, 3, 5, 5])
    mend(job).redrive()
    assert (offsets(job), offsets(other)) == (list(range(7)), [0, 2, 4, 6])
    mend(other).redrive()
    assert (offsets(job), offsets(other)) == (list(range(7)), list(range(7)))
    assert verify(job.job).ok
    assert verify(other.job).ok


def test_several_topics_and_tables(records: Any, any_home: Any) -> None:
    one, other, third = records.topic(2), records.topic(1), records.topic(1)
    for partition in (0, 1):
        write(records, one, GOOD, LOCAL, partition=partition)
    write(records, other, LOCAL, GOOD, BROKEN)
    write(records, third, BROKEN, LOCAL)
    by_topic = {one: decode(), "*": decode()}
    job = any_home(one, other, third, decode=by_topic, sink=dead_letters())
    job.ingest()
    assert (offsets(job), offsets(job, "rest")) == ([0, 0], [1])
    job.change(decode={"*": {"value": {"time_zone": "UTC"}}})
    job.die_redriving("land:rest:before")
    job.change(decode={one: {"value": {"time_zone": "UTC"}}})
    job.redrive(take_over=True)
    rest = job.table("rest").to_pyarrow_table().select(["_kseg_topic", "_kseg_offset"]).to_pylist()
    assert sorted((row["_kseg_topic"], row["_kseg_offset"]) for row in rest) == sorted(
        [(other, 0), (other, 1), (third, 1)]
    )
    assert offsets(job) == [0, 0, 1, 1]
    assert status(job.job).dead_letters == {"open": 2, "redriven": 4}
    assert verify(job.job).ok


def test_verify_names_a_redriven_row_that_is_gone_and_a_row_where_none_is_due(job: Any) -> None:
    job.ingest()
    mend(job).redrive(where='"offset" < 4')
    assert verify(job.job).ok
    job.table("first").delete("_kseg_offset = 3")
    (gap,) = verify(job.job).findings
    assert (gap.kind, gap.offset) == ("gap", 3)
    row = job.table("first").to_pyarrow_table().slice(0, 1)
    column = row.schema.get_field_index("_kseg_offset")
    write_deltalake(job.table("first"), row.set_column(column, row.schema.field(column), [[5]]), mode="append")
    assert {(found.kind, found.offset) for found in verify(job.job).findings} == {("gap", 3), ("stranger", 5)}


def test_people_see_open_dead_letters(job: Any) -> None:
    job.ingest()
    shown = CliRunner().invoke(cli, ["status", str(job.file), "--progress", "none"]).stdout
    assert f"{job.document['name']}: 0 offsets behind, 3 open dead letters" in shown
    assert "open 3" in shown


def test_a_condition_that_is_none_is_refused_before_anything_is_planned_and_shown_once(job: Any) -> None:
    job.ingest()
    mend(job)
    for condition in ("no_such = 1", "error = ", "topic = 5"):
        done = CliRunner().invoke(cli, ["redrive", str(job.file), "--where", condition, "--progress", "none"])
        assert done.exit_code == ExitCode.BAD_CONFIGURATION
        assert done.stderr.count("rror: ") <= 2, done.stderr
        assert offsets(job) == [0, 2, 4, 6]
    (fault,) = kseg(job, "redrive", "--where", "no_such = 1")[1]["error"]["faults"]
    assert fault["message"] == "Schema error: No field named no_such."
    assert job.redrive(where="error = 'WRONG_TYPE' -- all").status == "done"


@pytest.mark.parametrize("asked", [{"where": "no_such = 1"}, {"run_id": "nobody"}])
def test_an_unfinished_redrive_is_finished_whatever_the_command_asks_for(asked: dict[str, str], job: Any) -> None:
    """It has its own condition and run: those of the command are not used, so they are not refused."""
    job.ingest()
    mend(job).die_redriving("plan:after")
    report = job.redrive(take_over=True, **asked)
    assert (report.status, offsets(job)) == ("done", [0, 1, 2, 3, 4, 5, 6])
    assert "repeat the command" in report.notes[-1]
    with pytest.raises((ConfigurationError, Refused)):
        job.redrive(**asked)


def test_dead_letters_of_a_run_that_the_ledger_has_dropped_are_found_by_its_id(
    job: Any, topic: str, records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.ingest()
    (first,) = job.state.runs
    write(records, topic, LOCAL, GOOD)
    job.ingest()
    monkeypatch.setattr(maintenance, "RUNS_KEPT", 1)
    assert maintenance.summarise(job.ledger, job.document["name"], after=0)
    assert first not in job.state.runs
    mend(job)
    job.redrive(run_id=first.partition("-")[2])
    assert offsets(job) == [*range(7), 8]
    with pytest.raises(Refused) as caught:
        job.redrive(run_id="ffff")
    assert caught.value.code == "no-such-run"


def test_a_redrive_takes_as_many_as_fit_into_memory(job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters of several files: each is a part of what is read."""
    job.ingest()
    letters = job.table("dead")
    for number in (1, 3, 5):
        one = pa.table(letters.scan(None, f'"offset" = {number}'))
        letters.delete(f'"offset" = {number}')
        write_deltalake(job.table("dead"), one, mode="append")
        letters = job.table("dead")
    mend(job)
    for module, name in ((redrive, "MAX_BYTES"), (redrive, "MAX_LETTERS")):
        monkeypatch.setattr(module, name, 1)
    for landed in (5, 6, 7):
        report = job.redrive()
        assert (report.status, len(offsets(job))) == ("done", landed)
    assert "there may be more" not in " ".join(report.notes)
    assert job.redrive().status == "nothing-to-do"
    assert offsets(job) == list(range(7))
    assert verify(job.job).ok


def test_what_an_append_has_landed_is_not_redriven(job: Any, topic: str) -> None:
    """The record has a row: a redrive would land it a second time."""
    job.ingest()
    mend(job)
    job.backfill(from_=[f"{topic}:0:2"], to=[f"{topic}:0:4"], mode="append", label="again")
    assert offsets(job) == [0, 2, 2, 3, 4, 6]
    assert status(job.job).dead_letters == {"appended": 1, "open": 2}
    assert verify(job.job).ok
    job.redrive()
    assert offsets(job) == [0, 1, 2, 2, 3, 4, 5, 6]
    assert status(job.job).dead_letters == {"appended": 1, "redriven": 2}
    assert verify(job.job).ok
    unmend(job)
    job.backfill(from_=[f"{topic}:0:5"], to=[f"{topic}:0:6"], mode="append", label="once more")
    assert status(job.job).dead_letters == {"appended": 2, "open": 1, "redriven": 1}, "dead once more, and one is open"
    mend(job).redrive()
    assert offsets(job) == [0, 1, 2, 2, 3, 4, 5, 5, 6]
    assert verify(job.job).ok
