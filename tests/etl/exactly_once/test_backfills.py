"""Backfills beside the incremental chain: whatever was asked, in whatever order, rows land once unless somebody asked
for them again by name; and the group's offsets move by the contiguous frontier alone."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from deltalake import write_deltalake

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ExitCode, Refused
from kseg.etl.operations import backfill
from kseg.etl.operations.status import run_report
from kseg.etl.planning import preflight
from kseg.etl.tables.delta.table import DeltaAccess


def asked(topic: str, *ranges: tuple[int, int, int]) -> dict[str, list[str]]:
    return {
        "from_": [f"{topic}:{partition}:{start}" for partition, start, _ in ranges],
        "to": [f"{topic}:{partition}:{end}" for partition, _, end in ranges],
    }


def within(rows: list[Any], *ranges: tuple[int, int, int]) -> list[Any]:
    return [row for row in rows if any(row[1] == p and start <= row[2] < end for p, start, end in ranges)]


# --- missing


def test_missing_lands_what_has_not_landed(topic, any_home, records):
    job, rows = any_home(topic), records.rows(topic)
    job.backfill(**asked(topic, (0, 10, 20)))
    assert job.rows() == within(rows, (0, 10, 20))
    job.backfill(**asked(topic, (0, 5, 25), (1, 0, 10)))
    assert job.rows() == within(rows, (0, 5, 25), (1, 0, 10))
    for again in (asked(topic, (0, 10, 20)), asked(topic, (0, 5, 25), (1, 0, 10)), asked(topic, (0, 7, 12))):
        assert job.backfill(**again).status == "nothing-to-do"
    assert job.rows() == within(rows, (0, 5, 25), (1, 0, 10))
    job.ingest()
    job.assert_complete(runs=3)


def test_a_backfill_that_lands_everything_leaves_the_job_its_offsets_to_commit(topic, any_home, records):
    job, ends = any_home(topic), records.ends(topic)
    job.backfill(**asked(topic, *((partition, 0, end) for (_, partition), end in ends.items())))
    assert job.group_offsets() == {}
    assert job.ingest().status == "nothing-to-do"
    job.assert_complete(runs=1)


def test_what_another_run_has_planned_is_refused(topic, any_home, records):
    """Neither landed nor open: it may be abandoned yet."""
    job = any_home(topic)
    job.die("plan:after")
    with pytest.raises(Refused) as caught:
        job.backfill(**asked(topic, (0, 0, 5)))
    assert caught.value.code == "offsets-reserved"
    job.ingest()
    assert job.backfill(**asked(topic, (0, 0, 5))).status == "nothing-to-do"
    job.assert_complete(runs=1)


def test_the_incremental_chain_plans_around_an_unfinished_backfill(topic, any_home, records):
    """The group's offsets stop before it, and go on when it is done."""
    job = any_home(topic)
    job.die("plan:after", **asked(topic, (0, 10, 20)))
    job.ingest()
    assert job.rows() == [row for row in records.rows(topic) if row[1] == 1 or not 10 <= row[2] < 20]
    assert job.group_offsets() == records.ends(topic) | {(topic, 0): 10} == job.frontiers()
    job.backfill(**asked(topic, (0, 10, 20)))
    assert job.ingest().status == "nothing-to-do"
    job.assert_complete(runs=2)


# --- replace and append


def test_replace_puts_rows_in_the_place_of_those_that_are_there(topic, any_home, records):
    job, rows = any_home(topic), records.rows(topic)
    job.ingest()
    job.table("first").delete("partition = 0 AND offset IN (3, 12)")
    job.table("first").update({"value": "x'00'"}, predicate="partition = 1 AND offset = 4")
    assert job.rows() != rows
    request = asked(topic, (0, 0, 15), (1, 2, 8)) | {"mode": "replace"}
    assert job.backfill(**request).status == "done"
    assert job.rows() == rows
    version = job.table("first").version()
    assert job.backfill(**request).status == "nothing-to-do"
    assert job.table("first").version() == version
    job.assert_complete(runs=2)


@pytest.mark.parametrize("step", ["land:first:before", "land:first:committed", "account:after"])
def test_replace_that_died_is_taken_up(step, topic, any_home, records):
    job = any_home(topic)
    job.ingest()
    request = asked(topic, (0, 0, 15), (1, 2, 8)) | {"mode": "replace"}
    job.die(step, **request)
    assert job.rows() == records.rows(topic), "never without rows, never with two"
    assert job.backfill(**request).status == "done"
    assert job.rows() == records.rows(topic)
    job.assert_complete(runs=2)


@pytest.mark.parametrize("step", ["plan:after", "land:first:committed", "account:after"])
def test_replace_that_died_is_completed_by_one_with_another_label(step, topic, any_home, records):
    """A task of Airflow that is cleared has another label: exit 3 until `kseg repair`."""
    job = any_home(topic)
    job.ingest()
    request = asked(topic, (0, 0, 15)) | {"mode": "replace"}
    job.die(step, **request, label="run 0")
    [left] = job.state.unfinished_runs()
    assert job.backfill(**request, label="run 1").run_id == left.run_id
    job.assert_complete(runs=2)
    assert job.backfill(**request, label="run 1").run_id != left.run_id
    job.assert_complete(runs=3)


def test_replace_that_had_landed_before_the_job_file_was_changed_is_finished_and_then_done_again(
    topic, any_home, records
):
    """What is asked for are rows as the job file says now."""
    job = any_home(topic)
    job.ingest()
    request = asked(topic, (0, 0, 15)) | {"mode": "replace"}
    job.die("account:after", **request, label="run 0")
    job.change(sink={"merge_schema": True})
    assert job.backfill(**request, label="run 1").status == "done"
    job.assert_complete(runs=3)
    as_now = [run.config_hash == job.job.config_hash for run in job.state.runs.values() if run.finished]
    assert as_now == [False, False, True]


def test_replace_of_offsets_that_have_not_landed_lands_them(topic, any_home, records):
    job = any_home(topic)
    job.backfill(**asked(topic, (0, 5, 15)), mode="replace")
    assert job.rows() == within(records.rows(topic), (0, 5, 15))
    job.ingest()
    job.assert_complete(runs=2)


def test_append_lands_again_once_a_label(topic, any_home, records):
    job, rows = any_home(topic), records.rows(topic)
    job.ingest()
    request = asked(topic, (0, 0, 5)) | {"mode": "append", "label": "once more"}
    again = within(rows, (0, 0, 5))
    job.backfill(**request)
    assert job.rows() == sorted(rows + again)
    assert job.backfill(**request).status == "nothing-to-do"
    assert job.rows() == sorted(rows + again)
    job.backfill(**request | {"label": "and again"})
    assert job.rows() == sorted(rows + again + again)
    assert job.ingest().status == "nothing-to-do"
    assert job.frontiers() == records.ends(topic) == job.group_offsets()


# --- death and abandonment


@pytest.mark.parametrize("step", ["plan:after", "land:first:before", "land:first:committed", "account:after"])
def test_a_backfill_abandoned_lands_when_it_is_asked_for_again(step, topic, any_home, records):
    """Under its own name: its app transaction is one above that of the abandoned one."""
    job, rows = any_home(topic), records.rows(topic)
    request = asked(topic, (0, 10, 20), (1, 0, 5))
    job.die(step, **request)
    (run,) = job.state.unfinished_runs()
    assert job.abandon(run.run_id).status == "abandoned"
    told = run_report(job.job, run.run_id)
    assert (told.status, told.tables) == ("abandoned", [])
    assert (job.rows() if (job.folder / "lake").exists() else []) == []
    assert job.backfill(**request).status == "done"
    assert job.rows() == within(rows, (0, 10, 20), (1, 0, 5))
    assert job.backfill(**request).status == "nothing-to-do"
    job.ingest()
    job.assert_complete(runs=2)


@pytest.mark.parametrize(
    "step",
    [
        "plan:after",
        "land:first:before",
        "land:first:committed",
        "land:first:after",
        "land:rest:committed",
        "account:after",
    ],
)
def test_a_replace_abandoned_opens_the_offsets_whose_rows_it_had_removed(step, topic, any_home, records):
    """In each table for itself: where it had come, the rows before are gone; where it had not, they are still there."""
    rest = records.topic(1)
    records.write_mixed(rest, 1, rounds=1)
    job, rows = any_home(topic, rest), records.rows(topic, rest)
    job.ingest()
    ranges = [(topic, 0, 0, 15), (topic, 1, 2, 8), (rest, 0, 5, 10)]
    request = {
        "from_": [f"{name}:{partition}:{start}" for name, partition, start, _ in ranges],
        "to": [f"{name}:{partition}:{end}" for name, partition, _, end in ranges],
        "mode": "replace",
    }
    job.die(step, **request)
    (run,) = job.state.unfinished_runs()
    job.abandon(run.run_id)
    gone = {"plan:after": (), "land:first:before": (), "land:first:committed": (topic,), "land:first:after": (topic,)}
    gone = gone.get(step, (topic, rest))
    assert job.rows() == [
        row for row in rows if not any(r[0] in gone and r[:2] == row[:2] and r[2] <= row[2] < r[3] for r in ranges)
    ]
    report = job.ingest()
    assert report.status == ("done" if gone else "nothing-to-do")
    assert job.rows() == rows
    assert job.group_offsets() == records.ends(topic, rest) == job.frontiers()


def clean_history(job: Any, name: str) -> None:
    """Checkpoint the table and delete its log up to there, as Delta does after `delta.logRetentionDuration`."""
    table = job.table(name)
    write_deltalake(table, table.to_pyarrow_table().slice(0, 0), mode="append")
    table = job.table(name)
    table.create_checkpoint()
    for version in range(table.version()):
        (job.folder / "lake" / name / "_delta_log" / f"{version:020d}.json").unlink(missing_ok=True)


def test_a_replace_abandoned_after_the_tables_history_was_cleaned(topic, any_home):
    """It had committed and died before it noted that: only the app transaction in the snapshot still says so."""
    job = any_home(topic)
    job.ingest()
    before = job.rows()
    job.die("land:first:committed", **asked(topic, (0, 0, 20)), mode="replace")
    clean_history(job, "first")
    (run,) = job.state.unfinished_runs()
    job.abandon(run.run_id)
    assert job.state.frontier(TopicPartition(topic, 0)) == 0
    job.ingest()
    assert job.rows() == before


def test_the_same_backfill_in_a_new_ledger_is_another_run(topic, any_home):
    """Abandoned before it has landed anything, it leaves the rows that the lost ledger's run landed."""
    job = any_home(topic)
    job.ingest()
    replace = asked(topic, (0, 0, 20)) | {"mode": "replace"}
    job.backfill(**replace)
    before = job.rows()
    shutil.rmtree(job.folder / "ledger")
    job.ingest(accept_group_offsets=True)
    job.die("plan:after", **replace)
    (run,) = job.state.unfinished_runs()
    job.abandon(run.run_id)
    assert job.rows() == before


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_run_of_an_older_release_is_not_taken_for_its_namesake(topic, any_home, monkeypatch, interrupted):
    """Up to 0.1 a backfill's run had one id in every ledger."""
    monkeypatch.setattr(backfill, "run_id_of", lambda request, state: request.digest(state.job))
    job = any_home(topic)
    job.ingest()
    replace = asked(topic, (0, 0, 20)) | {"mode": "replace"}
    job.backfill(**replace)
    before = job.rows()
    shutil.rmtree(job.folder / "ledger")
    job.ingest(accept_group_offsets=True)
    job.die("plan:after", **replace)
    (run,) = job.state.unfinished_runs()
    if interrupted:
        with monkeypatch.context() as patch:
            patch.setattr(DeltaAccess, "clean_up", interrupt)
            with pytest.raises(KeyboardInterrupt):
                job.abandon(run.run_id)
    job.abandon(run.run_id)
    assert job.rows() == before


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_a_backfill_abandoned_under_committed_offsets_is_read_by_the_next_run(topic, any_home, records):
    """The group's offsets stand beyond it, by a commit of this ledger's: that makes the ledger no older one."""
    job = any_home(topic)
    job.die("account:after", **asked(topic, (0, 10, 20)))
    job.ingest()
    assert job.group_offsets() == records.ends(topic)
    (run,) = job.state.unfinished_runs()
    job.abandon(run.run_id)
    assert job.frontiers()[topic, 0] == 10
    job.ingest()
    job.assert_complete(runs=2)


def test_a_run_abandoned_after_a_commit_that_was_not_written_down(topic, any_home, records):
    """The group has its offsets, the ledger does not know it, and the run's rows are taken back."""
    job = any_home(topic)
    job.die("commit:after")
    assert job.group_offsets() == records.ends(topic)
    job.abandon(job.state.unfinished().run_id)
    assert job.rows() == []
    job.ingest()
    job.assert_complete(runs=1)


def test_an_abandoned_backfill_gives_its_offsets_back(topic, any_home, records):
    job = any_home(topic)
    job.die("land:first:after", **asked(topic, (0, 10, 20)))
    (run,) = job.state.unfinished_runs()
    job.abandon(run.run_id)
    job.ingest()
    job.assert_complete(runs=1)


def test_a_killed_backfill_is_taken_up_by_the_same_request(topic, home, children, records, scale):
    steps = ("plan:after", "land:first:before", "land:first:committed", "account:after", "commit:after")
    for step in scale(("land:first:committed",), steps):
        job, request = home(topic), asked(topic, (0, 10, 20)) | {"commit_offsets": True}
        child = children.run(job, do="backfill", request=request, at=step, signal="SIGKILL", own_jvm=scale(False, True))
        child.killed()
        job.ingest()  # a chain of its own: it needs no lease of the dead one's
        assert job.backfill(**request, take_over=True).status == "done"
        assert job.group_offsets() == records.ends(topic)
        job.assert_complete(runs=2)


def test_two_processes_ask_for_the_same_backfill(topic, home, children, records):
    job = home(topic)
    command = {
        "job": str(job.file),
        "do": "backfill",
        "request": asked(topic, (0, 0, 20)),
        "go": str(job.folder / "go"),
    }
    pair = [children.start().send(command) for _ in range(2)]
    for child in pair:
        child.ready()
    (job.folder / "go").touch()
    answers = [child.answer() for child in pair]
    assert sorted(answer["exit"] for answer in answers) in ([0, 0], [0, ExitCode.ANOTHER_RUN_ACTIVE]), answers
    assert [a["report"]["status"] for a in answers if a["exit"] == 0].count("done") == 1
    assert job.rows() == within(records.rows(topic), (0, 0, 20))


def test_a_backfill_and_the_chain_at_the_same_time(topic, home, children, records, scale):
    """Over the same offsets, in two processes: whoever plans first has them."""
    pair = children.start(), children.start()
    for turn in range(scale(3, 30)):
        job = home(topic)
        request, go = asked(topic, (0, 10, 20), (1, 0, 25)), str(job.folder / "go")
        last = turn == scale(3, 30) - 1
        pair[0].send({"job": str(job.file), "go": go}, last=last)
        pair[1].send({"job": str(job.file), "go": go, "do": "backfill", "request": request}, last=last)
        for child in pair:
            child.ready()
        (job.folder / "go").touch()
        chain, backfill = (child.answer() for child in pair)
        assert chain["exit"] == 0, chain
        if backfill["exit"] != 0:
            assert backfill["exit"] == ExitCode.REFUSED, backfill
            assert backfill["error"]["error"]["code"] == "offsets-reserved"
        job.ingest()
        assert job.backfill(**request).status == "nothing-to-do"
        finished = [run for run in job.state.runs.values() if run.finished]
        job.assert_complete(runs=len(finished))


def test_what_a_backfill_landed_while_another_run_looked_around_is_no_lost_record(
    topic, any_home, records, monkeypatch
):
    """The brokers were asked before: by then the ledger holds offsets beyond what they told."""
    job = any_home(topic)
    job.ingest()
    start = job.frontiers()[topic, 0]
    whole, meanwhile = preflight.ends_of_epochs, []

    def backfill_meanwhile(*arguments: Any) -> Any:
        found = whole(*arguments)
        if not meanwhile:
            meanwhile.append(records.write(topic, 0, 10))
            job.backfill(**asked(topic, (0, start, start + 10)))
        return found

    monkeypatch.setattr(preflight, "ends_of_epochs", backfill_meanwhile)
    assert job.ingest().status == "nothing-to-do"
    job.assert_complete(runs=2)
