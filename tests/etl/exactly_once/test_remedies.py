"""The command that a refusal names is whole, and leads out at once: the fault suite runs what it reads there."""

from __future__ import annotations

import re
import shutil
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import write_deltalake

from kseg.etl.errors import Refused

COMMAND = re.compile(r"`kseg ([^`]+)`")


def refusal(step: Any, *arguments: Any, **options: Any) -> tuple[str, list[str]]:
    """The code of what a step refuses with, and the commands that its remedy names."""
    with pytest.raises(Refused) as caught:
        step(*arguments, **options)
    return caught.value.code, COMMAND.findall(caught.value.remedy or "")


def test_a_table_that_is_gone_is_accepted_by_the_first_command(topic, any_home):
    """It said `--accept-table TABLE` alone, which was refused in its turn: there is nothing to compare."""
    job = any_home(topic)
    job.ingest()
    shutil.rmtree(job.folder / "lake" / "first")
    code, commands = refusal(job.ingest)
    assert code == "table-missing"
    assert commands[0] == f"repair JOB --accept-table {job.folder / 'lake' / 'first'} --no-verify"
    assert refusal(job.accept_table, "first")[1][0] == "repair JOB --accept-table TABLE --no-verify"
    job.accept_table("first", verify_rows=False)
    assert job.ingest().status == "nothing-to-do"


def test_reserved_offsets_name_the_run_that_has_them(topic, any_home, records):
    """`kseg ingest` finishes no backfill, and `kseg repair --abandon` wants a job and a run."""
    job = any_home(topic)
    job.die("plan:after", from_=[f"{topic}:0:0"], to=[f"{topic}:0:5"])
    (run,) = job.state.unfinished_runs()
    code, commands = refusal(job.backfill, from_=[f"{topic}:0:0"], to=[f"{topic}:0:7"])
    assert (code, commands) == ("offsets-reserved", [f"repair JOB --finish {run.run_id}"])
    job.finish(run.run_id)
    assert job.backfill(from_=[f"{topic}:0:0"], to=[f"{topic}:0:7"]).status == "done"


def test_moved_group_offsets_name_the_command_that_accepts_them(topic, any_home, records):
    job = any_home(topic)
    job.ingest()
    records.set_group_offsets(job.group, {(topic, 0): 3})
    code, commands = refusal(job.ingest)
    assert (code, commands) == ("group-offsets-differ", ["ingest JOB --accept-group-offsets"])
    job.ingest(accept_group_offsets=True)
    job.assert_complete(runs=1)


@pytest.mark.parametrize("gone", [False, True])
def test_a_table_that_an_unfinished_run_has_landed_in_is_accepted_once_that_is_abandoned(
    topic, any_home, records, gone
):
    """It named `--accept-table`, which is refused as long as the run has not ended."""
    job = any_home(topic)
    job.ingest()
    table = job.folder / "lake" / "first"
    shutil.copytree(table, job.folder / "copy")
    records.write(topic, 0, 7)
    job.die("land:first:after")
    run = job.state.unfinished()
    shutil.rmtree(table)
    if not gone:
        shutil.copytree(job.folder / "copy", table)
        for _ in range(3):  # others write to it: it is no older by its version
            write_deltalake(job.table("first"), job.table("first").to_pyarrow_table().slice(0, 0), mode="append")
    expected = "table-missing" if gone else "table-older-than-ledger", f"repair JOB --abandon {run.run_id}"
    for step in (job.ingest, lambda: job.finish(run.run_id)):
        code, commands = refusal(step)
        assert (code, commands[0]) == expected
    job.abandon(run.run_id)
    if gone:
        assert refusal(job.ingest)[1][0] == f"repair JOB --accept-table {table} --no-verify"
    job.accept_table("first", verify_rows=False)
    assert job.ingest().counts["records"] == 7


def test_what_stops_a_commit_has_the_remedy_that_the_next_run_has(topic, any_home, records):
    job = any_home(topic)
    job.ingest()
    version = job.table("first").version()
    records.write(topic, 0, 7)

    def restore(step: str) -> None:
        if step.startswith("land:") and step.endswith(":before"):
            for to in (version - 1, version):
                job.table("first").restore(to)

    stopped = refusal(job.ingest, observe=restore)
    assert stopped == ("table-restored", ["repair JOB --accept-table TABLE"])
    assert refusal(job.ingest) == stopped
    job.accept_table("first")
    job.ingest()
    job.assert_complete(runs=2)


def test_a_damaged_table_that_an_unfinished_run_has_landed_in_leads_out_by_abandoning(topic, any_home, records):
    """Both commands named `--accept-table`, which is refused as long as the run has not ended."""
    job = any_home(topic)
    job.ingest()
    records.write(topic, 0, 7)
    job.die("land:first:after")
    run = job.state.unfinished()
    folder = job.folder / "lake" / "first"
    rows = job.table("first").to_pyarrow_table()
    (folder / "_delta_log" / f"{1:020d}.json").unlink()
    for step in (job.ingest, lambda: job.finish(run.run_id), lambda: job.abandon(run.run_id)):
        code, commands = refusal(step)
        assert (code, commands) == ("table-log-damaged", [f"repair JOB --abandon {run.run_id}"])
    shutil.rmtree(folder)
    write_deltalake(folder, rows)
    job.abandon(run.run_id)
    job.accept_table("first", verify_rows=False)
    assert job.ingest().counts["records"] == 7


@pytest.fixture
def redriving(any_home, records):
    """A job whose dead letters, at offsets 1, 3 and 5 of seven, can be decoded by now: a redrive has planned them, and
    died."""
    topic = str(records.topic(1))
    producer = Producer(records.settings)
    for number in range(7):
        producer.produce(topic, b'{"at": "%d"}' % number if number % 2 else b'{"at": %d}' % number)
    assert producer.flush(60) == 0
    value = {"format": "json", "schema": {"columns": {"at": "int"}}}
    dead_letters = {"dead_letters": {"path": "./lake/dead", "max": "100%"}}
    job = any_home(topic, decode={"value": value, "on_error": "dead_letter"}, sink=dead_letters)
    job.ingest()
    job.change(decode={"value": {"formats": {"at": "string"}}})
    job.die_redriving("plan:after")
    return job


def test_a_dead_letter_table_that_is_gone_leads_out_by_abandoning_the_redrive_that_has_planned_it(redriving):
    """They named `--accept-table` and a replacement, which the redrive's reserved offsets refused in its turn."""
    job = redriving
    (run,) = job.state.unfinished_runs()
    shutil.rmtree(job.folder / "lake" / "dead")
    for step in (job.redrive, job.ingest, lambda: job.finish(run.run_id)):
        code, commands = refusal(step)
        assert (code, commands) == ("table-missing", [f"repair JOB --abandon {run.run_id}"])
    job.abandon(run.run_id)
    code, (accept, replace) = refusal(job.ingest)
    assert (code, accept) == ("table-missing", f"repair JOB --accept-table {job.folder / 'lake' / 'dead'} --no-verify")
    assert replace.startswith("backfill JOB --mode replace")
    job.accept_table("dead", verify_rows=False)
    topic = job.topics[0]
    job.backfill(mode="replace", from_=[f"{topic}:0:0"], to=[f"{topic}:0:7"])
    assert sorted(job.table("first").to_pyarrow_table()["_kseg_offset"].to_pylist()) == list(range(7))
    assert job.ingest().status == "nothing-to-do"


def test_dead_letters_that_are_gone_are_counted_over_all_ranges(redriving):
    job = redriving
    (run,) = job.state.unfinished_runs()
    job.table("dead").delete('"offset" <> 3')
    with pytest.raises(Refused, match=r"^2 dead letters that the run has planned are not in ") as refused:
        job.redrive()
    assert (refused.value.code, refused.value.address["run"]) == ("dead-letters-missing", run.run_id)
