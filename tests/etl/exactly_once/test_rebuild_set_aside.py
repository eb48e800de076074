"""A rebuilt ledger knows what was set aside: dead letters and damaged bytes do not land a second time, in no state in
which a run may have died, and no record beside them is left out."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kseg.etl.operations.rebuild_ledger import rebuild_ledger
from kseg.etl.operations.status import status
from kseg.etl.operations.verify import VerifyReport, verify
from skips import IN_FULL

BAD = b"bad"
ROUTED = {
    "path": None,
    "route_by": "value.kind",
    "routes": {"order": {"path": "./lake/first"}, "payment": {"path": "./lake/rest"}},
}


@pytest.fixture
def job(records: Any, any_home: Any) -> Any:
    """job(routed, **changes): a job over a topic of its own, of two partitions."""

    def make(*, routed: bool = False, **changes: Any) -> Any:
        columns = {"kind": "string", "id": "bigint"}
        decode = {"value": {"format": "json", "schema": {"columns": columns}}, "on_error": "dead_letter"}
        sink = {**(ROUTED if routed else {}), "dead_letters": {"path": "./lake/dead", "max": "100%"}}
        return any_home(str(records.topic(2)), decode=decode, sink=sink, **changes)

    return make


@pytest.fixture
def good() -> Any:
    """good(kind): a value that decodes, another one each time."""
    numbers = itertools.count()
    return lambda kind="order": json.dumps({"kind": kind, "id": next(numbers)}).encode()


def write(job: Any, *values: bytes, partition: int = 0) -> None:
    producer = Producer(job.records.settings)
    for value in values:
        producer.produce(job.topics[0], value, partition=partition)
    assert producer.flush(60) == 0


def lose_ledger(job: Any) -> None:
    shutil.rmtree(job.folder / "ledger")


def clean_histories(job: Any) -> None:
    """Only the newest commit of each table is left."""
    for name in job.tables:
        table = job.table(name)
        table.create_checkpoint()
        for version in range(table.version()):
            (job.folder / "lake" / name / "_delta_log" / f"{version:020d}.json").unlink(missing_ok=True)


def landed(job: Any) -> Iterator[tuple[int, int, bool]]:
    """Partition, offset, and whether it is a dead letter, of all rows and dead letters."""
    for name in job.tables:
        prefix = "" if name == "dead" else "_kseg_"
        for row in job.table(name).to_pyarrow_table().to_pylist():
            yield row[f"{prefix}partition"], row[f"{prefix}offset"], name == "dead"


def assert_once(job: Any, *, bad: set[tuple[int, int]]) -> None:
    """Each record is a row or a dead letter, once."""
    ends = job.records.ends(*job.topics)
    due = [(partition, offset) for (_, partition), end in ends.items() for offset in range(end)]
    assert sorted(landed(job)) == sorted((*place, place in bad) for place in due)
    assert job.frontiers() == ends


def assert_compared(job: Any, checked: VerifyReport) -> None:
    """All rows agree. Offsets that may have no row, and have none, are not counted as rows. To which table the runs of
    a lost ledger routed an offset is not known: their rows are not compared, and this is reported."""
    assert checked.ok
    routed, known = job.job.sink.routed, job.state.runs
    for table in checked.tables:
        runs = job.table(Path(table.path).name).to_pyarrow_table()["_kseg_run"].to_pylist()
        assert table.rows == sum(run in known or not routed for run in runs)
        assert (table.unknown > 0) == routed


STEPS = (
    "land:dead:committed",
    "land:dead:after",
    "land:first:before",
    "land:first:committed",
    "land:first:after",
    "account:after",
    None,
)
CASES = [*itertools.product(STEPS, (False, True), (False, True), (False, True))]
REDUCED = [
    ("land:dead:committed", False, True, False),
    ("land:dead:committed", False, False, True),
    ("land:first:committed", True, True, False),
    ("land:first:before", True, False, True),
    (None, False, True, False),
    (None, True, False, False),
]


@pytest.mark.parametrize(("step", "routed", "history", "commits"), CASES)
def test_records_and_dead_letters_land_once(
    step: str | None, routed: bool, history: bool, commits: bool, job: Any, good: Any, scale: Any
) -> None:
    """A run of both, a run of dead letters alone, and one that dies at a step."""
    if (step, routed, history, commits) not in scale(REDUCED, CASES):
        pytest.skip(IN_FULL)
    made = job(routed=routed, **({} if commits else {"group_commit": "none"}))
    write(made, good(), BAD, good("payment"))
    made.ingest()
    write(made, BAD, BAD)
    write(made, BAD, partition=1)
    made.ingest()
    write(made, good(), BAD, good())
    write(made, BAD, good("payment"), BAD, partition=1)
    if step is None:
        made.ingest()
    else:
        made.die(step)
    lose_ledger(made)
    if not history:
        clean_histories(made)
    report = rebuild_ledger(made.job)
    assert report.set_aside == len([place for place in landed(made) if place[2]])
    made.ingest()
    bad = {(0, 1), (0, 3), (0, 4), (0, 6), (1, 0), (1, 1), (1, 3)}
    assert_once(made, bad=bad)
    assert made.ingest().status == "nothing-to-do"
    write(made, BAD, good())
    made.ingest()
    assert_once(made, bad={*bad, (0, 8)})
    assert_compared(made, verify(made.job))


@pytest.mark.parametrize("history", [True, False])
@pytest.mark.parametrize("routed", [False, True])
def test_a_first_run_that_died_behind_its_dead_letters_leaves_no_record_out(
    routed: bool, history: bool, job: Any, good: Any
) -> None:
    made = job(routed=routed, source={"starting_offsets": "earliest"})
    write(made, good(), good(), BAD, good("payment"))
    write(made, good(), partition=1)
    made.die("land:dead:committed")
    lose_ledger(made)
    if not history:
        clean_histories(made)
    rebuild_ledger(made.job)
    made.ingest()
    assert_once(made, bad={(0, 2)})


def test_a_run_whose_records_all_went_to_the_side_table_has_landed(job: Any) -> None:
    made = job(group_commit="none")
    write(made, BAD, BAD)
    made.ingest()
    lose_ledger(made)
    report = rebuild_ledger(made.job, dry_run=True)
    assert [(one.partition, one.base, one.frontier, one.landed) for one in report.partitions] == [(0, 0, 2, 2)]
    rebuild_ledger(made.job)
    assert made.ingest().status == "nothing-to-do"
    assert_once(made, bad={(0, 0), (0, 1)})


def test_rows_that_were_redriven_and_dead_letters_of_other_jobs_count_as_before(
    job: Any, any_home: Any, good: Any
) -> None:
    made = job().change(decode={"expect": {"id": "< 100"}})
    write(made, good(), b'{"kind": "order", "id": 500}', BAD)
    made.ingest()
    shared = {"dead_letters": {"path": str(made.folder / "lake" / "dead"), "max": "100%"}}
    other = any_home(*made.topics, decode=dict(made.document["decode"]), sink=shared)
    write(made, good(), BAD)
    other.ingest()
    made.change(decode={"expect": {"id": "< 1000"}}).redrive()
    lose_ledger(made)
    assert rebuild_ledger(made.job).set_aside == 2
    made.ingest()
    rows = made.table("first").to_pyarrow_table()["_kseg_offset"].to_pylist()
    letters = made.table("dead").to_pyarrow_table()["offset"].to_pylist()
    assert (sorted(rows), sorted(letters)) == ([0, 1, 3], [1, 1, 2, 2, 4, 4]), "its own, and the other job's"


@pytest.mark.parametrize("routed", [False, True])
def test_dead_letters_of_a_lost_ledger_land_once_by_the_command_that_a_redrive_names(
    routed: bool, job: Any, good: Any
) -> None:
    """With the lost ledger one was redriven and two were not. It said no more than that they are unknown."""
    made = job(routed=routed).change(decode={"expect": {"id": "< 100"}})
    write(made, good(), *(b'{"kind": "payment", "id": %d}' % number for number in (500, 900)), good())
    write(made, b'{"kind": "order", "id": 901}', partition=1)
    made.ingest()
    made.change(decode={"expect": {"id": "< 600"}}).redrive()
    lose_ledger(made)
    rebuild_ledger(made.job)
    made.change(decode={"expect": {"id": "< 1000"}})
    report = made.redrive()
    assert (report.status, report.notes[0]) == ("nothing-to-do", "none of these dead letters is open: 3 unknown")
    with_row = {place[:2] for place in landed(made) if not place[2]}
    mode, *bounds = re.findall(r"--mode (\S+)|--from (\S+) --to ([^\s`.,;]+)", report.notes[1])
    assert mode[0] == ("append" if routed else "replace")
    for _, first, last in bounds:
        (_, partition, start), (*_, end) = first.split(":"), last.split(":")
        for offset in range(int(start), int(end)):
            if not routed or (int(partition), offset) not in with_row:  # of which the note warns
                start_at, end_at = (f"{made.topics[0]}:{partition}:{at}" for at in (offset, offset + 1))
                made.backfill(mode=mode[0], label="again" if routed else None, from_=[start_at], to=[end_at])
    assert sorted(place[:2] for place in landed(made) if not place[2]) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    assert status(made.job).dead_letters == ({"appended": 2, "unknown": 1} if routed else {"replaced": 3})
    assert made.redrive().status == made.ingest().status == "nothing-to-do"
    checked = verify(made.job)
    assert checked.ok, checked.findings


@pytest.mark.parametrize("step", ["land:damaged:committed", "land:first:committed", None])
@pytest.mark.parametrize("history", [True, False])
def test_damaged_bytes_are_quarantined_once(step: str | None, history: bool, records: Any, any_home: Any) -> None:
    topic = str(records.topic(1))
    made = any_home(topic, source={"on_corruption": "quarantine"}, sink={"quarantine": {"path": "./lake/damaged"}})
    for number in range(6):
        records.write(topic, 0, 1)
        if number == 1:
            made.ingest()
    folder = Path(records.kafka.log_dirs[0]) / f"{topic}-0"
    (segment,) = folder.glob("*.log")
    data = bytearray(segment.read_bytes())
    damaged = [row for row in records.rows(topic) if row[2] in (3, 4)]
    for row in damaged:
        data[data.index(row[4])] ^= 0x5A
    segment.write_bytes(data)
    if step is None:
        made.ingest()
    else:
        made.die(step)
    lose_ledger(made)
    if not history:
        clean_histories(made)
    rebuild_ledger(made.job)
    made.ingest()
    assert made.rows("first") == [row for row in records.rows(topic) if row not in damaged]
    kept = made.table("damaged").to_pyarrow_table().to_pylist()
    assert sorted(n for row in kept for n in range(row["first_offset"], row["last_offset"])) == [3, 4]
    assert made.frontiers() == records.ends(topic)
