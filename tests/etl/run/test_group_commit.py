"""A commit of offsets that a sibling run has fenced: whether the sibling has committed what was to be committed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kseg.client.admin.transactions import describe_transactions
from kseg.client.cluster.cluster import Cluster
from kseg.client.config import ClientConfig
from kseg.client.errors import AuthorizationFailed, Fenced, TransactionError
from kseg.client.groups.offsets import CommittedOffset, committed_offsets
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.produce import InitProducerIdRequest
from kseg.client.protocol.partition import TopicPartition
from kseg.client.retry import Deadline
from kseg.client.transactions.transaction import Transaction
from kseg.etl.config.load import job_from_document
from kseg.etl.errors import RetriableFailure
from kseg.etl.ledger.events import GroupOffset, PartitionIdentity, TopicIdentity
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.run import group_commit
from kseg.etl.run.deadline import RunDeadline

TP = TopicPartition("orders", 0)
JOB = job_from_document(
    {
        "version": 1,
        "name": "job",
        "kafka": {"bootstrap.servers": "localhost:1"},
        "source": {"topics": ["orders"]},
        "sink": {"path": "/lake/orders"},
        "ledger": "/lake/ledger",
        "group": "g",
    }
)


class Lease:
    """Reads one state of the ledger."""

    def __init__(self, state: JobState) -> None:
        self.state = state

    def read(self) -> JobState:
        return self.state


def commits_made(
    monkeypatch: pytest.MonkeyPatch, in_group: int, *, fenced: int = 1, left: float = 3600, **state: Any
) -> int:
    """How many transactions a run makes whose first ones are fenced; the frontier is 50. left: seconds of the run."""
    known = JobState(job="job", ledger_id="l", bases={TP: 0}, landed_offsets={TP: OffsetSet.single(0, 50)}, **state)
    ends: Iterator[BaseException | None] = chain(repeat(Fenced("a sibling began"), fenced), repeat(None))
    made = []

    def in_transaction(*_: Any) -> dict[TopicPartition, CommittedOffset]:
        made.append(1)
        if (failure := next(ends)) is not None:
            raise failure
        return {}

    monkeypatch.setattr(group_commit, "_in_transaction", in_transaction)
    monkeypatch.setattr(group_commit, "committed_offsets", lambda *_: {TP: CommittedOffset(in_group, -1, "")})
    monkeypatch.setattr(group_commit, "PAUSE_AFTER_FENCE", 0)
    lease = cast("Any", Lease(known))
    deadline = RunDeadline(timedelta(seconds=left))
    group_commit.commit_frontier(cast("Any", None), lease, JOB, "r", [TP], lambda _: None, deadline)
    return len(made)


@pytest.mark.parametrize(("in_group", "made"), [(49, 2), (50, 1), (80, 1)])
def test_a_siblings_commit_counts_where_it_goes_as_far(in_group: int, made: int, monkeypatch: Any) -> None:
    assert commits_made(monkeypatch, in_group) == made


@pytest.mark.parametrize(
    "state",
    [
        {"committed": {"g": {TP: GroupOffset(80, "kseg:l:abandoned-since")}}},
        {"reopened": {TP: (50,)}},
    ],
)
def test_an_offset_of_before_the_frontier_went_back_is_no_siblings_commit(state: Any, monkeypatch: Any) -> None:
    assert commits_made(monkeypatch, 80, **state) == 2


def test_a_run_whose_deadline_has_passed_does_not_begin_another_wait(monkeypatch: Any) -> None:
    """Whatever came before it took the time: the contest with siblings has none of its own."""
    with pytest.raises(RetriableFailure, match="repeatedly fenced"):
        commits_made(monkeypatch, 49, fenced=2, left=0)
    assert commits_made(monkeypatch, 49, fenced=2) == 3


@pytest.mark.broker
@pytest.mark.parametrize("error", [None, "INVALID_TXN_STATE"])
def test_a_commit_whose_transaction_a_sibling_has_aborted_is_made_again(
    error: str | None, kafka: Any, monkeypatch: Any
) -> None:
    """A sibling has begun between the offsets and the end: it fences, or has not asked a second time yet (KIP-890)."""
    tp = TopicPartition(kafka.topic(1), 0)
    job = JOB.model_copy(update={"group": f"g-{tp.topic}", "transactional_id": f"t-{tp.topic}"})
    state = JobState(job="job", ledger_id="l", bases={tp: 0}, landed_offsets={tp: OffsetSet.single(0, 50)})
    lease = cast("Any", SimpleNamespace(read=lambda: state, ledger=SimpleNamespace(id="l")))
    failures: list[str | None] = []

    config = ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers}, client_id="kseg-tests")
    with Cluster(config) as cluster:

        def begin_as_a_sibling(*_: Any) -> None:
            if failures:
                return
            failures.append(None)
            if error is None:
                group_commit.fence(cluster, job, "l")
            else:
                abort_as_a_sibling(cluster, str(job.transactional_id))

        class Noting(Transaction):
            def commit(self) -> None:
                try:
                    super().commit()
                except TransactionError as failed:
                    failures.append("INVALID_TXN_STATE" if failed.code == ErrorCode.INVALID_TXN_STATE else None)
                    raise

        monkeypatch.setattr(group_commit, "refuse_live_group", begin_as_a_sibling)
        monkeypatch.setattr(group_commit, "Transaction", Noting)
        deadline = RunDeadline(timedelta(minutes=2))
        made = group_commit.commit_frontier(cluster, lease, job, "r", [tp], lambda _: None, deadline)
        assert failures == [None, error], "what the first commit was told"
        assert made[tp].offset == committed_offsets(cluster, str(job.group), [tp])[tp].offset == 50


def abort_as_a_sibling(cluster: Cluster, transactional_id: str) -> None:
    """Ask for InitProducerId once: it has the open transaction aborted, and is to be asked again."""
    connection = cluster.coordinator(("transaction", transactional_id), Deadline.after(60))
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    told = connection.call(request, connection.version_of(InitProducerIdRequest), deadline=Deadline.after(60))
    assert told.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    until = time.monotonic() + 60
    while describe_transactions(cluster, [transactional_id]).or_raise()[transactional_id].state != "CompleteAbort":
        assert time.monotonic() < until
        time.sleep(0.05)


TODAY = {"transactional_id": "today"}
PLANNED = {"transactional_id": "planned"}


@pytest.mark.parametrize(
    ("today", "planned", "fenced"),
    [
        (TODAY, TODAY, ["today"]),
        (TODAY, PLANNED, ["today", "planned"]),
        (TODAY, {}, ["today", "kseg-l-job"]),
        ({}, PLANNED, ["kseg-l-job", "planned"]),
        ({"group_commit": "none"}, PLANNED, ["planned"]),
        ({"group_commit": "plain"}, {}, ["kseg-l-job"]),
        (TODAY, {"group_commit": "plain"}, ["today"]),
        ({"group_commit": "none"}, {"group_commit": "none"}, []),
    ],
)
@pytest.mark.parametrize("state", ["accounted", "not accounted", "commits nothing", "no run"])
def test_an_attempt_of_before_the_job_file_changed_is_fenced_too(
    state: str, today: dict[str, str], planned: dict[str, str], fenced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It committed its offsets when it woke up, after its run's rows had been removed."""
    begun = begun_transactions(monkeypatch)
    own = fenced[:1] if {"group_commit": "transactional", **today}["group_commit"] == "transactional" else []
    run = None if state == "no run" else run_of(planned, accounted=state != "not accounted")
    if run is not None and state == "commits nothing":
        run.plan.commit_offsets = False
    group_commit.fence_attempts(cast("Any", object()), JOB.model_copy(update=today), run, "l")
    assert begun == (fenced if state == "accounted" else own)


def test_an_id_that_the_job_may_not_use_any_more_keeps_no_run_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a run that could not commit its offsets under an id could not be continued under another one either."""
    begun = begun_transactions(monkeypatch, denied="denied")
    denied = {"transactional_id": "denied"}
    group_commit.fence_attempts(cast("Any", object()), JOB.model_copy(update=TODAY), run_of(denied), "l")
    assert begun == ["today", "denied"]
    with pytest.raises(AuthorizationFailed):
        group_commit.fence_attempts(cast("Any", object()), JOB.model_copy(update=denied), run_of(TODAY), "l")


def test_without_brokers_nothing_is_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = begun_transactions(monkeypatch)
    group_commit.fence_attempts(None, JOB.model_copy(update={"group_commit": "none"}), run_of(PLANNED), "l")
    assert not begun


def run_of(changes: dict[str, str], *, accounted: bool = True) -> Any:
    """A run that was planned by the job file with these changes."""
    pinned = json.dumps(JOB.model_copy(update=changes).pinned())
    plan = SimpleNamespace(commit_offsets=True, pinned_config=pinned)
    return SimpleNamespace(plan=plan, accounted=object() if accounted else None)


def begun_transactions(monkeypatch: pytest.MonkeyPatch, *, denied: str | None = None) -> list[str]:
    """The transactional ids that are asked for. denied: the brokers reject this one."""
    begun: list[str] = []

    class Noting:
        def __init__(self, _: Any, transactional_id: str, **__: Any) -> None:
            self.id = transactional_id

        def begin(self) -> None:
            begun.append(self.id)
            if self.id == denied:
                raise AuthorizationFailed("it is denied")

    monkeypatch.setattr(group_commit, "Transaction", Noting)
    return begun


def test_a_frontier_above_the_end_of_the_epoch_that_was_seen_is_committed_without_it() -> None:
    """What lies above was landed from files, and may be of later epochs: consumers would see a truncated log."""

    def epoch(end: int) -> int:
        topics = {"orders": TopicIdentity(None, "c", {0: PartitionIdentity(5, end)})}
        state = JobState("job", "l", bases={TP: 0}, landed_offsets={TP: OffsetSet.single(0, 50)}, topics=topics)
        return group_commit.frontier_offsets(state, "r1", [TP])[TP].leader_epoch

    assert (epoch(50), epoch(80), epoch(40), epoch(-1)) == (5, 5, -1, -1)
