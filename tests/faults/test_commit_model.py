"""Every state that two runs, a backfill and an abandonment can reach between them, whatever crashes, whoever sleeps,
and whether or not the job file has changed between two runs: no gap, no row twice, no offset ahead of its rows, no row
removed that was not there when somebody, or the job, decided to abandon its run; and from each of them commands lead to
the end.

`make test-full` walks through three processes at a time.
"""

from __future__ import annotations

from typing import Any

import pytest

from commit_model import processes
from commit_model.explore import Limits, walk
from kseg.etl.ledger import run_ids
from skips import IN_FULL

TWO = [("ingest", "ingest"), ("ingest", "abandon"), ("ingest", "changed")]
MORE = [
    ("ingest", "changed", "ingest"),
    ("ingest", "changed", "abandon"),
    ("ingest", "backfill"),
    ("ingest", "ingest", "abandon"),
    ("ingest", "abandon", "ingest"),
    ("ingest", "backfill", "abandon"),
]


@pytest.fixture(autouse=True)
def _same_run_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their random part would make all states different. Nothing depends on it where no ledger is put back."""
    monkeypatch.setattr(run_ids.secrets, "token_hex", lambda count: "0" * 2 * count)


@pytest.mark.parametrize("starts", TWO, ids="-".join)
def test_every_state_is_sound(starts: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    _walk(starts, capsys)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("starts", MORE, ids="-".join)
def test_every_state_of_more_processes_is_sound(
    starts: tuple[str, ...], scale: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    if not scale(False, True):
        pytest.skip(IN_FULL)
    _walk(starts, capsys)


def _walk(starts: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    walked = walk(Limits(starts, crashes=1))
    with capsys.disabled():
        print(f"\n{', '.join(starts)}: {walked}")
    assert walked.wrong == []
    assert walked.ends > 100


def _land_without_app_transaction(world: Any, process: Any) -> Any:
    run = world.ledger.runs[process.run_id]
    if run.accounted is None and process.table < len(run.plan.tables):
        path = sorted(run.plan.tables)[process.table]
        table = world.table(path)
        free = tuple((app, version) for app, version in table.transactions if app != run.plan.app_id)
        rows = frozenset((tp, offset, f"{run_id}'") for tp, offset, run_id in table.rows)
        world = world.with_table(path, processes.replace(table, transactions=free, rows=rows))
    return processes._land(world, process)


def _end_without_fence(world: Any, process: Any) -> Any:
    return processes._end(world, processes.replace(process, epoch=world.producer))


def _fence_no_table(world: Any, process: Any) -> Any:
    run = world.ledger.unfinished(process.chain)
    return world, processes.replace(process, at="begin abandoning" if run is None or run.abandoning else "decide")


def _land_behind_a_fence(world: Any, process: Any) -> Any:
    """By the clocks of the process, as where it does not read its lease in the ledger."""
    attempt = world.ledger.lease(process.chain).attempt
    after, now = processes._land(world, processes.replace(process, attempt=attempt))
    return after, now and processes.replace(now, attempt=process.attempt)


@pytest.mark.parametrize(
    ("name", "broken", "starts", "wrong", "last"),
    [
        ("land", _land_without_app_transaction, ("ingest", "ingest"), "has rows of", ("land", "lands")),
        ("end", _end_without_fence, ("ingest", "abandon", "ingest"), "the group is at", ("end", "ends")),
        ("fence tables", _fence_no_table, ("ingest", "changed"), "nobody was asked", ("remove",)),
        ("land", _land_behind_a_fence, ("ingest", "abandon"), "nobody was asked", ("remove",)),
    ],
)
def test_a_protocol_that_lacks_a_part_is_found_out(
    name: str,
    broken: Any,
    starts: tuple[str, ...],
    wrong: str,
    last: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(processes._STEPS, name, broken)
    walked = walk(Limits(starts, crashes=1))
    assert walked.wrong
    assert wrong in walked.wrong[0][0]
    assert walked.wrong[0][1][-1].endswith(last)
