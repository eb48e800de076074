"""Which ledger and job made a run follows from its id."""

from __future__ import annotations

import pytest

from kseg.etl.ledger.run_ids import incremental_run_id, mark_of, parse_run_id, request_run_id
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.values import app_owners
from kseg.etl.planning.backfill import run_id_of
from kseg.etl.planning.backfill_request import BackfillRequest
from kseg.etl.tables.file_names import FileOwner, file_name, owner_of_file

REQUEST = BackfillRequest.parse(from_=["orders:0:1"], to=["orders:0:2"])


def test_ids_name_their_ledger_and_job() -> None:
    of_chain, of_request = incremental_run_id("l", "j", 17), request_run_id("l", "j", REQUEST.digest("j"))
    assert parse_run_id(of_chain) == (mark_of("l", "j"), 17)
    assert parse_run_id(of_request) == (mark_of("l", "j"), None)
    assert len({mark_of("l", "j"), mark_of("l", "k"), mark_of("m", "j"), mark_of("l/", "j")}) == 4
    assert incremental_run_id("l", "j", 17) != of_chain, "a ledger that was put back plans the number again"


@pytest.mark.parametrize("run_id", ["0" * 32, "recover", "", "0123456789-1-2", "0123456789-x", "dry-run"])
def test_other_ids_name_none(run_id: str) -> None:
    assert parse_run_id(run_id) is None


@pytest.mark.parametrize(
    "run_id",
    [incremental_run_id("l", "j", 2**31), request_run_id("l", "j", "0" * 32)],
    ids=["incremental", "request"],  # a random part in a name would make another test of it in each process
)
def test_ids_fit_file_names_and_statistics(run_id: str) -> None:
    owner = FileOwner(run_id, 17)
    assert owner_of_file(file_name(owner, 1, 2, 3)) == owner
    assert len(run_id) < 32, "Delta's statistics cut longer strings"


def test_the_same_request_is_another_run_in_another_ledger() -> None:
    state = JobState(job="j", ledger_id="l")
    assert run_id_of(REQUEST, state) == run_id_of(REQUEST, state)
    assert run_id_of(REQUEST, state) != run_id_of(REQUEST, JobState(job="j", ledger_id="m"))


def test_app_ids_of_another_form_have_no_owner() -> None:
    ids = ["kseg/l/j", "kseg/l/j/run", "kseg/m/j", "kseg/x", "kseg", "", "other/l/j"]
    assert app_owners(ids) == [("l", "j"), ("m", "j")]
