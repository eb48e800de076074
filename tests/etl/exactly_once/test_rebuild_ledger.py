"""A lost ledger is rebuilt from the tables: nothing lands twice, nothing is left out, and rows keep their owner."""

from __future__ import annotations

import functools
import json
import re
import shutil
import uuid
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger.errors import LeaseLost
from kseg.etl.operations.rebuild_ledger import _Rebuilding, rebuild_ledger
from kseg.etl.operations.verify import verify
from kseg.etl.planning import plan
from kseg.etl.run.pipeline import run_ingest
from kseg.jobs.cli import cli


def lose_ledger(job: Any) -> None:
    shutil.rmtree(job.folder / "ledger")


def between(topic: str, *ranges: tuple[int, int, int]) -> dict[str, Any]:
    return {
        "from_": [f"{topic}:{partition}:{start}" for partition, start, _ in ranges],
        "to": [f"{topic}:{partition}:{end}" for partition, _, end in ranges],
    }


def test_after_it_runs_go_on_where_the_group_stands(topic, any_home, records):
    job = any_home(topic)
    job.ingest()
    lost = job.state.ledger_id
    lose_ledger(job)
    assert rebuild_ledger(job.job, dry_run=True).status == "dry-run"
    assert not (job.folder / "ledger").exists()
    report = rebuild_ledger(job.job)
    assert (report.status, report.lost, report.rows) == ("rebuilt", (lost,), len(job.rows()))
    assert job.frontiers() == records.ends(topic)
    assert job.ingest().status == "nothing-to-do"
    records.write_mixed(topic, 2, rounds=1)
    assert job.ingest().status == "done"
    assert job.rows() == records.rows(topic)
    report = verify(job.job)
    assert report.ok, report.findings[:3]
    assert "with a lost ledger" in " ".join(report.notes)
    job.backfill(**between(topic, (0, 0, 30), (1, 0, 10)), mode="replace")
    assert job.rows() == records.rows(topic), "it knows the rows of the lost ledger's runs as its own"
    assert verify(job.job).ok


@pytest.mark.parametrize("step", ["land:first:committed", "account:after", "commit:after"])
@pytest.mark.parametrize("history", [True, False])
def test_rows_that_the_group_does_not_know_of_do_not_land_again(step, history, topic, any_home, records):
    job = any_home(topic)
    job.ingest()
    records.write_mixed(topic, 2, rounds=1)
    job.die(step)
    lose_ledger(job)
    if not history:
        table = job.table("first")
        table.create_checkpoint()
        for version in range(table.version()):
            (job.folder / "lake" / "first" / "_delta_log" / f"{version:020d}.json").unlink(missing_ok=True)
    rebuild_ledger(job.job)
    job.ingest()
    assert job.rows() == records.rows(topic)
    assert job.frontiers() == records.ends(topic) == job.group_offsets()


def test_without_a_groups_offsets_the_rows_alone_say_what_has_landed(topic, any_home, records):
    job = any_home(topic, group_commit="none")
    job.backfill(**between(topic, (0, 10, 20)))
    job.ingest()
    lose_ledger(job)
    rebuild_ledger(job.job)
    records.write_mixed(topic, 2, rounds=1)
    job.ingest()
    assert job.rows() == records.rows(topic)


def test_a_run_that_was_refused_has_made_no_ledger_that_stands_in_the_way(topic, any_home):
    job = any_home(topic)
    job.ingest()
    lose_ledger(job)
    with pytest.raises(Refused) as caught:
        job.ingest()
    assert caught.value.code == "ledger-lost"
    assert "--rebuild-ledger" in str(caught.value.remedy)
    rebuild_ledger(job.job)
    assert job.ingest().status == "nothing-to-do"


def test_a_driver_of_the_lost_ledger_cannot_land_any_more(topic, any_home):
    job = any_home(topic)
    job.ingest()
    app_id, following = job.state.next_app_transaction()
    lose_ledger(job)
    rebuild_ledger(job.job)
    assert job.table("first").transaction_version(app_id) == following


def test_what_a_driver_of_the_lost_ledger_lands_before_the_fence_is_read_as_well(
    topic, local_home, records, monkeypatch
):
    job = local_home(topic)
    job.ingest()
    late = local_home(topic, name=job.document["name"], group=job.group, sink={"path": str(job.folder / "lake/first")})
    shutil.move(job.folder / "ledger", late.folder / "ledger")
    fence = _Rebuilding.fence_lost_drivers

    def land_and_fence(rebuilding: _Rebuilding, lease: Any) -> None:
        records.write(topic, 0, 5)
        assert late.ingest().status == "done"
        fence(rebuilding, lease)

    monkeypatch.setattr(_Rebuilding, "fence_lost_drivers", land_and_fence)
    assert rebuild_ledger(job.job).rows == len(records.rows(topic))
    assert job.ingest().status == "nothing-to-do"
    assert job.rows() == records.rows(topic)


@pytest.mark.parametrize("request_", [{}, {"mode": "missing"}], ids=["incremental", "backfill"])
def test_a_suspended_driver_of_the_lost_ledger_cannot_land_any_more(request_, topic, any_home, records):
    """It wakes up in front of its commit, in a table that its ledger had landed nothing in for a while."""
    job = any_home(topic)
    job.ingest()
    records.write_mixed(topic, 2, rounds=1)
    ends = records.ends(topic)

    def rebuilt(step: str) -> None:
        if step.startswith("land:") and step.endswith(":before"):
            lose_ledger(job)
            rebuild_ledger(job.job)
            assert job.ingest().status == "done"

    run: Any = functools.partial(run_ingest, job.job)
    if request_:
        first = job.frontiers()
        ranges = [(partition, first[topic, partition], ends[topic, partition]) for partition in (0, 1)]
        run = functools.partial(job.backfill, **between(topic, *ranges), **request_)
    with pytest.raises((Refused, LeaseLost)):
        run(observe=rebuilt)
    assert job.rows() == records.rows(topic)
    assert job.frontiers() == ends == job.group_offsets()


@pytest.fixture
def of_0_1_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "incremental_run_id", lambda *_: uuid.uuid4().hex)


@pytest.mark.usefixtures("of_0_1_0")
def test_rows_of_older_releases_count_where_they_are_sure_to_be_the_jobs(topic, any_home, records):
    job = any_home(topic)
    job.ingest()
    lose_ledger(job)
    rebuild_ledger(job.job)
    assert job.state.landed(TopicPartition(topic, 0))
    job.backfill(**between(topic, (0, 0, 30)), mode="replace")
    assert job.rows() == records.rows(topic)


def test_it_does_not_guess(topic, any_home):
    job = any_home(topic)
    with pytest.raises(Refused) as caught:
        rebuild_ledger(job.job)
    assert caught.value.code == "nothing-landed"
    job.ingest()
    with pytest.raises(Refused) as caught:
        rebuild_ledger(job.job)
    assert caught.value.code == "ledger-exists"
    first = job.state.ledger_id
    lose_ledger(job)
    job.ingest(accept_group_offsets=True)
    job.backfill(**between(topic, (0, 0, 5)), mode="append", label="x")
    second = job.state.ledger_id
    lose_ledger(job)
    with pytest.raises(Refused) as caught:
        rebuild_ledger(job.job)
    assert caught.value.code == "several-ledgers"
    with pytest.raises(ConfigurationError, match="no table has runs of ledger nobody"):
        rebuild_ledger(job.job, lost=["nobody"])
    assert followed(job, caught.value)["lost"] == sorted([first, second])


def test_rows_of_a_topic_made_anew_are_no_offsets_of_it(topic, any_home, records):
    """The refusal's own command leads out of it: the new topic lands whole, and nothing of the other one twice."""
    other = records.topic(1)
    records.write_mixed(other, 1, rounds=1)
    job = any_home(topic, other)
    job.ingest()
    old, kept = offsets(job, "first"), offsets(job, "rest")
    lose_ledger(job)
    records.kafka.make_anew(topic, 2)
    records.forget_metadata()
    producer = Producer(records.settings)
    for number in range(8):
        producer.produce(topic, b"new %d" % number, partition=number % 2)
    assert producer.flush(60) == 0
    with pytest.raises(Refused) as caught:
        rebuild_ledger(job.job)
    assert caught.value.code == "rows-beyond-log"
    assert followed(job, caught.value)["status"] == "rebuilt"
    job.ingest()
    assert offsets(job, "first") == sorted([*old, *((p, at) for p in (0, 1) for at in range(4))])
    assert offsets(job, "rest") == kept
    assert job.frontiers() == job.group_offsets() == records.ends(topic) | records.ends(other)
    assert job.ingest().status == "nothing-to-do"
    assert verify(job.job).ok


def test_commands_of_refusals_keep_what_was_named_before(topic, any_home, records):
    """A ledger that was lost twice, and a topic made anew."""
    job = any_home(topic)
    job.ingest()
    first = job.state.ledger_id
    lose_ledger(job)
    rebuild_ledger(job.job)
    records.write_mixed(topic, 2, rounds=1)
    job.ingest()
    second = job.state.ledger_id
    old = offsets(job, "first")
    lose_ledger(job)
    records.kafka.make_anew(topic, 2)
    records.forget_metadata()
    with pytest.raises(Refused) as caught:
        rebuild_ledger(job.job)
    assert caught.value.code == "several-ledgers"
    error = followed(job, caught.value, code=3)["error"]
    assert error["code"] == "rows-beyond-log"
    rebuilt = followed(job, Refused(error["code"], error["message"], remedy=error["remedy"]))
    assert (rebuilt["status"], rebuilt["lost"]) == ("rebuilt", sorted([first, second]))
    assert offsets(job, "first") == old
    assert job.ingest().status == "nothing-to-do"


def followed(job: Any, refusal: Refused, code: int = 0) -> Any:
    """What the command says that the refusal names."""
    command = re.search(r"`kseg (.*?)`", refusal.remedy or "")
    assert command is not None, refusal.remedy
    words = [str(job.file) if word == "JOB" else word for word in command[1].split()]
    done = CliRunner().invoke(cli, [*words, "--json", "--progress", "none"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def offsets(job: Any, table: str) -> list[tuple[int, int]]:
    rows = job.table(table).to_pyarrow_table(columns=["partition", "offset"])
    return sorted(zip(*(rows[name].to_pylist() for name in ("partition", "offset")), strict=True))


def test_a_log_that_is_another_one_is_named_whole_or_from_an_offset_on(topic, any_home):
    job = any_home(topic)
    job.ingest()
    lose_ledger(job)
    for words, message in [(["nothing"], "the job reads no topic nothing"), ([f"{topic}:0"], "from which offset on")]:
        with pytest.raises(ConfigurationError, match=message):
            rebuild_ledger(job.job, accepted=words, dry_run=True)
    whole = {p.partition: p for p in rebuild_ledger(job.job, dry_run=True).partitions}
    first = {p.partition: p for p in rebuild_ledger(job.job, accepted=[f"{topic}:0:5"], dry_run=True).partitions}
    assert (first[0].frontier, first[0].landed) == (5, 5)
    assert first[1] == whole[1]
