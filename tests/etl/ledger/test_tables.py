"""What a ledger keeps of target tables, beside their last state."""

from __future__ import annotations

import pytest

from kseg.etl.ledger import events as ev
from kseg.etl.ledger.errors import IllegalEvent
from kseg.etl.ledger.table_shaped import TableShaped


def test_the_newest_landing_is_what_a_table_must_still_have(folding, words):
    folding.add(words.lease(chain="b"))
    folding.add(words.plan(folding.state, "r1", (0, 10)))
    folding.add(words.plan(folding.state, "b", (20, 30), mode="interval"))
    folding.add(words.landed("b", version=8, chain="b"))
    state = folding.add(words.landed("r1", version=7))
    record = state.table_records["t"]
    assert (record.landed.version, record.app_id, record.app_version) == (8, f"{state.job_app}/b", 1)
    assert record.examined is None, "no plan has seen it"


def test_a_table_that_got_its_shape_is_planned_with_its_new_state(folding, words):
    before, shaped = ev.TableState("old", 1, 0), ev.TableState("new", 0, 0)
    folding.add(words.plan(folding.state, "r1", (0, 10), tables={"t": before, "u": None}))
    state = folding.add(words.step(TableShaped, "r1", table="t", state=shaped))
    assert (state.tables, state.runs["r1"].plan.tables) == ({"t": shaped}, {"t": shaped, "u": None})
    folding.add(words.landed("r1"))
    with pytest.raises(IllegalEvent, match="it has landed in t"):
        folding.add(words.step(TableShaped, "r1", table="t", state=shaped))


@pytest.mark.parametrize(("verified", "rules"), [(True, 2), (False, 1)])
def test_an_accepted_table_keeps_the_rules_of_rows_that_were_compared(folding, words, verified, rules):
    """Its next run decoded by the first rules, where a full replacement had moved it to the newest."""
    folding.add(words.plan(folding.state, "r1", (0, 10), decoding_rules=2))
    folding.add(words.landed("r1"))
    anew = ev.TableState("another", 0, 10)
    state = folding.add(words.step(ev.TableAccepted, "", table="t", state=anew, verified=verified))
    assert state.table_records == {"t": ev.TableRecord(examined=anew, rules=rules)}


def test_an_accepted_table_takes_the_place_of_all_that_was_known(folding, words):
    folding.add(*words.whole_run(folding.state, "r1", (0, 10)))
    folding.add(words.plan(folding.state, "r2", (10, 20), tables={"t": folding.state.tables["t"], "u": None}))
    anew = ev.TableState("another", 0, 10)
    state = folding.add(words.step(ev.TableAccepted, "", table="t", state=anew))
    assert state.tables == {"t": anew}
    assert state.table_records == {"t": ev.TableRecord(examined=anew)}
    assert state.runs["r1"].landed["t"].after.id == "table-id", "what has landed stays landed"
    assert state.runs["r2"].plan.tables == {"t": anew, "u": None}, "a run that has not ended goes on with it"
    gone = folding.add(words.step(ev.TableAccepted, "", table="t", state=None))
    assert (gone.tables, gone.table_records, gone.runs["r2"].plan.tables["t"]) == ({}, {}, None)
