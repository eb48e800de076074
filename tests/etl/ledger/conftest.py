"""A ledger in a fresh directory, and short words for the events of a run."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.bases import BasePinned
from kseg.etl.ledger.fold import Entry, fold
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.store import Ledger

TP = TopicPartition("orders", 0)
WORKER = Path(__file__).with_name("worker.py")


class Words:
    """Builds events as a run would, for a topic `orders` and a table `t`."""

    tp = TP

    def lease(self, chain=ev.INCREMENTAL, owner="me", attempt=1, duration=60.0):
        return ev.Leased(chain=chain, owner=owner, attempt=attempt, duration=duration)

    def plan(self, state, run_id, *ranges, mode="incremental", chain=None, owner="me", attempt=1, **changes):
        """ranges: (start, end) of partition 0, or (partition, start, end)."""
        chain = chain or (ev.INCREMENTAL if mode == "incremental" else run_id)
        app_id, app_version = state.next_app_transaction(chain)
        planned = tuple(ev.PlannedRange("orders", *((0, *r) if len(r) == 2 else r), table="t") for r in ranges)
        fields = {
            "run_id": run_id,
            "mode": mode,
            "chain": chain,
            "app_id": app_id,
            "app_version": app_version,
            "config_hash": "hash",
            "pinned_config": "{}",
            "cluster_id": "cluster",
            "topics": {"orders": ev.TopicIdentity(cluster_id="cluster")},
            "ranges": planned,
            "tables": {"t": None},
        }
        return ev.Planned(
            chain=chain, run_id=run_id, owner=owner, attempt=attempt, plan=ev.RunPlan(**(fields | changes))
        )

    def step(self, kind, run_id, chain=ev.INCREMENTAL, owner="me", attempt=1, **fields):
        return kind(chain=chain, run_id=run_id, owner=owner, attempt=attempt, **fields)

    def landed(self, run_id, rows=10, table="t", version=1, **where):
        after = ev.TableState("table-id", version, rows)
        commit = ev.TableCommit(version=version, rows=rows, after=after)
        return self.step(ev.Landed, run_id, table=table, commit=commit, **where)

    def accounted(self, plan, rows=None, **where):
        ranges = tuple(
            ev.RangeAccount(r.topic, r.partition, r.start, r.end, ev.RangeCounts(data=r.length)) for r in plan.ranges
        )
        rows = sum(r.length for r in plan.ranges) if rows is None else rows
        return self.step(
            ev.Accounted, plan.run_id, chain=plan.chain, ranges=ranges, rows_in=rows, rows_out=rows, **where
        )

    def whole_run(self, state, run_id, *ranges, mode="incremental", **where):
        """All events of a run that goes through."""
        planned = self.plan(state, run_id, *ranges, mode=mode, **where)
        where["chain"] = planned.chain
        offset = ev.GroupOffset(max((r.end for r in planned.plan.ranges), default=0), "ours")
        committed = self.step(
            ev.OffsetsCommitted, run_id, group="g", how="transactional", offsets={TP: offset}, **where
        )
        account = {key: value for key, value in where.items() if key != "chain"}
        return [
            planned,
            self.landed(run_id, **where),
            self.accounted(planned.plan, **account),
            committed,
            self.step(ev.Finished, run_id, **where),
        ]


class Folding:
    """A state that events are added to one transition at a time, a minute apart."""

    def __init__(self):
        self.entries: list[Entry] = []
        self.initial = JobState(job="orders", ledger_id="L")
        self.state = self.initial
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def add(self, *events):
        self.now += timedelta(minutes=1)
        entries = [Entry(event, self.now, self.state.sequence + 1) for event in events]
        self.state = fold(self.state, entries)
        self.entries += entries
        return self.state


@pytest.fixture
def words():
    return Words()


@pytest.fixture
def folding():
    """A job whose incremental chain is leased by `me` and starts at offset 0."""
    made = Folding()
    made.add(
        ev.Leased(owner="me", attempt=1, duration=60.0),
        BasePinned(owner="me", attempt=1, bases={TP: 0}, reason="earliest"),
    )
    return made


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "ledger")


@pytest.fixture
def worker():
    """Start `worker.py` as a process: `worker("hold", path, …)`; what still runs in the end is killed."""
    running = []

    def start(*args):
        process = subprocess.Popen(
            [sys.executable, str(WORKER), *map(str, args)], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
