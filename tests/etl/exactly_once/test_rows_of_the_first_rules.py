"""Ledgers, tables and unfinished runs from before rules of decoding had versions go on by the first ones.

The folder is unpacked at the path where it was made: data/decoding_rules_1/README.md.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from kseg.etl.config.load import load_job
from kseg.etl.decoding.rules import FIRST, NEWEST, PROPERTY
from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.store import Ledger
from kseg.etl.operations.backfill import run_backfill
from kseg.etl.operations.rebuild_ledger import rebuild_ledger
from kseg.etl.operations.redrive import run_redrive
from kseg.etl.operations.repair import finish
from kseg.etl.operations.verify import verify
from kseg.etl.planning.backfill_request import BackfillRequest
from kseg.etl.run.dry_run import plan_only
from kseg.etl.run.pipeline import run_ingest

FILES = Path(__file__).parent / "data" / "decoding_rules_1" / "files.tar.xz"
HOME = Path("/tmp/kseg-decoding-rules-1")
WRONG = range(0, 12, 3)
"""Records whose `n` is no number."""


@pytest.fixture
def unpacked() -> Iterator[None]:
    """The folder as it was left. One test process of the machine at a time has it."""
    with HOME.with_name(f"{HOME.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(HOME, ignore_errors=True)
        with tarfile.open(FILES) as tar:
            tar.extractall(HOME.parent, filter="data")
        yield
        shutil.rmtree(HOME)


@pytest.fixture
def left(spark: Any, unpacked: None) -> None:
    """The same. Runs are in the tests' Spark."""


def job(name: str, **decode: Any) -> Any:
    """The job, with these changes of its `decode:` section."""
    file = HOME / "jobs" / f"{name}.yaml"
    document = json.loads(file.read_text())
    document["decode"] |= decode
    file.write_text(json.dumps(document))
    return load_job(file)


def state(name: str) -> JobState:
    return Ledger.open(HOME / "ledger", create=False).read(name)


def rules(name: str) -> list[int]:
    return [run.plan.decoding_rules for run in state(name).runs.values()]


def rows(name: str) -> list[dict[str, Any]]:
    found = DeltaTable(HOME / "lake" / name).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: row["_kseg_offset"])


def notes(name: str) -> list[str | None]:
    return [row["note"] for row in rows(name)]


WHOLE = [None if n in WRONG else f"n{n}" for n in range(12)]
"""By the first rules, all of the value is null."""


def property_of(name: str) -> str | None:
    return DeltaTable(HOME / "lake" / name).metadata().configuration.get(PROPERTY)


def test_a_table_with_rows_goes_on_and_has_no_maximum(left: None) -> None:
    assert notes("history") == WHOLE[:6]
    run_ingest(job("history"))
    assert notes("history") == WHOLE, "a third of them, where 1% is the maximum of new tables"
    assert rules("history") == [FIRST.version] * 2
    assert property_of("history") is None
    assert verify(job("history")).ok


def test_numbers_that_are_read_in_several_ways_are_refused_in_new_tables_alone(unpacked: None) -> None:
    odd = {"id": "between 0_1 and 00", "else": "warn"}
    assert plan_only(job("history", expect=odd)).ranges, "a table with rows goes on"
    document = json.loads((HOME / "jobs" / "history.yaml").read_text())
    new = load_job({**document, "ledger": str(HOME / "new-ledger"), "sink": {"path": str(HOME / "new")}})
    for plan in (plan_only, run_ingest):
        with pytest.raises(ConfigurationError, match=r"expect\.id: '0_1' is not read as the same number .* write 1"):
            plan(new)
    assert not Ledger.open(HOME / "new-ledger", create=False).read("history").runs
    document["decode"]["expect"]["id"] = "between 0 and 1"
    assert plan_only(load_job({**document, "ledger": new.ledger, "sink": {"path": str(HOME / "new")}})).ranges


@pytest.mark.parametrize("name", ["planned", "written", "landed"])
def test_a_run_that_was_left_goes_on(name: str, left: None) -> None:
    (run,) = state(name).runs
    run_ingest(job(name), take_over=True)
    assert (list(state(name).runs), rules(name)) == ([run], [FIRST.version])
    assert notes(name) == WHOLE
    assert verify(job(name)).ok


def test_a_run_that_was_left_is_finished(left: None) -> None:
    (run,) = state("landed").runs
    finish(job("landed", max_nulled=0), run, take_over=True)
    assert (notes("landed"), rules("landed")) == (WHOLE, [FIRST.version])


def test_a_rebuilt_ledger_reads_no_rules_into_the_table(left: None) -> None:
    shutil.rmtree(HOME / "ledger")
    rebuild_ledger(job("history"))
    run_ingest(job("history"))
    assert (notes("history"), rules("history")) == (WHOLE, [FIRST.version])


def test_dead_letters_are_redriven_by_the_tables_rules(left: None) -> None:
    value = {"format": "json", "schema": {"columns": {"id": "bigint", "n": "string", "note": "string"}}}
    text = job("letters", value={**value, "formats": {"n": "json"}, "rename": {"n": "text"}})
    document = json.loads((HOME / "jobs" / "letters.yaml").read_text())
    document["sink"]["merge_schema"] = True
    (HOME / "jobs" / "letters.yaml").write_text(json.dumps(document))
    assert run_redrive(load_job(HOME / "jobs" / "letters.yaml")).rows_out == 2, text.name
    assert rules("letters") == [FIRST.version] * 2
    assert notes("letters") == [f"n{n}" for n in range(6)]


def test_a_replacement_of_all_rows_begins_anew(left: None) -> None:
    def replace(to: int) -> None:
        request = BackfillRequest.parse(from_=["orders:0:0"], to=[f"orders:0:{to}"], mode="replace")
        run_backfill(job("replaced", max_nulled="50%"), request)

    replace(3)
    assert (notes("replaced"), rules("replaced")) == (WHOLE[:6], [FIRST.version] * 2)
    assert property_of("replaced") is None
    replace(6)
    assert rules("replaced")[-1] == NEWEST.version
    assert property_of("replaced") == str(NEWEST.version), "where a ledger that is rebuilt finds them"
    assert notes("replaced") == [f"n{n}" for n in range(6)]
    run_ingest(job("replaced"))
    assert rules("replaced")[-1] == NEWEST.version
    assert notes("replaced") == [f"n{n}" for n in range(12)]
    assert verify(job("replaced")).ok


@pytest.mark.parametrize("name", ["avro", "avro_landed"])
def test_columns_of_connects_types_stay_what_they_were(name: str, left: None) -> None:
    run_ingest(job(name), take_over=True)
    assert rules(name) == [FIRST.version] * 2
    assert [(row["day"], row["price"]) for row in rows(name)] == [
        (19700 + n, (1234 + n).to_bytes(2, "big")) for n in range(12)
    ]
    assert verify(job(name)).ok
    request = BackfillRequest.parse(from_=["values:0:0"], to=["values:0:12"], mode="replace")
    run_backfill(job(name), request)
    assert rules(name)[-1] == FIRST.version, "its columns would be others"
