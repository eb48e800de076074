"""What the ledger tells of drivers whose own words cannot be read: which run was theirs, and whose lease they met."""

from __future__ import annotations

from typing import Any

import pytest

from kseg_airflow import ledger
from kseg_airflow.compat import AirflowException
from kseg_airflow.drivers.livy import LivyDriver
from kseg_airflow.outcomes import Outcome

REPORT = {"run": "r3", "status": "done"}
RUNS = [
    {"run_id": "r4", "ended_at": "2026-01-04", "owner": "another"},
    {"run_id": "r3", "ended_at": "2026-01-03", "owner": "ours"},
    {"run_id": "r2", "ended_at": None, "owner": "ours"},
    {"run_id": "r1", "ended_at": "2026-01-01", "owner": "ours"},
]
LEASES = [{"owner": "lives", "until": "2026-01-04"}, {"owner": "dead", "until": "2026-01-05"}]


class Driver(LivyDriver):
    def is_owner(self, owner: str) -> bool:
        return owner == "ours"


DRIVER = Driver(7, "livy", "orders-try-1-ab", "ab")


def completed(outcome: Outcome, *, runs: list[dict[str, Any]] = RUNS, leases: list[dict[str, Any]] = LEASES) -> Outcome:
    def status(*words: str) -> Outcome:
        return Outcome(0, REPORT if words == ("--run", "r3") else {"runs": runs, "leases": leases})

    return ledger.completed(outcome, DRIVER, status, lambda owner: owner == "dead")


def test_its_report_is_that_of_the_last_run_that_it_has_ended() -> None:
    assert completed(Outcome(0)) == Outcome(0, REPORT)
    assert completed(Outcome(0), runs=RUNS[:1]) == Outcome(0)


def test_a_status_that_needs_a_person_is_read_all_the_same() -> None:
    def status(*words: str) -> Outcome:
        return (
            Outcome(0, REPORT)
            if words == ("--run", "r3")
            else Outcome(3, {"runs": RUNS, "leases": [], "problems": [{}]})
        )

    assert ledger.completed(Outcome(0), DRIVER, status, lambda _: False) == Outcome(0, REPORT)
    refused = Outcome(3, {"error": {"message": "the ledger is damaged"}, "exit_code": 3})
    with pytest.raises(AirflowException, match="the ledger is damaged"):
        ledger.completed(Outcome(0), DRIVER, lambda *_: refused, lambda _: False)


def test_of_the_leases_that_it_met_that_of_a_dead_driver_comes_first() -> None:
    def address(outcome: Outcome) -> Any:
        return outcome.error["address"]

    assert address(completed(Outcome(5))) == {"owner": "dead", "until": "2026-01-05"}
    assert address(completed(Outcome(5), leases=LEASES[:1])) == {"owner": "lives", "until": "2026-01-04"}
    assert address(completed(Outcome(5), leases=[]))["owner"] == ""


def test_other_ends_are_what_they_are() -> None:
    for code in (None, 1, 2, 3, 4):
        assert completed(Outcome(code)) == Outcome(code)


def test_a_ledger_that_does_not_answer_is_a_failure_that_another_try_mends() -> None:
    away = Outcome(4, {"error": {"message": "the broker is away"}, "exit_code": 4})
    with pytest.raises(AirflowException, match="the broker is away"):
        ledger.completed(Outcome(0), DRIVER, lambda *_: away, lambda _: False)


def test_what_earlier_tries_have_landed_is_known_by_the_mark_of_their_drivers() -> None:
    """Their run folders may lie on another worker: the retry was green without an event."""
    runs = [
        {"run_id": "r5", "ended_at": "2026-01-05", "owner": "host-a:7:ab12-0f"},
        {"run_id": "r4", "ended_at": "2026-01-04", "owner": "host-b:7:ab12-1f"},
        {"run_id": "r3", "ended_at": None, "owner": "host-b:7:ab12-2f"},
        {"run_id": "r2", "ended_at": "2026-01-02", "owner": "host-b:7:ab123-3f"},
        {"run_id": "r1", "ended_at": "2026-01-01", "owner": "container_1_1_1_1:7:ab12-4f"},
    ]

    def status(*words: str) -> Outcome:
        return Outcome(0, {"run": words[1]} if words[0] == "--run" else {"runs": runs})

    landed = {"run": "r5", "status": "done", "tables": [{"path": "/lake/orders", "version": 1, "rows": 1}]}
    assert ledger.landed_before("ab12", landed, status) == [{"run": "r1"}, {"run": "r4"}]
    # An interval that is landed already is reported by the id of the run that has landed it.
    nothing = {"run": "r5", "status": "nothing-to-do", "tables": landed["tables"]}
    assert ledger.landed_before("ab12", nothing, status) == [{"run": "r1"}, {"run": "r4"}, {"run": "r5"}]
    drained = landed | {"runs": [{"run": "r4"}, {"run": "r5"}]}
    assert ledger.landed_before("ab12", drained, status) == [{"run": "r1"}], "a drain reports all of its runs itself"
    assert ledger.landed_before("cd", {}, status) == []
