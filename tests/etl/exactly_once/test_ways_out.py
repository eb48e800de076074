"""For every state that a ledger can be in there is a command that leads out of it: docs/reference/ledger.md lists them,
and here a ledger is brought into each state, and each command tried on it.

A state is a run's phase and the state of its chain's lease. After the command the run has ended as the table says, and
the next run of the job is `done`, with every record in its table once.
"""

from __future__ import annotations

import itertools
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from kseg.client.errors import KafkaError
from kseg.etl.errors import AnotherRunActive
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.lease import Lease, acquire
from kseg.etl.ledger.state import Phase
from skips import IN_FULL

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "ledger.md").read_text()
SECTION = PAGE.partition("## The way out of every state")[2].partition("\n## ")[0]
LEASES = re.findall(r"^\| `(released|expired|live)` \|", SECTION, re.MULTILINE)
STATES = re.findall(
    r"^\| `([a-z-]+)` \| (?:`(kseg [^`]+)`|none: [^|]+) \| (?:`([a-z-]+)`)? ?\|$", SECTION, re.MULTILINE
)
WAYS = [(phase, command, end) for phase, command, end in STATES if command]

DIES_AT = {
    "planned": "plan:after",
    "landing": "land:first:after",
    "account-failed": "land:first:before",
    "accounted": "account:after",
    "offsets-committed": "finish:before",
    "abandoning": "land:first:committed",
}


def test_the_table_has_every_phase_and_every_lease() -> None:
    assert {phase for phase, _, _ in STATES} == set(get_args(Phase))
    assert {phase for phase, _, _ in WAYS} == set(DIES_AT), "what has ended needs none"
    assert LEASES == ["released", "expired", "live"]


@pytest.fixture(scope="module")
def topic(records: Any) -> str:
    topic: str = records.topic(1)
    records.write(topic, 0, 6)
    return topic


def bring_to(job: Any, phase: str) -> str:
    """A run in this phase, whose lease was released; gives its id."""
    job.die(DIES_AT[phase])
    run_id: str = job.state.unfinished().run_id
    noted: dict[str, ev.Event] = {
        "account-failed": ev.AccountFailed(run_id=run_id, equation="offsets", reason="for the test"),
        "abandoning": ev.Abandoning(run_id=run_id, reason="for the test"),
    }
    if phase in noted:
        with acquire(job.ledger, job.document["name"]) as lease:
            lease.transition(lambda _: [noted[phase]])
    assert job.state.runs[run_id].phase == phase
    return run_id


def leave_lease(job: Any, how: str) -> Lease | None:
    """A lease in this state, of a holder that does nothing any more."""
    if how == "released":
        return None
    seconds = 0.05 if how == "expired" else 300
    lease = acquire(job.ledger, job.document["name"], duration=timedelta(seconds=seconds))
    lease._stop.set()
    if how == "expired":
        time.sleep(4 * seconds)
    left = job.state.lease()
    assert (left.released, left.live(datetime.now(UTC))) == (False, how == "live")
    return lease


def carry_out(job: Any, command: str, run_id: str, *, take_over: bool) -> None:
    match command.split():
        case ["kseg", "ingest", "JOB"]:
            job.ingest(take_over=take_over)
        case ["kseg", "repair", "JOB", "--finish", "RUN"]:
            job.finish(run_id, take_over=take_over)
        case ["kseg", "repair", "JOB", "--abandon", "RUN"]:
            job.abandon(run_id, take_over=take_over)
        case _:
            raise AssertionError(f"the table names {command}, which is not tried here")


def states(scale: Any) -> list[tuple[tuple[str, str, str], str]]:
    """Every second way out, under each lease in turn; in the full scale all of them, under all leases."""
    in_turn = list(zip(WAYS, itertools.cycle(LEASES)))
    return scale(in_turn[::2], list(itertools.product(WAYS, LEASES)))


def test_every_phase_and_every_command_is_tried_in_the_reduced_scale(scale: Any) -> None:
    tried = states(scale)
    assert {way[0] for way, _ in tried} == set(DIES_AT)
    assert {way[1] for way, _ in tried} == {way[1] for way in WAYS}
    assert {lease for _, lease in tried} == set(LEASES)


@pytest.mark.parametrize("lease", LEASES)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0]}: {way[1]}")
def test_the_command_leads_out(way, lease, topic, any_home, records, scale):
    if (way, lease) not in states(scale):
        pytest.skip(IN_FULL)
    phase, command, end = way
    job = any_home(topic)
    run_id = bring_to(job, phase)
    left = leave_lease(job, lease)
    if lease == "live":
        with pytest.raises(AnotherRunActive):
            carry_out(job, command, run_id, take_over=False)
    carry_out(job, command, run_id, take_over=lease == "live")
    assert job.state.runs[run_id].phase == end
    report = job.ingest()
    assert report.status in ("done", "nothing-to-do")
    job.assert_complete(runs=1)
    if left is not None:
        with pytest.raises(AnotherRunActive):
            left.transition(lambda _: [ev.Renewed()])


def test_an_accounted_run_ends_without_its_brokers_if_no_offsets_are_to_be_committed(any_home: Any, topic: str) -> None:
    """Its rows and their counts are durable, and the ledger alone decides where the next run starts."""
    job = any_home(topic)
    run_id = bring_to(job, "accounted")
    job.change(kafka={"bootstrap.servers": "127.0.0.1:1"}, run={"deadline": "1s"})
    with pytest.raises(KafkaError):
        job.ingest()
    job.change(group_commit="none")
    assert job.ingest().status == "done"
    assert job.state.runs[run_id].phase == "finished"
    assert len(job.rows()) == 6
