"""What `kseg status` says after a run failed: the lag that is there, the error, and what to do."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner

from kseg.etl.errors import ConfigurationError, KsegError, Refused
from kseg.etl.operations.problems import run_problems
from kseg.etl.operations.runs import history
from kseg.etl.operations.status import StatusReport, status
from kseg.etl.telemetry.recorder import Recorder, lag_of
from kseg.jobs.cli import cli

FAILS = [{"sql": "SELECT * FROM __rows__ WHERE CAST(raise_error('out of ink') AS boolean)"}]


@pytest.fixture
def job(topic: str, home: Any) -> Any:
    return home(topic)


def codes(report: StatusReport) -> list[str]:
    return [problem.code for problem in report.problems]


def test_after_a_failed_run_the_lag_is_all_that_has_not_landed(job: Any, records: Any, topic: str) -> None:
    job.ingest()
    assert (status(job.job).lag, status(job.job).problems) == (0, [])
    records.write(topic, 0, 12)
    job.change(transform=FAILS)
    recorder = Recorder()
    with pytest.raises(KsegError):
        job.ingest(progress=recorder)
    report = status(job.job)
    metrics = sum(lag_of(view) or 0 for view in recorder.telemetry.last.values())
    assert report.lag == metrics >= 12
    (problem,) = report.problems
    assert (problem.run, problem.at is not None) == (job.state.unfinished().run_id, True)
    assert "out of ink" in problem.message
    assert problem.remedy
    assert report.runs[0].refused
    job.change(transform=None)
    job.ingest()
    after = status(job.job)
    assert (after.lag, after.problems) == (0, [])


def test_of_bad_configuration_each_fault_is_named(job: Any, records: Any, topic: str) -> None:
    job.ingest()
    records.write(topic, 0, 2)
    job.change(transform=[{"sql": "SELECT *, 1 AS one FROM __rows__"}])
    with pytest.raises(ConfigurationError):
        job.ingest()
    [problem] = status(job.job).problems
    assert "one" in problem.message
    assert "1 error in the configuration" not in problem.message


def test_before_the_first_run_has_landed_all_is_behind(job: Any, records: Any, topic: str) -> None:
    job.die("plan:before")
    ends = sum(records.ends(topic).values())
    report = status(job.job)
    assert report.lag == ends > 0
    assert [line.frontier for line in report.partitions] == [None, None]
    job.die("land:first:before")
    assert status(job.job).lag == ends


def test_a_run_that_could_not_be_planned_is_a_problem_until_the_next_one(job: Any, records: Any, topic: str) -> None:
    job.ingest()
    records.write(topic, 0, 3)
    lake = job.folder / "lake" / "first"
    shutil.move(lake, job.folder / "aside")
    with pytest.raises(Refused):
        job.ingest()
    found = status(job.job)
    assert codes(found) == ["table-missing", "table-missing"]  # the run's, and the table's own
    assert all(problem.remedy for problem in found.problems)
    shutil.move(job.folder / "aside", lake)
    assert codes(status(job.job)) == ["table-missing"]
    job.ingest()
    assert codes(status(job.job)) == []


def test_a_run_at_work_is_no_problem_and_one_that_was_killed_is(job: Any, children: Any) -> None:
    child = children.run(job, at="land:first:before", signal="SIGSTOP")
    child.suspended()
    state = job.state
    assert list(run_problems(job.job, state, datetime.now(UTC))) == []
    child.kill()
    (problem,) = run_problems(job.job, state, datetime.now(UTC))
    assert (problem.code, problem.run) == ("interrupted", state.unfinished().run_id)
    assert f"--abandon {problem.run}" in (problem.remedy or "")


def test_a_killed_backfill_is_completed_by_the_command_that_its_problem_names(job: Any, topic: str) -> None:
    """It said that the job continues it when it is run again, which ingests another chain's offsets."""
    job.die("plan:after", from_=[f"{topic}:0:0"], to=[f"{topic}:0:5"])
    (problem,) = run_problems(job.job, job.state, datetime.now(UTC))
    assert (problem.remedy or "").startswith(f"`kseg repair JOB --finish {problem.run}` completes it")
    job.finish(problem.run)
    assert codes(status(job.job)) == []


def test_group_offsets_of_another_client_are_a_problem(job: Any, topic: str, records: Any) -> None:
    job.ingest()
    records.set_group_offsets(job.group, {(topic, 0): 1})
    found = status(job.job)
    assert codes(found) == ["group-offsets-differ"]
    assert "--accept-group-offsets" in (found.problems[0].remedy or "")


def test_the_exit_code_says_that_a_person_is_needed(job: Any) -> None:
    job.ingest()
    runner = CliRunner()
    assert runner.invoke(cli, ["status", str(job.file)]).exit_code == 0
    shutil.rmtree(job.folder / "lake" / "first")
    found = runner.invoke(cli, ["status", str(job.file)])
    assert (found.exit_code, "table-missing" in found.stdout) == (3, True)
    assert max(map(len, found.stdout.splitlines())) <= 100 + len(str(job.folder)), "sentences are wrapped"
    assert runner.invoke(cli, ["status", str(job.file), "--json"]).exit_code == 3


def test_a_run_that_was_killed_on_this_machine_is_continued_without_being_asked(job: Any, children: Any) -> None:
    child = children.run(job, at="land:first:before", signal="SIGKILL")
    child.killed()
    assert job.state.lease().live(datetime.now(UTC))
    job.ingest()
    job.assert_complete(runs=1, swept=False)


def test_the_history_has_every_attempt_with_its_error(job: Any, records: Any, topic: str) -> None:
    job.ingest()
    records.write(topic, 0, 4)
    job.change(transform=FAILS)
    for _ in range(2):
        with pytest.raises(KsegError):
            job.ingest()
    shutil.move(job.folder / "lake" / "first", job.folder / "aside")
    job.change(transform=None)
    with pytest.raises(Refused):
        job.ingest()
    shutil.move(job.folder / "aside", job.folder / "lake" / "first")
    job.ingest()
    found = history(job.job)
    done, first = found.runs[0], found.runs[-1]
    assert (done.phase, done.errors, done.rows_out, done.seconds is not None) == ("finished", [], 4, True)
    assert (first.phase, first.errors, first.offsets) == ("finished", [], sum(records.ends(topic).values()) - 4)
    (failed,) = [run for run in found.runs if run.phase == "abandoned"]
    assert len(failed.errors) >= 2
    assert all("out of ink" in error.message for error in failed.errors[:2])
    codes = [error.code for run in found.runs for error in run.errors]
    assert codes.count("table-missing") == 1
    assert [run.run for run in history(job.job, failed=True).runs if run.errors] == [
        run.run for run in found.runs if run.errors
    ]
    shown = CliRunner().invoke(cli, ["runs", str(job.file)])
    assert (shown.exit_code, "out of ink" in shown.stdout, str(done.run) in shown.stdout) == (0, True, True)
    assert max(map(len, shown.stdout.splitlines())) <= 110
    limited = json.loads(CliRunner().invoke(cli, ["runs", str(job.file), "--limit", "1", "--json"]).stdout)
    assert ([run["run"] for run in limited["runs"]], limited["older"]) == ([done.run], len(found.runs) - 1)


def test_an_attempt_without_a_run_has_the_mode_of_the_run_that_its_chain_gets(job: Any, topic: str) -> None:
    job.ingest()
    request = {"from_": [f"{topic}:0:0"], "to": [f"{topic}:0:5"], "mode": "replace"}
    shutil.move(job.folder / "lake" / "first", job.folder / "aside")
    with pytest.raises(Refused):
        job.backfill(**request)
    assert [run.mode for run in history(job.job).runs if run.run is None] == [None]
    assert "not planned" in CliRunner().invoke(cli, ["runs", str(job.file)]).stdout
    shutil.move(job.folder / "aside", job.folder / "lake" / "first")
    job.backfill(**request)
    assert [run.mode for run in history(job.job).runs] == ["backfill-replace", "backfill-replace", "incremental"]


def test_a_watched_status_is_shown_until_it_is_interrupted(job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job.ingest()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) >= 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("kseg.jobs.commands.status.sleep", pause)
    found = CliRunner().invoke(cli, ["status", str(job.file), "--watch", "7"])
    assert (found.exit_code, pauses) == (0, [7.0, 7.0, 7.0])
    assert found.stdout.count("offsets behind, at ") == 3
    assert found.stdout.count("partitions") == 3
