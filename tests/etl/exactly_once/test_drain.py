"""Capped runs, and drains of them: all records once, also where producers go on, and where a drain is killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from kseg.etl.run.drain import run_drain
from kseg.jobs.cli import cli
from skips import IN_FULL

CAP = 30


@pytest.fixture
def backlog(home: Any, topic: str) -> Any:
    """A job with a cap, over two partitions of 37 offsets each, whose runs end within transactions."""
    return home(topic, run={"max_records": CAP})


def run_lengths(job: Any) -> list[int]:
    """Offsets of each run, as the ledger has it."""
    return [sum(r.length for r in run.plan.ranges) for run in job.state.runs.values()]


def test_a_capped_run_reads_both_partitions_and_leaves_the_rest(backlog: Any) -> None:
    total = sum(backlog.records.ends(*backlog.topics).values())
    planned = backlog.plan()
    report = backlog.ingest()
    assert [(r.partition, r.start, r.end) for r in report.ranges] == [(0, 0, CAP // 2), (1, 0, CAP // 2)]
    assert report.unread == planned.unread == total - CAP
    assert backlog.frontiers() == backlog.group_offsets() == dict.fromkeys(backlog.frontiers(), CAP // 2)
    wanted = [row for row in backlog.records.rows(*backlog.topics) if row[2] < CAP // 2]
    assert backlog.rows() == wanted


def test_a_changed_cap_leaves_a_planned_run_as_it_is(backlog: Any) -> None:
    backlog.die("land:first:before")
    backlog.change(run={"max_records": 1})
    report = backlog.ingest()
    assert report.counts["offsets"] == CAP
    assert report.unread is None  # the plan was an earlier attempt's
    assert backlog.ingest().counts["offsets"] == 1


def test_a_backfill_is_not_capped(backlog: Any) -> None:
    ends = backlog.records.ends(*backlog.topics)
    report = backlog.backfill(
        from_=[f"{topic}:{partition}:0" for topic, partition in ends],
        to=[f"{topic}:{partition}:{end}" for (topic, partition), end in ends.items()],
    )
    assert report.counts["offsets"] == sum(ends.values())


def test_a_drain_ends_at_the_ends_that_it_saw_though_producers_go_on(backlog: Any) -> None:
    topic = backlog.topics[0]
    ends = backlog.records.ends(topic)
    total = sum(ends.values())
    behind: list[Any] = []

    def produce(step: str) -> None:
        if step in ("plan:before", "commit:before"):
            behind.extend(backlog.records.write(topic, len(behind) % 2, 30))

    report = run_drain(backlog.job, observe=produce)
    lengths = run_lengths(backlog)
    assert lengths == [run.offsets for run in report.runs]
    assert max(lengths) <= CAP
    assert sum(lengths) == total
    assert len(lengths) == -(-total // CAP)
    assert backlog.frontiers() == backlog.group_offsets() == ends
    assert backlog.rows() == [row for row in backlog.records.rows(topic) if row not in behind]
    assert [run.unread for run in report.runs] == [max(0, total - CAP * n) for n in range(1, len(lengths) + 1)]
    assert [(r.partition, r.start, r.end) for r in report.total.ranges] == [(p, 0, end) for (_, p), end in ends.items()]
    assert report.total.counts["records"] == report.total.rows_in == len(backlog.rows())
    assert [(t.version, t.rows) for t in report.total.tables] == [
        (backlog.table("first").version(), len(backlog.rows()))
    ]
    again = run_drain(backlog.change(run={"max_records": None}).job)
    assert len(again.runs) == 1
    backlog.assert_complete(runs=len(lengths) + 1)


@pytest.mark.parametrize(
    "step", ["plan:after", "land:first:committed", "account:after", "commit:after", "finish:after"]
)
def test_a_drain_that_is_killed_in_its_second_run_is_drained_again(
    step: str, backlog: Any, children: Any, scale: Any
) -> None:
    if step not in scale(("land:first:committed",), (step,)):
        pytest.skip(IN_FULL)
    children.run(backlog, do="drain", at=step, time=2, signal="SIGKILL").killed()
    assert len(run_lengths(backlog)) == 2
    child = children.run(backlog, do="drain", take_over=True)
    assert child.answer()["exit"] == 0
    total = sum(backlog.records.ends(*backlog.topics).values())
    lengths = run_lengths(backlog)
    assert (sum(lengths), max(lengths)) == (total, CAP)
    backlog.assert_complete(runs=len(lengths))


def test_offsets_of_a_backfill_that_has_not_ended_stay_open(backlog: Any) -> None:
    topic = backlog.topics[0]
    backlog.die("land:first:before", from_=[f"{topic}:0:10"], to=[f"{topic}:0:15"])
    report = run_drain(backlog.job)
    assert report.total.unread == 5, "what lies behind them has landed"
    assert any("planned by other runs" in note for note in report.total.notes)
    backlog.backfill(from_=[f"{topic}:0:10"], to=[f"{topic}:0:15"])
    assert run_drain(backlog.job).total.unread == 0
    assert backlog.rows() == backlog.records.rows(topic)


def test_nothing_to_do(backlog: Any) -> None:
    backlog.change(run={"max_records": None}).ingest()
    report = run_drain(backlog.job).to_json()
    assert (report["status"], report["run"], report["runs"], report["unread"]) == ("nothing-to-do", None, [], 0)


def test_on_the_command_line(backlog: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages, metrics = tmp_path / "pages", tmp_path / "kseg.prom"
    arguments = ["ingest", str(backlog.file), "--drain", "--report", str(pages), "--metrics-file", str(metrics)]

    def kseg(*more: str) -> tuple[str, str]:
        backlog.file.write_text(json.dumps(backlog.document))
        assert cli.main([*arguments, *more], prog_name="kseg", standalone_mode=False) == 0
        return capsys.readouterr()

    total = sum(backlog.records.ends(*backlog.topics).values())
    runs = -(-total // CAP)
    planned = json.loads(kseg("--dry-run", "--json")[0])
    assert planned["unread"] == total - CAP
    assert any(f"{total} offsets, up to the ends of now, in {runs} run(s)" in note for note in planned["notes"])
    assert not (backlog.folder / "ledger").exists()

    printed, lines = kseg("--json", "--progress", "lines")
    report = json.loads(printed)
    assert (report["status"], report["unread"], report["counts"]["offsets"]) == ("done", 0, total)
    assert report["tables"] == [
        {
            "path": str(backlog.folder / "lake" / "first"),
            "version": DeltaTable(backlog.folder / "lake" / "first").version(),
            "rows": len(backlog.rows()),
            "nulls": None,
            "before": None,
        }
    ]
    assert [run["run"] for run in report["runs"]] == list(backlog.state.runs)
    assert len({run["report"] for run in report["runs"]} & set(map(str, pages.glob("*.html")))) == runs
    assert report["run"] == report["runs"][-1]["run"]
    assert f"run 1, {report['runs'][0]['run']}: " in lines
    assert f"{total - CAP} offsets left" in lines
    assert "kseg_" in metrics.read_text()
    backlog.assert_complete(runs=runs)


def test_by_bytes_a_partition_of_large_records_gives_fewer(any_home: Any, records: Any) -> None:
    topic = records.topic(2)
    for partition, size in ((0, 100), (1, 2000)):
        for number in range(200):
            records._plain.produce(topic, b"%d" % number * size, partition=partition)
        records._plain.flush()  # a batch each, so that neither is much compressed
    job = any_home(topic, run={"max_bytes": 60_000})
    small, large = (r.end - r.start for r in job.plan().ranges)
    assert small > 3 * large > 0
    drained = run_drain(job.job)
    assert drained.total.unread == 0
    assert len(drained.runs) > 3
    assert len(job.addresses()) == len(set(job.addresses())) == 400
