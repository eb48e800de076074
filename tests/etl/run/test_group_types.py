"""A job's group that is no group of consumers is refused before anything is planned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kseg.client import ClientConfig, Cluster, TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger.store import Ledger
from kseg.etl.operations.backfill import run_backfill
from kseg.etl.planning.backfill_request import BackfillRequest
from kseg.etl.run.drain import run_drain
from kseg.etl.run.dry_run import plan_only
from kseg.etl.run.pipeline import run_ingest
from kseg.segment_reader.encode.batches import Record
from other_groups import make_group
from sending import send_to

pytestmark = pytest.mark.broker

GROUPS = [(kind, live) for kind in ("share", "streams") for live in (True, False)]


@pytest.fixture(scope="module")
def topic(kafka: Any, client_config: ClientConfig) -> Iterator[str]:
    """With a group of each kind that is called like the topic and the kind."""
    name = kafka.topic(1)
    with Cluster(client_config) as cluster:
        send_to(cluster, {TopicPartition(name, 0): [Record(value=b"v")] * 3})
        for kind, live in GROUPS:
            make_group(cluster, kind, group_of(name, kind, live), name, live=live)
        yield name


def group_of(topic: str, kind: str, live: bool) -> str:
    return f"{topic}-{kind}-{'live' if live else 'empty'}"


@pytest.fixture
def job_of(kafka: Any, topic: str, tmp_path: Path) -> Callable[..., Job]:
    def make(group: str, **changes: Any) -> Job:
        return load_job(
            {
                "version": 1,
                "name": "orders",
                "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
                "source": {"topics": [topic]},
                "sink": {"path": str(tmp_path / "orders")},
                "ledger": str(tmp_path / "ledger"),
                "group": group,
            }
            | changes
        )

    return make


def backfill(topic: str, **options: Any) -> BackfillRequest:
    return BackfillRequest.parse([f"{topic}:0:0"], [f"{topic}:0:2"], **options)


@pytest.mark.parametrize(("kind", "live"), GROUPS)
@pytest.mark.parametrize("commit", ["transactional", "plain"])
def test_offsets_are_committed_to_no_share_or_streams_group(
    job_of: Any, topic: str, kind: str, live: bool, commit: str
) -> None:
    """The rows landed, and then the commit failed at every attempt."""
    job = job_of(group_of(topic, kind, live), group_commit=commit)
    commits = backfill(topic, commit_offsets=True)
    for run in (
        lambda: plan_only(job),
        lambda: plan_only(job, commits),
        lambda: run_ingest(job),
        lambda: run_drain(job),
        lambda: run_backfill(job, commits),
    ):
        with pytest.raises(ConfigurationError, match=f"is a {kind} group") as caught:
            run()
        assert caught.value.exit_code == 2
        assert [fault.path for fault in caught.value.faults] == ["group"]
    assert not Ledger.open(job.ledger).read(job.name).bases


@pytest.mark.parametrize("live", [True, False])
def test_a_job_that_only_starts_at_a_group_s_offsets_may_have_a_streams_group(
    job_of: Any, topic: str, live: bool
) -> None:
    """It has offsets, as a group of consumers; a share group has none."""
    source = {"topics": [topic], "starting_offsets": "committed"}
    assert plan_only(job_of(group_of(topic, "streams", live), group_commit="none")).status == "dry-run"
    assert plan_only(job_of(group_of(topic, "streams", live)), backfill(topic)).status == "dry-run"
    for job, request in (
        (job_of(group_of(topic, "share", live), group_commit="none", source=source), None),
        (job_of(group_of(topic, "share", live)), backfill(topic)),
    ):
        with pytest.raises(ConfigurationError, match="is a share group"):
            plan_only(job, request)


@pytest.mark.parametrize("commit", ["transactional", "none"])
def test_a_group_that_is_not_there_is_no_error(job_of: Any, topic: str, commit: str) -> None:
    assert plan_only(job_of(f"{topic}-new", group_commit=commit)).status == "dry-run"
