"""Where a job begins and goes on, when the offsets that it is given are not in the log; and runs asked for again."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from kseg.client.cluster.metadata import PartitionMetadata, TopicMetadata
from kseg.client.groups.offsets import CommittedOffset
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.load import job_from_document
from kseg.etl.config.sections import AtTime, Segments
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.backfill import run_id_of
from kseg.etl.planning.backfill_request import BackfillRequest
from kseg.etl.planning.epoch_ends import LeaderEpoch
from kseg.etl.planning.group_reconciliation import GroupView, commit_metadata, committed_epochs
from kseg.etl.planning.plan import Draft, PlanInputs, plan_incremental
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.source.resolve import LogBounds

TP = TopicPartition("orders", 0)
JOB = job_from_document(
    {
        "version": 1,
        "name": "job",
        "kafka": {"bootstrap.servers": "localhost:1"},
        "source": {"topics": ["orders"]},
        "sink": {"path": "/lake/orders"},
        "group": "g",
        "ledger": "/lake/ledger",
    }
)
FRESH = JobState("job", "L")


def draft(
    state: JobState = FRESH,
    *,
    start: int = 0,
    end: int = 37,
    group: int = -1,
    group_epoch: int = -1,
    metadata: str = "",
    accept: bool = False,
    **ended: int,
) -> Draft:
    """ended: e5=20: leader epoch 5 ended at offset 20."""
    topic = TopicMetadata("orders", UUID(int=1), False, {0: PartitionMetadata(0, 1, 0, (1,), (1,))})
    snapshot = SourceSnapshot("c", {"orders": topic}, {TP: LogBounds(0, end, end)}, {TP: start}, {TP: end})
    view = GroupView("g", {TP: CommittedOffset(group, group_epoch, metadata)}, accept=accept)
    ends = {LeaderEpoch(TP, int(epoch[1:])): at for epoch, at in ended.items()}
    return Draft.unwritten(PlanInputs(JOB, snapshot, {"/lake/orders": None}, view, ends), state)


def planned(*args: Any, **options: Any) -> list[tuple[int, int]]:
    plan = plan_incremental(draft(*args, **options))
    return [(r.start, r.end) for r in plan.ranges] if plan is not None else []


def test_a_configured_start_beyond_the_log_is_bad_configuration() -> None:
    with pytest.raises(ConfigurationError, match=r"orders-0 would start at offset 100000, and the log ends at 37"):
        planned(start=100_000)
    assert planned(start=37) == []


def test_a_group_offset_beyond_the_log_is_refused() -> None:
    with pytest.raises(Refused, match=r"committed at offset 100000, and the log ends at 37") as refused:
        planned(group=100_000)
    assert refused.value.code == "start-beyond-end"


def test_accepting_a_group_offset_beyond_the_log_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        planned(replace(FRESH, bases={TP: 0}), group=100_000, accept=True)
    assert refused.value.code == "start-beyond-end"


@pytest.mark.parametrize("state", [FRESH, replace(FRESH, bases={TP: 10})])
def test_a_group_offset_of_an_epoch_that_ended_below_it_is_refused(state: JobState) -> None:
    """An unclean election cut the log at 20, and the next leader has written other records from there on."""
    first = state is FRESH
    given = {"group": 25, "group_epoch": 5, "accept": not first}
    with pytest.raises(Refused, match=r"committed at offset 25 of leader epoch 5, which ended at 20") as refused:
        planned(state, **given, e5=20)
    assert refused.value.code == "log-truncated"
    assert refused.value.address["offset"] == 20
    for ends in ({"e5": 25}, {"e5": -1}, {"e6": 20}, {}):
        assert planned(state, **given, **ends) == [(25, 37)]
    # As the remedy says: a reset commits no leader epoch.
    assert planned(state, **given | {"group": 20, "group_epoch": -1}, e5=20) == [(20, 37)]


def test_the_epochs_to_ask_about_are_those_of_offsets_that_a_plan_may_start_from() -> None:
    def asked(
        metadata: str = "", *, state: JobState = FRESH, watched: bool = True, epoch: int = 5
    ) -> list[LeaderEpoch]:
        view = GroupView("g", {TP: CommittedOffset(25, epoch, metadata)}, watched=watched)
        return list(committed_epochs(view, state))

    assert asked() == asked(commit_metadata("another", "r0")) == asked(watched=False) == [LeaderEpoch(TP, 5)]
    assert asked(commit_metadata("L", "r0")) == asked(epoch=-1) == []
    based = replace(FRESH, bases={TP: 0})
    assert (asked(state=based), asked(state=based, watched=False)) == ([LeaderEpoch(TP, 5)], [])


def test_an_accepted_group_offset_leads_out_of_a_start_beyond_the_log() -> None:
    """As a ledger of an earlier release may have it: it began at 100000, and committed that over a log of 37."""
    committed = {"g": {TP: ev.GroupOffset(100_000, commit_metadata("L", "r0"))}}
    stuck = replace(FRESH, bases={TP: 100_000}, committed=committed)
    with pytest.raises(Refused) as refused:
        planned(stuck, group=100_000, metadata=commit_metadata("L", "r0"))
    assert refused.value.code == "start-beyond-end"
    assert "--accept-group-offsets" in str(refused.value.remedy)
    assert planned(stuck, group=5, accept=True) == [(5, 37)]


def grown(*, start: int = 0, group: int = -1, accept: bool = False, on_data_loss: str = "fail", **source: Any) -> Any:
    """The plan after a partition with offsets [start, 20) was added to a topic whose first one has been read."""
    job = JOB.model_copy(update={"source": JOB.source.model_copy(update={"on_data_loss": on_data_loss})})
    before = draft(FRESH)
    first = plan_incremental(before)
    assert first is not None
    run = replace(first, pinned_config=json.dumps({"source": source}))
    landed = {TP: OffsetSet.single(0, 37)}
    runs = {run.run_id: replace(before.state.runs[run.run_id], plan=run, finished=True)}
    state = replace(FRESH, bases={TP: 0}, landed_offsets=landed, runs=runs, topics=before.state.topics)
    added = TopicPartition("orders", 1)
    found = draft(state)
    found.inputs = replace(
        found.inputs,
        job=job,
        snapshot=replace(
            found.inputs.snapshot,
            bounds={TP: LogBounds(0, 37, 37), added: LogBounds(start, 20, 20)},
            starts={TP: 0, added: start},
            ends={TP: 37, added: 20},
        ),
        group=GroupView("g", {added: CommittedOffset(group, -1, "")}, accept=accept),
    )
    plan = plan_incremental(found)
    return [(r.partition, r.start, r.end) for r in plan.ranges] if plan is not None else []


def test_an_added_partition_is_read_from_its_first_record() -> None:
    assert grown() == [(1, 0, 20)]
    assert grown(group=0) == [(1, 0, 20)]


def test_what_retention_removed_of_an_added_partition_is_lost() -> None:
    with pytest.raises(Refused, match=r"no longer has orders-1 \[0, 5\)") as refused:
        grown(start=5)
    assert refused.value.code == "data-lost"
    assert grown(start=5, on_data_loss="record") == [(1, 5, 20)]


def test_what_another_client_commits_in_an_added_partition_is_a_change_of_the_groups_offsets() -> None:
    with pytest.raises(Refused, match="orders-1: group 7, ledger 0") as refused:
        grown(group=7)
    assert refused.value.code == "group-offsets-differ"
    assert grown(group=7, accept=True) == [(1, 7, 20)]


def test_a_partition_that_the_job_did_not_read_before_is_not_an_added_one() -> None:
    assert grown(start=5, assign={"orders": [0]}) == [(1, 5, 20)]


Logs = dict[int, tuple[int, int]]
"""By partition, where the log starts and ends."""


class Sources:
    """A job that reads its topic in copies of log files and at brokers. Each run lands what it planned."""

    def __init__(self, start: str = "earliest", **source: Any) -> None:
        source = {"starting_offsets": start, "on_data_loss": "fail"} | source
        self.job = JOB.model_copy(update={"source": JOB.source.model_copy(update=source)})
        self.state = FRESH

    def files(self, logs: Logs) -> None:
        """A backfill of all offsets of a copy that have not landed."""
        made = self._draft(self.job.of_files(Segments.named(["/copy"]), brokers=False), logs, copy=True)
        made.check_and_pin(moves_offsets=False)
        run_id = f"files{self.state.sequence}"
        made.stamp = lambda event: replace(event, chain=run_id, owner="me", attempt=1)
        made.add(ev.Leased(duration=60.0))
        there = {TopicPartition("orders", number): OffsetSet.single(*ends) for number, ends in logs.items()}
        wanted = {tp: offsets.subtract(self.state.landed(tp)) for tp, offsets in there.items()}
        made.plan(run_id, "backfill-missing", wanted, commit_offsets=False)
        self._land(made)

    def brokers(self, logs: Logs, group: dict[int, int] | None = None) -> list[tuple[int, int, int]]:
        made = self._draft(self.job, logs, group=group or {})
        plan = plan_incremental(made)
        self._land(made)
        return [(r.partition, r.start, r.end) for r in plan.ranges] if plan is not None else []

    def _draft(self, job: Any, logs: Logs, *, copy: bool = False, group: dict[int, int] | None = None) -> Draft:
        bounds = {TopicPartition("orders", number): LogBounds(*ends, ends[1]) for number, ends in logs.items()}
        topic = TopicMetadata("orders", UUID(int=1), False, {n: PartitionMetadata(n, 1, 0, (1,), (1,)) for n in logs})
        latest = job.source.starting_offsets == "latest"
        starts = {tp: log.high_watermark if latest else log.start for tp, log in bounds.items()}
        ends = {tp: log.high_watermark for tp, log in bounds.items()}
        snapshot = SourceSnapshot(
            "c", {"orders": topic}, bounds, starts, ends, copy=copy, complete=job.source.segments is None
        )
        committed = {tp: CommittedOffset((group or {}).get(tp.partition, -1), -1, "") for tp in bounds}
        view = None if group is None else GroupView("g", committed)
        return Draft.unwritten(PlanInputs(job, snapshot, {"/lake/orders": None}, view), self.state)

    def _land(self, made: Draft) -> None:
        runs = {run_id: replace(run, finished=True) for run_id, run in made.state.runs.items()}
        landed = dict(made.state.landed_offsets)
        for run in made.state.unfinished_runs():
            landed |= {tp: offsets.union(landed.get(tp, OffsetSet())) for tp, offsets in run.plan.offsets().items()}
        self.state = replace(made.state, runs=runs, landed_offsets=landed, leases={}, sequence=made.state.sequence + 1)


@pytest.mark.parametrize(
    ("start", "group", "ranges"),
    [
        ("earliest", {}, [(0, 10, 12), (1, 6, 10), (2, 0, 10)]),
        ("earliest", {2: 8}, [(0, 10, 12), (1, 6, 10), (2, 8, 10)]),
        ("latest", {}, [(0, 10, 12)]),
        ("latest", {2: 8}, [(0, 10, 12), (2, 8, 10)]),
    ],
)
def test_partitions_that_the_first_files_did_not_have_start_as_in_a_first_run(
    start: str, group: dict[int, int], ranges: list[tuple[int, int, int]]
) -> None:
    """They counted as added: with on_data_loss "fail", what retention had removed of them was lost."""
    job = Sources(start)
    job.files({0: (0, 10)})
    assert job.brokers({0: (0, 12), 1: (6, 10), 2: (0, 10)}, group) == ranges
    assert job.state.bases_of_files == {}


@pytest.mark.parametrize("start", ["earliest", "latest"])
@pytest.mark.parametrize("last", ["brokers", "files", "nothing at brokers", "nothing at brokers, then files"])
def test_an_added_partition_is_read_from_its_first_record_whatever_was_read_before(start: str, last: str) -> None:
    job = Sources(start)
    job.files({0: (0, 10)})
    first: Logs = {0: (0, 10), 1: (10, 10)}
    if last.startswith("nothing"):
        assert job.brokers(first) == []
    else:
        job.brokers({0: (0, 12), 1: (10, 10)})
    if last.endswith("files"):
        job.files({0: (10, 15)})
    assert (2, 0, 5) in job.brokers({0: (0, 15), 1: (10, 10), 2: (0, 5)})


def test_what_retention_removed_of_an_added_partition_is_lost_after_files_too() -> None:
    job = Sources()
    job.files({0: (0, 10)})
    job.brokers({0: (0, 12), 1: (10, 10)})
    job.files({0: (12, 15)})
    with pytest.raises(Refused, match=r"no longer has orders-2 \[0, 3\)") as refused:
        job.brokers({0: (0, 15), 1: (10, 10), 2: (3, 5)})
    assert refused.value.code == "data-lost"


def test_of_other_files_no_partition_counts_as_added() -> None:
    """The job file names another folder, which has another broker's partitions."""
    job = Sources(segments=Segments.named(["/one"]))
    job.brokers({0: (0, 10)})
    job.job = JOB.model_copy(
        update={"source": JOB.source.model_copy(update={"segments": Segments.named(["/one", "/other"])})}
    )
    assert job.brokers({0: (0, 12), 1: (6, 10)}) == [(0, 10, 12), (1, 6, 10)]
    assert (2, 0, 5) in job.brokers({0: (0, 12), 1: (6, 10), 2: (0, 5)})


@pytest.mark.parametrize(("start", "log_start", "noted"), [(5, 5, True), (7, 5, False), (0, 0, False)])
def test_a_start_at_a_time_that_retention_may_have_cut_is_told(start: int, log_start: int, noted: bool) -> None:
    begins = {"starting_offsets": AtTime(timestamp=datetime(2026, 1, 1, tzinfo=UTC))}
    found = draft(start=start)
    found.inputs = replace(
        found.inputs,
        job=JOB.model_copy(update={"source": JOB.source.model_copy(update=begins)}),
        snapshot=replace(found.inputs.snapshot, bounds={TP: LogBounds(log_start, 37, 37)}),
    )
    assert plan_incremental(found) is not None
    assert [note.split(":")[0] for note in found.notes] == ["possibly lost"] * noted
    assert all("2026-01-01T00:00:00Z" in note and "orders-0 5" in note for note in found.notes)


def test_a_topic_of_the_pattern_that_is_not_listed_any_more_is_told() -> None:
    before = draft()
    assert plan_incremental(before) is not None
    state = replace(FRESH, bases={TP: 0}, topics=before.state.topics | {"old-orders": ev.TopicIdentity()})

    def notes(**source: Any) -> list[str]:
        found = draft(state)
        found.inputs = replace(
            found.inputs, job=JOB.model_copy(update={"source": JOB.source.model_copy(update=source)})
        )
        assert plan_incremental(found) is not None
        return found.notes

    (note,) = notes(topics=None, pattern="orders")
    assert "does not list them any more: old-orders" in note
    assert notes(topics=None, pattern="^orders") == notes() == []


def test_a_pattern_that_selects_no_topic_is_told() -> None:
    """A misspelt one ended each run with nothing to do, and exit code 0."""
    found = draft()
    source = JOB.source.model_copy(update={"topics": None, "pattern": "^ordres"})
    nothing = SourceSnapshot("c", {}, {}, {}, {})
    job = JOB.model_copy(update={"source": source})
    found.inputs = replace(found.inputs, job=job, snapshot=nothing, group=GroupView("g", {}))
    assert plan_incremental(found) is None
    assert found.notes == ["source.pattern ^ordres selects no topic that the source lists"]


@pytest.mark.parametrize(
    ("start", "group", "noted"), [("committed", -1, True), ("committed", 5, False), ("earliest", -1, False)]
)
def test_a_group_without_offsets_that_the_job_is_to_start_at_is_noted(start: str, group: int, noted: bool) -> None:
    """A misspelt group read the whole topic without a word."""
    found = draft(group=group)
    source = JOB.source.model_copy(update={"starting_offsets": start})
    found.inputs = replace(found.inputs, job=JOB.model_copy(update={"source": source}))
    assert plan_incremental(found) is not None
    assert (
        found.notes
        == ["group g has no committed offset for 1 of 1 partitions, which start at the earliest: orders-0 at 0"] * noted
    )


def request_id(state: JobState, *, mode: str = "missing") -> str:
    return run_id_of(BackfillRequest.parse(["orders:0:10"], ["orders:0:20"], mode=mode, label="x"), state)


@pytest.mark.parametrize("mode", ["missing", "replace"])
def test_a_request_asked_again_is_another_run_only_where_its_offsets_were_reopened(mode: str) -> None:
    before = request_id(FRESH, mode=mode)
    run = _finished(draft(), before)
    asked = replace(FRESH, runs={before: run})
    assert request_id(asked, mode=mode) == before
    assert request_id(replace(asked, reopened={TP: (20,)}), mode=mode) == before
    reopened = replace(asked, reopened={TP: (15,)})
    after = request_id(reopened, mode=mode)
    assert after != before
    again = replace(run, plan=replace(run.plan, run_id=after, generations={TP: 1}))
    assert request_id(replace(reopened, runs={before: run, after: again}), mode=mode) == after
    unfinished = replace(asked, reopened={TP: (15,)}, runs={before: replace(run, finished=False)})
    assert request_id(unfinished, mode=mode) == before


def test_an_append_is_done_once_for_its_label() -> None:
    before = request_id(FRESH, mode="append")
    assert request_id(replace(FRESH, reopened={TP: (15,)}), mode="append") == before


def _finished(made: Draft, run_id: str) -> Any:
    made.check_and_pin(moves_offsets=False)
    made.stamp = lambda event: replace(event, chain=run_id, owner="me", attempt=1)
    made.add(ev.Leased(duration=60.0))
    made.plan(run_id, "backfill-missing", {TP: OffsetSet.single(10, 20)}, commit_offsets=False)
    return replace(made.state.runs[run_id], finished=True)
