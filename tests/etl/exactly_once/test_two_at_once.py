"""Two operating-system processes start the same job at the same moment: exactly one lands. Looks need no lease."""

from __future__ import annotations

import pytest

from kseg.etl.errors import ExitCode, Refused


@pytest.mark.parametrize("take_over", [False, True])
def test_two_processes_start_the_same_job(take_over, home, children, records, scale):
    """Again and again, in the same two processes: on a job's first run, where ledger and tables have to be made, and on
    later ones. Also where both take over whoever is there: the second one takes the first one's lease in its work."""
    rounds = scale(4, 50)
    first, rest = records.topic(2), records.topic(1)
    records.write_mixed(first, 2, rounds=1)
    records.write_mixed(rest, 1, rounds=1)
    pair = children.start(), children.start()
    outcomes = []
    job = home(first, rest)
    runs = 0
    met = [0, ExitCode.ANOTHER_RUN_ACTIVE]
    for number in range(20 * rounds):
        if number >= rounds and met in outcomes:
            break
        if number % 2 == 0:
            job, runs = home(first, rest), 0
        else:
            records.write(first, number % 2, 5, transaction="commit")
            records.settle(first)
        go = job.folder / f"go-{number}"
        for child in pair:
            child.send({"job": str(job.file), "go": str(go), "take_over": take_over}, last=False)
        for child in pair:
            child.ready()
        go.touch()
        answers = [child.answer() for child in pair]
        exits = sorted(answer["exit"] for answer in answers)
        assert exits in ([0, 0], met), answers
        done = [answer["report"]["status"] for answer in answers if answer["exit"] == 0]
        assert done.count("done") == 1, "both landed, or none"
        runs += 1
        job.assert_complete(runs=runs, swept=not take_over)
        outcomes.append(exits)
    assert met in outcomes, "they never met"


def test_a_run_that_commits_while_another_is_planned_dry_is_no_sign_of_an_old_ledger(home, records, look_behind):
    topic = records.topic(1)
    records.write(topic, 0, 5)
    job = home(topic)
    job.ingest()
    records.write(topic, 0, 5)

    def run_and_grow() -> None:
        job.ingest()
        records.write(topic, 0, 7)

    looks = look_behind("kseg.etl.run.dry_run", run_and_grow)
    report = job.plan()
    assert [(r.start, r.end) for r in report.ranges] == [(10, 17)]
    assert len(looks) == 2


def test_what_is_refused_while_nobody_else_runs_is_refused_at_once(home, records, look_behind):
    topic = records.topic(1)
    job = home(topic)

    def refuse() -> None:
        raise Refused("ledger-older", "somebody put an old copy back", remedy="none")

    looks = look_behind("kseg.etl.run.dry_run", refuse)
    with pytest.raises(Refused, match="old copy"):
        job.plan()
    assert len(looks) == 1
