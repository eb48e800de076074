"""A commit of offsets that a sibling run has fenced: whether the sibling has committed what was to be committed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import chain, repeat
from typing import Any, cast

import pytest

from kseg.client.errors import Fenced
from kseg.client.groups.offsets import CommittedOffset
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.load import job_from_document
from kseg.etl.errors import RetriableFailure
from kseg.etl.ledger.events import GroupOffset
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
