"""A job runs with the ACLs that docs/reference/acls.md lists, and with one of them missing it says which."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kseg.client import ClientConfig, Cluster, KafkaError, TopicPartition, committed_offsets
from kseg.client.admin.acls import AclBinding, AclFilter, create_acls, delete_acls, describe_acls
from kseg.client.admin.topics import create_topic
from kseg.client.errors import AuthorizationFailed
from kseg.client.protocol.enums import AclOperation, PatternType, ResourceType
from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError
from kseg.etl.operations.audit import audit
from kseg.etl.operations.backfill import run_backfill
from kseg.etl.operations.interval import interval_status
from kseg.etl.operations.status import status
from kseg.etl.operations.verify import verify
from kseg.etl.planning.backfill_request import BackfillRequest, parse_interval
from kseg.etl.run.dry_run import plan_only
from kseg.etl.run.pipeline import run_ingest
from kseg.etl.source.brokers.logs import BrokerLogs
from kseg.jobs.records.topics import describe_topics
from kseg.segment_reader.encode.batches import Record
from other_groups import make_group
from sending import producer_on, send_batches, send_to

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "acls.md"
PRINCIPAL = "User:etl"


@pytest.fixture(scope="module")
def root(guarded_kafka: Any) -> Iterator[Cluster]:
    config = ClientConfig.from_properties({"bootstrap.servers": guarded_kafka.bootstrap_servers}, client_id="root")
    with Cluster(config) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def user(guarded_kafka: Any) -> Iterator[Cluster]:
    with Cluster(ClientConfig.from_properties(guarded_kafka.properties(), client_id="user")) as cluster:
        yield cluster


@pytest.fixture
def topic(root: Cluster, guarded_kafka: Any, await_markers: Callable[[str, str], None]) -> str:
    """Two partitions; committed, aborted and plain records."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    create_topic(root, name, partitions=2)
    partitions = [TopicPartition(name, number) for number in (0, 1)]
    with producer_on(root, name) as producer:
        for end in (producer.commit, producer.abort):
            producer.begin()
            send_batches(producer, {tp: [Record(value=b"v")] * 5 for tp in partitions})
            end()
    send_to(root, {tp: [Record(value=b"plain")] * 5 for tp in partitions})
    await_markers(guarded_kafka.bootstrap_servers, name)
    return name


@pytest.fixture
def job(
    guarded_kafka: Any, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Any
) -> Callable[..., Job]:
    """`job(group_commit="plain")`: a job of user etl on the topic."""
    monkeypatch.setenv("ETL_PASSWORD", guarded_kafka.properties()["sasl.password"])

    def make(**changes: Any) -> Job:
        document = {
            "version": 1,
            "name": "orders",
            "kafka": guarded_kafka.properties() | {"sasl.password": "${ETL_PASSWORD}"},
            "source": {"topics": [topic]},
            "sink": {"path": "./lake/orders"},
            "group": f"{topic}-etl",
            "transactional_id": f"{topic}-tx",
            "ledger": "./lake/_kseg_ledger",
        }
        document |= changes
        file = tmp_path / "job.yaml"
        file.write_text(json.dumps({key: value for key, value in document.items() if value is not None}))
        return load_job(file)

    return make


@pytest.fixture
def allow(root: Cluster) -> Iterator[Callable[[set[AclBinding]], None]]:
    """`allow(bindings)`: user etl may do exactly this, from now on."""

    def exactly(bindings: set[AclBinding]) -> None:
        delete_acls(root, [AclFilter(principal=PRINCIPAL)]).or_raise()
        create_acls(root, list(bindings)).or_raise()
        deadline = time.monotonic() + 60
        while describe_acls(root, AclFilter(principal=PRINCIPAL)) != bindings:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    yield exactly
    exactly(set())


def listed(feature: str, topic: str) -> set[AclBinding]:
    """The ACLs that the page lists for a feature, for this topic and what is named after it."""
    names = {"TOPIC": topic, "GROUP": f"{topic}-etl", "TRANSACTIONAL_ID": f"{topic}-tx"}
    [row] = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {feature} |")]
    found = re.findall(r"`([A-Z_]+) on (topic|group|transactional id)`", row.split("|")[2])
    assert found or "nothing more" in row
    return {binding(operation, kind.upper().replace(" ", "_"), names) for operation, kind in found}


def binding(operation: str, kind: str, names: dict[str, str]) -> AclBinding:
    return AclBinding(ResourceType[kind], names[kind], PRINCIPAL, AclOperation[operation])


@pytest.mark.rule(86)
def test_the_main_job_runs_with_exactly_the_acls_of_the_page(
    job: Callable[..., Job], topic: str, allow: Any, root: Cluster
):
    allow(listed("`kseg ingest`, `backfill`", topic) | listed("`group_commit: transactional`", topic))
    transactional = job()
    assert plan_only(transactional).status == "dry-run"
    report = run_ingest(transactional)
    assert (report.status, report.rows_out) == ("done", 20)
    partitions = [TopicPartition(topic, number) for number in (0, 1)]
    committed = committed_offsets(root, f"{topic}-etl", partitions)
    assert {offset.offset for offset in committed.values()} == {5 + 1 + 5 + 1 + 5}
    assert run_ingest(transactional).status == "nothing-to-do"
    again = run_backfill(
        transactional, BackfillRequest.parse(from_=[f"{topic}:0:0"], to=[f"{topic}:0:17"], mode="replace")
    )
    assert again.status == "done"


def test_a_plan_finds_that_tasks_may_not_read_the_topic(job: Callable[..., Job], topic: str, allow: Any):
    names = {"TOPIC": topic}
    rest = listed("`group_commit: transactional`", topic)
    allow(rest | {binding("DESCRIBE", "TOPIC", names)})
    with pytest.raises(AuthorizationFailed, match=f"READ on topic {topic}") as caught:
        plan_only(job())
    assert caught.value.lacking is not None
    allow(rest | {binding("READ", "TOPIC", names)})
    notes = plan_only(job()).notes
    assert any("READ on the group and WRITE on the transactional id" in note for note in notes)


def test_commands_that_land_nothing_need_less(job: Callable[..., Job], topic: str, allow: Any):
    allow(listed("`kseg ingest`, `backfill`", topic) | listed("`group_commit: transactional`", topic))
    run_ingest(job())
    allow(listed("`kseg verify`", topic))
    assert verify(job()).ok
    allow(listed("`kseg status`", topic))
    assert status(job()).to_json()["partitions"][0]["agrees"]
    allow(listed("`kseg audit`", topic))
    assert audit(job()).ok
    allow(listed("`kseg interval`", topic))
    assert interval_status(job(), parse_interval("2020-01-01T00:00:00Z/2020-01-02T00:00:00Z")).closed
    allow(listed("`kseg plan`, `kseg check --connect`", topic))
    assert plan_only(job(source={"topics": [topic], "ending_offsets": {topic: {0: 1}}})).status == "nothing-to-do"


def test_status_shows_the_age_of_data_to_who_may_read_the_topic(
    job: Callable[..., Job], root: Cluster, topic: str, allow: Any
):
    allow(listed("`kseg ingest`, `backfill`", topic) | listed("`group_commit: transactional`", topic))
    run_ingest(job())
    minute_ago = int(time.time() * 1000) - 60_000
    send_to(root, {TopicPartition(topic, 0): [Record(value=b"late", timestamp=minute_ago)]})
    late = job(reporting={"freshness": "30s"})
    allow(listed("`kseg status`", topic) | listed("`kseg status` with `reporting.freshness`", topic))
    report = status(late)
    assert report.freshness is not None
    assert report.freshness.late == [f"{topic}-0"]


def test_topics_are_shown_to_who_may_describe_them(user: Cluster, topic: str, allow: Any):
    allow(listed("`kseg topics`", topic))
    [found] = describe_topics(user, [topic])
    assert [(one.start, one.end) for one in found.partitions] == [(0, 17), (0, 17)]
    assert (found.cleanup, found.partitions[0].size) == (None, None)


@pytest.mark.parametrize("kind", ["share", "streams"])
@pytest.mark.parametrize("live", [True, False])
def test_a_group_s_type_is_known_to_who_may_not_describe_what_its_members_read(
    job: Callable[..., Job], root: Cluster, topic: str, allow: Any, kind: str, live: bool
):
    create_topic(root, f"other-{topic}")
    make_group(root, kind, f"{topic}-etl", f"other-{topic}", live=live)
    allow(listed("`kseg plan`, `kseg check --connect`", topic))
    with pytest.raises(ConfigurationError, match=f"is a {kind} group"):
        plan_only(job())


@pytest.mark.parametrize("commit", ["plain", "none"])
def test_other_ways_to_commit_need_no_transactional_id(job: Callable[..., Job], topic: str, allow: Any, commit: str):
    allow(listed("`kseg ingest`, `backfill`", topic) | listed(f"`group_commit: {commit}`", topic))
    report = run_ingest(job(group_commit=commit, transactional_id=None))
    assert (report.status, report.rows_out) == ("done", 20)


def test_a_job_without_a_group_needs_the_topic_alone(job: Callable[..., Job], topic: str, allow: Any):
    allow(listed("`kseg ingest`, `backfill`", topic))
    report = run_ingest(job(group=None, transactional_id=None, group_commit="none"))
    assert (report.status, report.rows_out) == ("done", 20)


def test_prefixes_do_as_well(job: Callable[..., Job], topic: str, allow: Any):
    full = listed("`kseg ingest`, `backfill`", topic) | listed("`group_commit: transactional`", topic)
    allow({AclBinding(acl.resource_type, topic[:6], PRINCIPAL, acl.operation, PatternType.PREFIXED) for acl in full})
    assert run_ingest(job()).status == "done"


#: What is allowed in place of what the page lists, and what the job then says is lacking.
TAKEN_AWAY = {
    "the topic": ("READ", "TOPIC", None, "DESCRIBE on topic {topic}"),
    "reading the topic": ("READ", "TOPIC", "DESCRIBE", "READ on topic {topic}"),
    "the group": ("READ", "GROUP", None, "DESCRIBE on group {topic}-etl"),
    "reading the group": ("READ", "GROUP", "DESCRIBE", "READ on group {topic}-etl"),
    "the transactional id": ("WRITE", "TRANSACTIONAL_ID", None, "DESCRIBE on transactional id {topic}-tx"),
    "writing with the transactional id": (
        "WRITE",
        "TRANSACTIONAL_ID",
        "DESCRIBE",
        "WRITE on transactional id {topic}-tx",
    ),
}


@pytest.mark.parametrize("what", TAKEN_AWAY)
def test_without_one_of_them_the_job_names_it(job: Callable[..., Job], topic: str, allow: Any, what: str):
    operation, kind, instead, lacking = TAKEN_AWAY[what]
    names = {"TOPIC": topic, "GROUP": f"{topic}-etl", "TRANSACTIONAL_ID": f"{topic}-tx"}
    full = listed("`kseg ingest`, `backfill`", topic) | listed("`group_commit: transactional`", topic)
    missing = binding(operation, kind, names)
    assert missing in full
    allow(full - {missing} | ({binding(instead, kind, names)} if instead else set()))
    with pytest.raises(KafkaError) as caught:
        run_ingest(job())
    told = caught.value
    assert not told.retriable
    assert str(told.lacking) == lacking.format(topic=topic)  # type: ignore[attr-defined]
    assert "kafka-acls --add" in str(told)

    # What the error asks for is what helps; then it goes on with the run that it had begun.
    allow(full)
    assert run_ingest(job()).status == "done"


def test_every_acl_of_the_page_is_one_that_a_test_takes_away(topic: str):
    full = listed("`kseg ingest`, `backfill`", topic) | listed("`group_commit: transactional`", topic)
    assert {(acl.operation.name, acl.resource_type.name) for acl in full} == {row[:2] for row in TAKEN_AWAY.values()}


def test_a_compacted_topic_is_known_only_to_who_may_see_its_settings(
    root: Cluster, user: Cluster, topic: str, allow: Any
):
    create_topic(root, f"{topic}-c", config={"cleanup.policy": "compact"})
    allow({AclBinding(ResourceType.TOPIC, f"{topic}-c", PRINCIPAL, AclOperation.READ)})
    assert BrokerLogs(user).compacted([f"{topic}-c"]) == frozenset()
    names = {"TOPIC": f"{topic}-c"}
    [(operation, kind)] = re.findall(
        r"`(DESCRIBE_CONFIGS) on (topic)`", PAGE.read_text().split("| compacted topics")[1].split("\n")[0]
    )
    allow({binding("READ", "TOPIC", names), binding(operation, kind.upper(), names)})
    assert BrokerLogs(user).compacted([f"{topic}-c"]) == {f"{topic}-c"}


def test_a_cap_in_bytes_needs_the_cluster(job: Callable[..., Job], topic: str, allow: Any):
    page = PAGE.read_text().split("| `run.max_bytes` |")[1].split("\n")[0]
    [operation] = re.findall(r"`(DESCRIBE) on cluster`", page)
    full = listed("`kseg ingest`, `backfill`", topic) | listed("`group_commit: transactional`", topic)
    allow(full)
    capped = job(run={"max_bytes": 100})
    with pytest.raises(KafkaError) as caught:
        plan_only(capped)
    assert str(caught.value.lacking) == "DESCRIBE on cluster"  # type: ignore[attr-defined]
    allow(full | {binding(operation, "CLUSTER", {"CLUSTER": "kafka-cluster"})})
    report = plan_only(capped)
    assert report.unread
    assert 0 < report.counts["offsets"] < 34
