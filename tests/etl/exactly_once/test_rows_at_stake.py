"""Abandoning a run removes its rows. Those that its source has no more cannot land again: somebody has to agree."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import NewTopic

from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.lease import acquire
from kseg.etl.operations import rows_at_stake
from kseg.jobs.cli import cli

NOBODY = {"bootstrap.servers": "127.0.0.1:9"}
"""Where no broker is."""


@pytest.fixture
def landed(local_home: Any, records: Any) -> Any:
    """A job whose run has landed 20 rows of one partition and 5 of another, and died."""
    topic = records.topic(2)
    records.write(topic, 0, 20)
    records.write(topic, 1, 5)
    job = local_home(topic)
    job.die("land:first:after")
    return job


def run_of(job: Any) -> str:
    return str(job.state.unfinished().run_id)


def kseg(job: Any, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON output of `kseg repair`; standard input is no terminal."""
    done = CliRunner().invoke(cli, ["repair", str(job.file), *words, "--json", "--progress", "none"])
    return done.exit_code, json.loads(done.stdout)


def test_rows_that_retention_has_cut_are_counted_and_refused(landed: Any, records: Any) -> None:
    """20 rows were removed of which Kafka had 8 left, without a word."""
    (topic,), run = landed.topics, run_of(landed)
    records.delete_records(topic, 0, 12)
    code, dry = kseg(landed, "--abandon", run, "--dry-run")
    assert (code, dry["lost_rows"]) == (0, {"gone": 12, "unknown": 0, "why": None})
    assert "12 rows" in " ".join(dry["notes"])
    code, refused = kseg(landed, "--abandon", run)
    assert (code, refused["error"]["code"]) == (3, "rows-would-be-lost")
    assert "12 rows" in refused["error"]["message"]
    assert f"kseg repair JOB --abandon {run} --lose-rows" in refused["error"]["remedy"]
    assert landed.state.runs[run].phase == "landing"
    assert len(landed.rows()) == 25
    code, done = kseg(landed, "--abandon", run, "--lose-rows")
    assert (code, done["status"], done["lost_rows"]["gone"]) == (0, "abandoned", 12)
    assert landed.rows() == []
    landed.change(source={"on_data_loss": "record"}).ingest()
    assert landed.rows() == [row for row in records.rows(topic) if row[1] == 1 or row[2] >= 12]


def test_without_a_loss_nobody_is_asked(landed: Any) -> None:
    report = landed.abandon(run_of(landed))
    assert (report.status, report.lost_rows) == ("abandoned", {"gone": 0, "unknown": 0, "why": None})


def test_offsets_without_rows_are_no_loss(local_home: Any, records: Any) -> None:
    """The records that retention has cut were aborted, or of a transaction's marker."""
    topic = records.topic(1)
    records.write(topic, 0, 6, transaction="abort")
    records.settle(topic)  # the marker is offset 6, and no row's
    records.write(topic, 0, 4)
    job = local_home(topic)
    job.die("land:first:after")
    records.delete_records(topic, 0, 7)
    assert job.abandon(run_of(job)).status == "abandoned"


def recreate(records: Any, topic: str) -> None:
    records.admin.delete_topics([topic])[topic].result(60)
    records.admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(60)


def remove(records: Any, topic: str) -> None:
    records.admin.delete_topics([topic])[topic].result(60)


@pytest.mark.parametrize("happened", [remove, recreate])
def test_of_another_topic_nothing_is_known(landed: Any, records: Any, happened: Any) -> None:
    happened(records, landed.topics[0])
    run = run_of(landed)
    with pytest.raises(Refused, match="unknown, up to 25 rows") as refused:
        landed.abandon(run)
    assert refused.value.code == "rows-would-be-lost"
    assert "--finish" not in str(refused.value.remedy), "which is refused as well"
    assert landed.abandon(run, lose_rows=True).lost_rows["unknown"] == 25
    assert landed.rows() == []


def test_of_brokers_that_do_not_answer_nothing_is_known(
    landed: Any, monkeypatch: pytest.MonkeyPatch, scale: Any
) -> None:
    monkeypatch.setattr(rows_at_stake, "ASKING", scale(rows_at_stake.ASKING / 10, rows_at_stake.ASKING))
    landed.change(kafka=NOBODY)
    run = run_of(landed)
    with pytest.raises(Refused, match="unknown, up to 25 rows"):
        landed.abandon(run)
    assert landed.abandon(run, lose_rows=True).status == "abandoned"


@pytest.mark.parametrize("state", ["nothing landed", "interrupted"])
def test_brokers_are_not_asked_where_no_row_is_at_stake(local_home: Any, records: Any, state: str) -> None:
    topic = records.topic(1)
    records.write(topic, 0, 6)
    job = local_home(topic)
    job.die("plan:after" if state == "nothing landed" else "land:first:after")
    run = run_of(job)
    if state == "interrupted":
        records.delete_records(topic, 0, 3)
        with acquire(job.ledger, job.document["name"]) as lease:
            lease.transition(lambda _: [ev.Abandoning(run_id=run, reason="for the test")])
    job.change(kafka=NOBODY)
    assert job.abandon(run).status == "abandoned"


def test_of_a_compacted_topic_nothing_is_known(local_home: Any, records: Any) -> None:
    """Compaction removes records between others, so the log's start says nothing about them."""
    topic = records.topic(1, {"cleanup.policy": "compact"})
    records.write_keys(topic, [b"%d" % number for number in range(6)], timestamp=1)
    job = local_home(topic, source={"on_gap": "record"})
    job.die("land:first:after")
    with pytest.raises(Refused, match=r"unknown, up to 6 rows \(compaction"):
        job.abandon(run_of(job))


def test_of_rows_without_addresses_nothing_is_known(local_home: Any, records: Any) -> None:
    topic = records.topic(1)
    records.write(topic, 0, 6)
    job = local_home(topic, sink={"addresses": False}, transform=[{"duckdb": "SELECT value FROM __rows__"}])
    job.die("land:first:after")
    run = run_of(job)
    records.delete_records(topic, 0, 3)
    with pytest.raises(Refused, match="unknown, up to 6 rows"):
        job.abandon(run)


@pytest.mark.parametrize("what", ["the topic's folder is gone", "nothing is gone"])
def test_a_backfill_of_files_asks_the_files(
    local_home: Any, records: Any, tmp_path: Any, log_files: Any, what: str
) -> None:
    topic = records.topic(1)
    records.write(topic, 0, 6)
    folder = tmp_path / "copy"
    for source in records.kafka.log_dirs:
        shutil.copytree(source / f"{topic}-0", folder / f"{topic}-0", dirs_exist_ok=True)
        shutil.copy(source / "meta.properties", folder)
    job = local_home(topic)
    job.die("land:first:after", segments=[str(folder)])
    (run,) = (one.run_id for one in job.state.unfinished_runs())
    job.change(kafka=NOBODY)
    if what == "nothing is gone":
        assert job.abandon(run).status == "abandoned"
        return
    shutil.rmtree(folder / f"{topic}-0")
    with pytest.raises(Refused, match="6 rows"):
        job.abandon(run)


def test_a_redrive_asks_the_table_of_dead_letters(local_home: Any, records: Any) -> None:
    """Kafka need not have its records: dead letters are redriven again after it was abandoned."""
    topic = records.topic(1)
    records.write(topic, 0, 4)  # no JSON
    value = {"format": "json", "schema": {"columns": {"at": "string"}}}
    job = local_home(
        topic,
        decode={"value": value, "on_error": "dead_letter"},
        sink={"dead_letters": {"path": "./lake/dead", "max": "100%"}},
    )
    job.ingest()
    records.delete_records(topic, 0, 4)
    job.change(decode={"value": {"format": "string", "as": "at", "schema": None}})
    job.die_redriving("land:first:after")
    (run,) = (one.run_id for one in job.state.unfinished_runs())
    assert job.abandon(run).lost_rows == {"gone": 0, "unknown": 0, "why": None}
    job.die_redriving("land:first:after")
    (run,) = (one.run_id for one in job.state.unfinished_runs())
    job.table("dead").delete("offset < 3")
    with pytest.raises(Refused, match="3 rows"):
        job.abandon(run)


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_person_at_a_terminal_is_asked(landed: Any, records: Any, answer: str) -> None:
    records.delete_records(landed.topics[0], 0, 12)
    run = run_of(landed)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [Path(sys.executable).with_name("kseg"), "repair", str(landed.file), "--abandon", run, "--progress", "none"],
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.DEVNULL,
        cwd=landed.folder,
    )
    os.close(theirs)
    said = b""
    while b"Go on?" not in said:
        said += os.read(ours, 4096)
    os.write(ours, f"{answer}\n".encode())
    code = process.wait(120)
    os.close(ours)
    assert b"12 rows" in said
    assert code == {"y": 0, "n": 3}[answer]
    assert landed.state.runs[run].phase == {"y": "abandoned", "n": "landing"}[answer]
    assert len(landed.rows()) == {"y": 0, "n": 25}[answer]
