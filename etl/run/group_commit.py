"""The consumer group's offsets, moved to the ledger's frontier after the rows are durable.

    InitProducerId      fences every older run's commit on this transactional id, *then*
    read the ledger     so that no commit is older than what a fenced sibling read, and none follows a lost lease
    check the source    so that offsets of a topic never become those of another one of its name
    TxnOffsetCommit     all assigned partitions, also unchanged ones: a group without members expires one by one
    describe the group  a member that joined meanwhile is not noticed by the broker: it takes a commit with an empty
                        member id even then
    EndTxn

A run whose transaction another run of its job (a sibling) has ended reads the ledger again: its frontier is committed
by then, or it tries again. A run that was taken over finds its lease lost, because a process that takes over fences
before it reads or removes anything.

How the run is told: it is fenced, or, in the second protocol (KIP-890), INVALID_TXN_STATE. There InitProducerId first
has an open transaction aborted under the next epoch, and until it is asked again a commit under the epoch before passes
for a repeated one. The coordinator's timeout ends a transaction in the same way.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from kseg.client.cluster.cluster import Cluster
from kseg.client.errors import AuthorizationFailed, Fenced, KafkaError, TransactionError, UnsupportedVersion
from kseg.client.groups.descriptions import GroupDescription, describe_group
from kseg.client.groups.offsets import CommittedOffset, commit_offsets, committed_offsets
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.partition import TopicPartition
from kseg.client.transactions.transaction import Transaction
from kseg.etl.config.job import Job
from kseg.etl.errors import ConfigurationError, Refused, RetriableFailure, listed
from kseg.etl.ledger.events import GroupOffset
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.planning.group_reconciliation import commit_metadata
from kseg.etl.run.deadline import RunDeadline

Check = Callable[[JobState], None]
"""Raises Refused where the source is not the one that this state of the ledger knows."""

TRANSACTION_TIMEOUT_MS = 60_000
PAUSE_AFTER_FENCE = 0.2


def transactional_id(job: Job, ledger_id: str) -> str:
    """The job's own, or the default made from ledger and job."""
    return job.transactional_id or _default_id(job, ledger_id)


def _default_id(job: Job, ledger_id: str) -> str:
    return f"kseg-{ledger_id}-{job.name}"


def fence_attempts(cluster: Cluster | None, job: Job, run: RunState | None, ledger_id: str) -> None:
    """Abort the transaction that any attempt of the chain's run has open. Call it after the lease is taken.

    Attempts commit under the transactional id of the job file of their time. So the one with which the run was planned
    is fenced as well, if the job file has another one now, or commits no offsets in transactions any more. Its failure
    is ignored: the job may not be allowed to use this id any more, and a coordinator that does not respond for a minute
    aborts the transaction by itself (`TRANSACTION_TIMEOUT_MS`).

    cluster: None for a job without brokers. run: the chain's unfinished run; None: there is none.

    Raises:
        ConfigurationError, KafkaError: as `fence`, for the job's own id.
    """
    own = None
    if job.commits_offsets and job.group_commit == "transactional":
        assert cluster is not None
        own = transactional_id(job, ledger_id)
        fence(cluster, job, ledger_id)
    planned = _planned_id(job, run, ledger_id) if run is not None else None
    if cluster is not None and planned is not None and planned != own:
        with suppress(KafkaError):
            Transaction(cluster, planned, timeout_ms=TRANSACTION_TIMEOUT_MS).begin()


def _planned_id(job: Job, run: RunState, ledger_id: str) -> str | None:
    """The transactional id of the run's plan; None if no attempt can have a transaction open under it."""
    if run.accounted is None or not run.plan.commit_offsets:
        return None
    planned = json.loads(run.plan.pinned_config)
    if planned.get("group_commit") != "transactional":
        return None
    return planned.get("transactional_id") or _default_id(job, ledger_id)


def fence(cluster: Cluster, job: Job, ledger_id: str) -> None:
    """Abort the transaction that another run of this job has open: it died in it, or it is suspended before its EndTxn.

    A suspended run cannot commit it when it wakes up. Nobody can read offsets in an open transaction; without this
    call the coordinator would abort it a minute later. A sibling that is about to commit begins again.

    Raises:
        ConfigurationError: the brokers are too old for transactions (before 0.11).
        KafkaError: the coordinator rejected a request or is not available.
    """
    try:
        Transaction(cluster, transactional_id(job, ledger_id), timeout_ms=TRANSACTION_TIMEOUT_MS).begin()
    except UnsupportedVersion as error:
        raise ConfigurationError.of(
            "group_commit",
            f"transactional is not possible: {error}",
            "set group_commit: plain, which commits the group's offsets after the rows without a transaction, or none",
        ) from error


def refuse_live_group(cluster: Cluster, group: str) -> None:
    """Refuse a group to which offsets cannot be committed, or in which consumers commit offsets themselves.

    Raises:
        ConfigurationError: it is a share group or a streams group.
        Refused: `group-has-members`.
        AuthorizationFailed: the client may not describe the group.
    """
    described = describe_group(cluster, group)
    _refuse_types(described, ("share", "streams"))
    if described.has_members:
        members = listed((f"{member.client_id} on {member.client_host}" for member in described.members), most=5)
        raise Refused.of("group-has-members", {"members": members or described.state}, group=group)


def refuse_share_group(cluster: Cluster, group: str) -> None:
    """Raises ConfigurationError for a share group: it has no offsets at which a job could start.

    A client that may not describe the group learns nothing here: its next request for the group's offsets fails.
    """
    with suppress(AuthorizationFailed):
        _refuse_types(describe_group(cluster, group), ("share",))


def _refuse_types(described: GroupDescription, types: Collection[str]) -> None:
    if described.type in types:
        raise ConfigurationError.of(
            "group",
            f"{described.group} is a {described.type} group, and the job needs a group of consumers",
            "give the job a group of its own, of a name that no other application uses",
        )


def frontier_offsets(
    state: JobState, run_id: str, assigned: Collection[TopicPartition]
) -> dict[TopicPartition, CommittedOffset]:
    """The offsets to commit: the frontier of every assigned partition that has a base.

    The leader epoch is the ledger's if it was seen with an end at or above the frontier. Otherwise the frontier's
    records may be of later epochs (they were read from files): with an older epoch, the log would seem truncated.
    """
    metadata = commit_metadata(state.ledger_id, run_id)
    offsets: dict[TopicPartition, CommittedOffset] = {}
    for tp in sorted(assigned):
        frontier = state.frontier(tp)
        if frontier is None:
            continue
        topic = state.topics.get(tp.topic)
        seen = topic.partitions.get(tp.partition) if topic else None
        epoch = seen.leader_epoch if seen is not None and frontier <= seen.end_offset else -1
        offsets[tp] = CommittedOffset(frontier, epoch, metadata)
    return offsets


def commit_frontier(
    cluster: Cluster,
    lease: Lease,
    job: Job,
    run_id: str,
    assigned: Collection[TopicPartition],
    check: Check,
    deadline: RunDeadline,
) -> dict[TopicPartition, CommittedOffset]:
    """Commit each assigned partition's frontier for the job's group, as `group_commit` says; return what was committed.

    Raises:
        LeaseLost: another process has taken this run over.
        Refused: `group-has-members`; what `check` refuses.
        RetriableFailure: siblings kept ending this run's transactions until the deadline had passed.
        KafkaError: the coordinator rejected a request or is not available.
    """
    assert job.group is not None
    if job.group_commit == "plain":
        refuse_live_group(cluster, job.group)
        state = lease.read()
        offsets = frontier_offsets(state, run_id, assigned)
        check(state)
        commit_offsets(cluster, job.group, offsets)
        return offsets
    while True:
        try:
            return _in_transaction(cluster, lease, job, run_id, assigned, check)
        except TransactionError as ended:
            if not (isinstance(ended, Fenced) or ended.code == ErrorCode.INVALID_TXN_STATE):
                raise
            state = lease.read()
            done = frontier_offsets(state, run_id, assigned)
            found = committed_offsets(cluster, job.group, list(done))
            if _already_committed(found, done, lowered=_lowered(state, job.group, done)):
                return done
            if deadline.passed:
                raise RetriableFailure(
                    "other runs of this job repeatedly fenced the commit of the group's offsets",
                    remedy="run the job again when the others have ended",
                    group=job.group,
                ) from ended
            time.sleep(PAUSE_AFTER_FENCE)


def _in_transaction(
    cluster: Cluster,
    lease: Lease,
    job: Job,
    run_id: str,
    assigned: Collection[TopicPartition],
    check: Check,
) -> dict[TopicPartition, CommittedOffset]:
    assert job.group is not None
    # Leaving the block on an error aborts: left open, the transaction would hide these offsets from readers of stable
    # offsets until it times out.
    with Transaction(cluster, transactional_id(job, lease.ledger.id), timeout_ms=TRANSACTION_TIMEOUT_MS) as transaction:
        transaction.begin()
        state = lease.read()
        offsets = frontier_offsets(state, run_id, assigned)
        if offsets:
            check(state)
            transaction.commit_offsets(job.group, offsets)
            refuse_live_group(cluster, job.group)
        transaction.commit()
    return offsets


def _lowered(state: JobState, group: str, wanted: Mapping[TopicPartition, CommittedOffset]) -> bool:
    """Whether a frontier went back: offsets were reopened, or a run was abandoned that a sibling has committed over."""
    known = state.group_offsets(group)
    return bool(state.reopened) or any(tp in known and known[tp].offset > one.offset for tp, one in wanted.items())


def _already_committed(
    found: Mapping[TopicPartition, CommittedOffset], wanted: Mapping[TopicPartition, CommittedOffset], *, lowered: bool
) -> bool:
    """lowered: a higher offset may be that of an earlier commit, which has to be taken back."""
    return all(
        tp in found and (found[tp].offset == offset.offset or (found[tp].offset > offset.offset and not lowered))
        for tp, offset in wanted.items()
    )


def as_events(offsets: Mapping[TopicPartition, CommittedOffset]) -> dict[TopicPartition, GroupOffset]:
    """The offsets as the ledger keeps them."""
    return {tp: GroupOffset(o.offset, o.metadata or "", o.leader_epoch) for tp, o in offsets.items()}
