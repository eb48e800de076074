"""Plans for many partitions, with other unfinished runs: only planner and ledger rules, without a broker.

The state has a base and landed offsets in every partition, and other runs have reserved ranges. A plan is made as in a
run: events are folded into a draft, and the ledger folds them again before it writes them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median
from typing import Any, Final
from uuid import UUID

from kseg.client.cluster.metadata import PartitionMetadata, TopicMetadata
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.config.load import job_from_document
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.fold import Entry, fold
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.backfill import BackfillPlanner, run_id_of
from kseg.etl.planning.backfill_request import BackfillRequest, PartitionOffset
from kseg.etl.planning.plan import Draft, PlanInputs, plan_incremental
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.source.logs import Logs
from kseg.etl.source.resolve import LogBounds

TOPICS: Final = 4
RUNS: Final = 100
"""The number of other unfinished runs; together they have a range in each partition."""

_LANDED, _RESERVED_TO, _END = 1_000, 2_000, 5_000
_CLUSTER: Final = "bench"


def measure(partitions: int, rounds: int = 3, *, runs: int = RUNS) -> dict[str, Any]:
    """Seconds of an incremental plan, and of the plan of a backfill above the reserved offsets."""
    job = _job()
    tps = [TopicPartition(f"topic-{number % TOPICS}", number // TOPICS) for number in range(partitions)]
    snapshot = _snapshot(tps)
    state = _state(job, tps, snapshot, min(runs, partitions))
    inputs = PlanInputs(job, snapshot, {str(job.sink.target(topic)): None for topic in snapshot.topics}, None)
    request = BackfillRequest(
        tuple(PartitionOffset(*tp, _RESERVED_TO) for tp in sorted(tps)),
        tuple(PartitionOffset(*tp, _END) for tp in sorted(tps)),
    )
    backfill = BackfillPlanner(job, _no_logs(), request, run_id_of(request, state))

    def incremental() -> None:
        _write(state, ev.INCREMENTAL, inputs, plan_incremental)

    def of_offsets() -> None:
        _write(state, backfill.run_id, inputs, backfill.decide)

    return {
        "partitions": partitions,
        "reserved_ranges": sum(len(run.plan.ranges) for run in state.unfinished_runs()),
        "incremental_seconds": _seconds(incremental, rounds),
        "backfill_seconds": _seconds(of_offsets, rounds),
    }


def _seconds(plan: Callable[[], None], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        plan()
        taken.append(time.perf_counter() - began)
    return round(median(taken), 3)


def _write(state: JobState, chain: str, inputs: PlanInputs, planner: Callable[[Draft], ev.RunPlan | None]) -> None:
    """Make a plan, and check its events against the state to which they would be appended."""
    lease = ev.Leased(chain=chain, owner="bench", attempt=1, duration=60.0)
    state = _fold(state, lease)
    draft = Draft(inputs, state, lambda event: replace(event, chain=chain, owner="bench", attempt=1))
    plan = planner(draft)
    assert plan is not None
    _fold(state, *draft.events)


def _fold(state: JobState, *events: ev.Event) -> JobState:
    return fold(state, [Entry(event, datetime.now(UTC), state.sequence + 1) for event in events])


def _job() -> Job:
    return job_from_document(
        {
            "version": 1,
            "name": "planning",
            "kafka": {"bootstrap.servers": "localhost:1"},
            "source": {"topics": [f"topic-{number}" for number in range(TOPICS)]},
            "sink": {"path": "/lake/planning"},
            "ledger": "/lake/ledger",
        }
    )


def _snapshot(tps: list[TopicPartition]) -> SourceSnapshot:
    topics: dict[str, TopicMetadata] = {}
    for tp in tps:
        topic = topics.setdefault(tp.topic, TopicMetadata(tp.topic, UUID(int=7), False, {}))
        topic.partitions[tp.partition] = PartitionMetadata(tp.partition, 1, 0, (1,), (1,))
    bounds = {tp: LogBounds(0, _END, _END) for tp in tps}
    return SourceSnapshot(_CLUSTER, topics, bounds, dict.fromkeys(tps, 0), dict.fromkeys(tps, _END))


def _state(job: Job, tps: list[TopicPartition], snapshot: SourceSnapshot, runs: int) -> JobState:
    """A state with landed offsets in all partitions, and above them ranges reserved by this many runs."""
    state = JobState(
        job=job.name,
        ledger_id="bench",
        bases=dict.fromkeys(tps, 0),
        landed_offsets=dict.fromkeys(tps, OffsetSet.single(0, _LANDED)),
        topics={topic: snapshot.identity(topic) for topic in snapshot.topics},
    )
    table = str(job.sink.target(tps[0].topic))
    for number in range(runs):
        chain = f"{number:032x}"
        ranges = tuple(
            ev.PlannedRange(tp.topic, tp.partition, _LANDED, _RESERVED_TO, 0, table) for tp in tps[number::runs]
        )
        app_id, version = state.next_app_transaction(chain)
        plan = ev.RunPlan(
            run_id=chain,
            mode="backfill-missing",
            chain=chain,
            app_id=app_id,
            app_version=version,
            config_hash=job.config_hash,
            pinned_config="{}",
            cluster_id=_CLUSTER,
            topics={},
            ranges=ranges,
            tables={table: None},
        )
        lease = ev.Leased(chain=chain, owner="other", attempt=1, duration=60.0)
        state = _fold(state, lease, ev.Planned(chain=chain, run_id=chain, owner="other", attempt=1, plan=plan))
    return state


def _no_logs() -> Logs:
    return None  # type: ignore[return-value]  # a backfill of offsets does not use them
