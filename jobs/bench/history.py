"""Costs that grow with age: reading and writing the ledger of a job with many runs, and reading the state of a table
whose log has many versions. Each is measured in a separate process.

The ledger is like that of a job of 90 days: every run's events, most of them in compacted files, summaries, and a last
run in small files. Each version of the table's log is a small append of another application; there is one checkpoint.

    python -m kseg.jobs.bench.history ledger PATH        one such process
    python -m kseg.jobs.bench.history table PATH
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger import codec
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.fold import Entry, fold
from kseg.etl.ledger.maintenance import SUMMARISE_AFTER, count_files, summary_of
from kseg.etl.ledger.state import JobState, Summary
from kseg.etl.ledger.store import Ledger
from kseg.etl.ledger.values import GroupOffset, PlannedRange, RangeAccount, RangeCounts, RunPlan, TableCommit
from kseg.etl.tables.targets import table_at
from kseg.jobs.bench.memory import MIB, peak

JOB: Final = "orders"
PARTITIONS: Final = 4
ROWS_A_RUN: Final = 1000
COMPACTED: Final = 10_000
"""Transitions in one file of the ledger, as compaction leaves them."""

SUMMARIES: Final = 20
"""The number of summaries in the last day: retention deletes earlier ones."""

_TABLE: Final = "/lake/orders"


@dataclass(frozen=True, slots=True)
class HistoryEffort:
    """runs: of a ledger. versions: of a table's log."""

    runs: tuple[int, ...]
    versions: tuple[int, ...]


FULL: Final = HistoryEffort((100, 1_000, 10_000, 100_000), (10, 100, 1_000, 10_000))
QUICK: Final = HistoryEffort((20, 200), (10, 100))


def measure(folder: Path, effort: HistoryEffort) -> dict[str, list[dict[str, Any]]]:
    """Seconds of each operation, and peak memory of the process that measured it."""
    ledgers, logs = [], []
    for runs in effort.runs:
        place = folder / f"ledger-{runs}"
        make_ledger(place, runs)
        ledgers.append({"runs": runs, **_in_a_process("ledger", place)})
    for versions in effort.versions:
        place = folder / f"log-{versions}"
        make_table(place, versions)
        logs.append({"versions": versions, **_in_a_process("table", place)})
    return {"ledgers": ledgers, "table_logs": logs}


def _in_a_process(what: str, place: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "kseg.jobs.bench.history", what, str(place)]
    completed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=600)
    found: dict[str, Any] = json.loads(completed.stdout)
    return found


# --- a ledger


def make_ledger(place: Path, runs: int) -> None:
    """A ledger with this many runs of a job; all but the last run are in few files."""
    ledger = Ledger.open(place)
    state = JobState(job=JOB, ledger_id=ledger.id)
    rows: list[codec.Row] = []
    summed, last_summed = 0, (7 * (runs - 1)) // SUMMARISE_AFTER
    at = datetime.now(UTC) - timedelta(minutes=runs)
    for number in range(1, runs):
        for event in _events_of_run(state, number):
            made = codec.transition_rows([event], at, state.sequence + 1, f"{state.sequence + 1:016x}")
            state = fold(state, [made[0].entry])
            rows += made
        at += timedelta(minutes=1)
        if state.sequence - summed > SUMMARISE_AFTER or number == runs - 1:
            summed = state.sequence
            state = summary_of(state)
            keep = summed // SUMMARISE_AFTER > last_summed - SUMMARIES
            if keep or len(rows) >= COMPACTED:
                _append(ledger, state, rows)
                rows = []
            if keep:
                _append_summary(ledger, state)
    _append(ledger, state, rows)
    for event in _events_of_run(state, runs):
        ledger.transition(JOB, lambda _, event=event: [event])  # type: ignore[misc]


def _append(ledger: Ledger, state: JobState, rows: Sequence[codec.Row]) -> None:
    if rows:
        properties = ledger.commit_properties(JOB, state.sequence, [], name=secrets.token_hex(8))
        write_deltalake(ledger.table(), codec.encode(JOB, rows), mode="append", commit_properties=properties)


def _append_summary(ledger: Ledger, state: JobState) -> None:
    assert state.updated_at is not None
    entry = Entry(Summary(state=state), state.updated_at, state.sequence)
    row = codec.Row(entry, 0, 1, f"summary-{state.sequence}")
    properties = ledger.commit_properties(
        JOB, state.sequence, [Summary.KIND], name=secrets.token_hex(8), summed=state.sequence
    )
    write_deltalake(ledger.table(), codec.encode(JOB, [row]), mode="append", commit_properties=properties)


def _events_of_run(state: JobState, number: int) -> Iterator[ev.Event]:
    """An incremental run from lease to release; each event is a transition."""
    app_id, version = state.next_app_transaction(ev.INCREMENTAL)
    signed: dict[str, Any] = {
        "chain": ev.INCREMENTAL,
        "owner": "host:1:bench",
        "attempt": state.next_attempt(ev.INCREMENTAL),
    }
    run: dict[str, Any] = {**signed, "run_id": f"run-{number:032x}"}
    first, end = (number - 1) * ROWS_A_RUN, number * ROWS_A_RUN
    tps = [TopicPartition(JOB, partition) for partition in range(PARTITIONS)]
    yield ev.Leased(**signed, duration=60.0)
    yield ev.Planned(
        **run,
        plan=RunPlan(
            run_id=run["run_id"],
            mode="incremental",
            chain=ev.INCREMENTAL,
            app_id=app_id,
            app_version=version,
            config_hash="bench",
            pinned_config="{}",
            cluster_id="bench",
            topics={},
            ranges=tuple(PlannedRange(*tp, first, end, 0, _TABLE) for tp in tps),
            tables={_TABLE: _state(number - 1)},
            group=JOB,
        ),
    )
    rows = ROWS_A_RUN * PARTITIONS
    yield ev.Landed(**run, table=_TABLE, commit=TableCommit(number, rows, _state(number)))
    counts = RangeCounts(data=ROWS_A_RUN)
    accounts = tuple(RangeAccount(*tp, first, end, counts) for tp in tps)
    yield ev.Accounted(**run, ranges=accounts, rows_in=rows, rows_out=rows)
    yield ev.OffsetsCommitted(**run, group=JOB, how="transactional", offsets=dict.fromkeys(tps, GroupOffset(end)))
    yield ev.Finished(**run, seconds={"land": 1.0})
    yield ev.Released(**signed)


def _state(version: int) -> ev.TableState:
    return ev.TableState("bench", version, version * ROWS_A_RUN * PARTITIONS)


def _look_at_ledger(place: str) -> dict[str, Any]:
    signed: dict[str, Any] = {"chain": "look", "owner": "host:2:bench", "attempt": 1}

    def first() -> JobState:
        return Ledger.open(place, create=False).read(JOB)

    before = peak()
    ledger = Ledger.open(place, create=False)
    transitions = ledger.read(JOB).sequence
    after = peak()
    files, size = count_files(ledger)
    return {
        "transitions": transitions,
        "files": files,
        "mib": round(size / MIB, 1),
        "read_seconds": _seconds(first),
        "read_again_seconds": _seconds(lambda: ledger.read(JOB)),
        "write_seconds": _once(lambda: ledger.transition(JOB, lambda _: [ev.Leased(**signed, duration=60.0)])),
        "errors_seconds": _once(lambda: ledger.events(JOB, [ev.RunRefused])),
        "peak_mib": round((after - before) / MIB, 1),
    }


# --- a table


def make_table(place: Path, versions: int) -> None:
    """A table of this many appends of one row, with a checkpoint at its middle version."""
    rows = pa.table({"n": [1]})
    write_deltalake(place, rows)
    write_deltalake(place, rows, mode="append")
    log = place / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{1:020}.json").read_text().splitlines()]
    [added] = [action["add"] for action in actions if "add" in action]
    for version in range(2, versions):
        file = place / f"part-{version:05}.parquet"
        file.hardlink_to(place / added["path"])
        lines = [*(action for action in actions if "add" not in action), {"add": {**added, "path": file.name}}]
        (log / f"{version:020}.json").write_text("\n".join(json.dumps(line) for line in lines))
        if version == versions // 2:
            DeltaTable(place).create_checkpoint()


def _look_at_table(place: str) -> dict[str, Any]:
    access = table_at(place)
    first = ev.TableState(str(DeltaTable(place).metadata().id), 0, 1)
    before = peak()
    now = access.describe([JOB]).state
    assert now is not None
    return {
        "describe_seconds": _seconds(lambda: access.describe([JOB])),
        "transactions_seconds": _seconds(lambda: access.transactions(JOB, now)),
        "changes_since_the_first_seconds": _once(lambda: access.incidents_since(first, now)),
        "peak_mib": round((peak() - before) / MIB, 1),
    }


# --- a process


def _seconds(work: Callable[[], Any]) -> float:
    """The median of three."""
    return sorted(_once(work) for _ in range(3))[1]


def _once(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return round(time.perf_counter() - began, 3)


if __name__ == "__main__":
    print(json.dumps({"ledger": _look_at_ledger, "table": _look_at_table}[sys.argv[1]](sys.argv[2])))
