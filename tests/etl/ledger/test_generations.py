"""Accepted changes of a source: which offsets are open again, and which rows of which run are still today's records."""

import json
from dataclasses import replace

import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger import codec
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.bases import BasePinned
from kseg.etl.ledger.dead_letters import Letter, LetterStates
from kseg.etl.ledger.errors import IllegalEvent
from kseg.etl.ledger.generations import generation_of_lost, generation_read
from kseg.etl.ledger.maintenance import summary_of
from kseg.etl.ledger.ranges import OffsetRange, OffsetSet
from kseg.etl.ledger.row_owner import SourceRows
from kseg.etl.ledger.run_ids import incremental_run_id, request_run_id
from kseg.etl.ledger.state import NO_END

TP = TopicPartition("orders", 0)
SEEN = {"orders": ev.TopicIdentity(cluster_id="cluster", partitions={0: ev.PartitionIdentity(7, 12)})}


def accepted(**reopened):
    """accepted(p0=10): the event for partition 0, reopened from 10 on."""
    firsts = {TopicPartition("orders", int(name[1:])): first for name, first in reopened.items()}
    return ev.SourceAccepted(owner="me", attempt=1, topics=SEEN, reopened=firsts, reason="log-truncated")


def whole_run(words, folding, run_id, *ranges, **changes):
    generation = folding.state.generation(TP)
    if generation:
        changes["generations"] = {TP: generation}
    plan = words.plan(folding.state, run_id, *ranges, **changes)
    folding.add(plan, words.landed(run_id, chain=plan.chain), words.accounted(plan.plan))
    folding.add(words.step(ev.Finished, run_id, chain=plan.chain))
    return folding.state.runs[run_id]


def test_offsets_from_the_truncation_on_are_open_again(words, folding):
    whole_run(words, folding, "r1", (0, 20))
    state = folding.add(accepted(p0=12))
    assert state.landed(TP) == OffsetSet.single(0, 12)
    assert (state.frontier(TP), state.generation(TP)) == (12, 1)
    assert state.topics["orders"].partitions[0] == ev.PartitionIdentity(7, 12)


def test_a_base_above_the_truncation_goes_back_to_it(folding):
    state = folding.add(accepted(p0=0))
    assert state.frontier(TP) == 0
    folding.state = folding.initial
    folding.add(
        ev.Leased(owner="me", attempt=1, duration=60.0),
        BasePinned(owner="me", attempt=1, bases={TP: 100_000}, reason="group"),
    )
    assert folding.add(accepted(p0=37)).frontier(TP) == 37


def test_offsets_given_up_and_boundaries_above_it_are_forgotten(folding):
    mine = {"owner": "me", "attempt": 1}
    folding.add(
        ev.OffsetsGivenUp(**mine, ranges=(OffsetRange("orders", 0, 5, 15),), reason="gap"),
        ev.BoundaryPinned(**mine, time_ms=1000, offsets={TP: 10, TopicPartition("orders", 1): 99}),
        ev.BoundaryPinned(**mine, time_ms=2000, offsets={TP: 11}),
    )
    state = folding.add(accepted(p0=10))
    assert state.given_up(TP) == OffsetSet.single(5, 10)
    assert (state.boundary(TP, 1000), state.boundary(TP, 2000)) == (10, None)
    assert state.boundary(TopicPartition("orders", 1), 1000) == 99


def test_a_run_knows_which_of_its_rows_are_todays_records(words, folding):
    first = whole_run(words, folding, "r1", (0, 20))
    folding.add(accepted(p0=12))
    second = whole_run(words, folding, "r2", (12, 30))
    state = folding.add(accepted(p0=25))
    third = whole_run(words, folding, "r3", (25, 40))
    assert [state.generation_of(run, TP) for run in (first, second, third)] == [0, 1, 2]
    every = OffsetSet.single(0, 50)
    assert folding.state.current(first, TP, every) == OffsetSet.single(0, 12)
    assert folding.state.current(second, TP, every) == OffsetSet.single(0, 25)
    assert folding.state.current(third, TP, every) == every


def test_a_truncation_below_an_earlier_one_counts_for_all_generations(words, folding):
    first = whole_run(words, folding, "r1", (0, 20))
    folding.add(accepted(p0=12))
    folding.add(accepted(p0=5))
    assert folding.state.current(first, TP, OffsetSet.single(0, 50)) == OffsetSet.single(0, 5)


def test_a_run_that_has_yet_to_land_reopened_offsets_comes_first(words, folding):
    folding.add(words.plan(folding.state, "r1", (0, 20)))
    with pytest.raises(IllegalEvent, match="run r1 has planned"):
        folding.add(accepted(p0=12))
    folding.add(accepted(p0=20))  # below it, the run reads what it was planned for


def test_an_accounted_run_may_finish_after_it_and_holds_no_reopened_offset(words, folding):
    plan = words.plan(folding.state, "r1", (0, 20))
    folding.add(plan, words.landed("r1"), words.accounted(plan.plan))
    state = folding.add(accepted(p0=12))
    assert state.reserved(TP) == OffsetSet.single(0, 12)
    assert folding.add(words.step(ev.Finished, "r1")).frontier(TP) == 12


def test_an_accounted_run_abandoned_after_it_leaves_what_was_landed_since(words, folding):
    folding.add(words.lease("b1"))
    plan = words.plan(folding.state, "b1", (10, 20), mode="backfill-missing")
    chain = {"chain": "b1"}
    folding.add(plan, words.landed("b1", **chain), words.accounted(plan.plan))
    folding.add(accepted(p0=12))
    whole_run(words, folding, "r1", (0, 10), (12, 20))
    folding.add(words.step(ev.Abandoning, "b1", **chain))
    state = folding.add(words.step(ev.Abandoned, "b1", landed_in=("t",), **chain))
    assert state.landed(TP) == OffsetSet.of([(0, 10), (12, 20)])


def test_a_plan_of_an_older_generation_is_rejected(words, folding):
    folding.add(accepted(p0=0))
    with pytest.raises(IllegalEvent, match="accepted meanwhile"):
        folding.add(words.plan(folding.state, "r1", (0, 20)))
    folding.add(words.plan(folding.state, "r1", (0, 20), generations={TP: 1}))


def test_a_summary_keeps_the_generation_of_every_run_since(words, folding):
    whole_run(words, folding, "before", (0, 20))
    assert "before" not in summary_of(folding.state, runs_kept=0).runs
    folding.add(accepted(p0=12))
    whole_run(words, folding, "after", (12, 20))
    summed = summary_of(folding.state, runs_kept=0)
    assert summed.generation_of(summed.runs["after"], TP) == 1
    assert summed.current_below(TP, 0) == 12


def test_a_summary_drops_runs_whose_numbers_show_their_generations(words, folding):
    """After a change had been accepted, each later run stayed in the ledger for ever."""
    first, second, third, fourth = (incremental_run_id("L", "orders", number) for number in range(1, 5))
    whole_run(words, folding, first, (0, 20))
    folding.add(accepted(p0=12))
    whole_run(words, folding, second, (12, 30))
    whole_run(words, folding, third, (30, 40))
    folding.add(accepted(p0=25))
    whole_run(words, folding, fourth, (25, 50))
    summed = summary_of(folding.state, runs_kept=0)
    assert (list(summed.runs), summed.archive.runs) == ([], 4)
    for state in (folding.state, summed):
        assert [generation_read(state, run, TP) for run in (first, second, third, fourth)] == [0, 1, 1, 2]
        rows = SourceRows("t", state, {})
        assert [rows.owned_below(run, TP) for run in (first, second, third, fourth)] == [12, 25, 25, NO_END]


@pytest.mark.parametrize("dropped", [True, False])
def test_a_letter_of_a_dropped_run_is_not_closed_by_a_replacement_of_an_older_generation(words, folding, dropped):
    folding.add(words.lease("b1"))
    plan = words.plan(folding.state, "b1", (0, 20), mode="backfill-replace")
    chain = {"chain": "b1"}
    folding.add(plan, words.step(ev.Replacing, "b1", kept={}, **chain), words.landed("b1", **chain))
    folding.add(words.accounted(plan.plan), words.step(ev.Finished, "b1", **chain))
    folding.add(accepted(p0=12))
    run = incremental_run_id("L", "orders", 1)
    whole_run(words, folding, run, (12, 20), dead_letters="dead")
    state = summary_of(folding.state, runs_kept=0) if dropped else folding.state
    assert (run in state.runs) != dropped
    assert LetterStates(state).of(Letter(*TP, 15, run)) == "open"


def test_a_ledger_that_lacks_the_numbers_keeps_its_runs(words, folding):
    """Of an earlier release."""
    folding.add(accepted(p0=12))
    folding.state = replace(folding.state, reopened_after={})
    run = incremental_run_id("L", "orders", 1)
    whole_run(words, folding, run, (12, 20))
    folding.add(accepted(p0=15))
    summed = summary_of(folding.state, runs_kept=0)
    assert generation_read(summed, run, TP) == 1
    assert generation_read(summary_of(summed, runs_kept=0), run, TP) == 1


def test_generations_are_in_the_json_of_plans_that_have_any(words, folding):
    def written(event):
        rows = codec.transition_rows([event], folding.now, 1, "n")
        assert codec.decode("orders", codec.encode("orders", rows)) == rows
        return json.loads(codec.encode("orders", rows)["payload"][0].as_py())["plan"]

    assert "generations" not in written(words.plan(folding.state, "r1", (0, 20)))
    plan = words.plan(folding.state, "r1", (0, 20), generations={TP: 2})
    assert written(plan)["generations"] == {"orders": {"0": 2}}


def test_a_rebuilt_ledger_goes_on_with_the_generations_of_the_lost_one(folding):
    landed = {TP: OffsetSet.single(0, 30)}
    event = ev.LedgerRebuilt(
        owner="me", attempt=1, lost=("l",), bases={TP: 0}, landed=landed, topics=SEEN, tables={}, reopened={TP: (5, 5)}
    )
    rows = codec.transition_rows([event], folding.now, 1, "n")
    assert codec.decode("orders", codec.encode("orders", rows)) == rows
    folding.state = folding.initial
    folding.add(ev.Leased(owner="me", attempt=1, duration=60.0), event)
    assert (folding.state.generation(TP), folding.state.current_below(TP, 0)) == (2, 5)


def test_a_change_that_is_accepted_after_a_rebuild_makes_all_lost_runs_older_ones(folding):
    """Whichever release has rebuilt the ledger: where nothing was reopened, there had been one generation."""
    rebuilt = ev.LedgerRebuilt(owner="me", attempt=1, lost=("l",), bases={TP: 0}, landed={}, topics=SEEN, tables={})
    accepted = ev.SourceAccepted(owner="me", attempt=1, topics=SEEN, reopened={TP: 5}, reason="recreated", tables={})
    folding.state = folding.initial
    folding.add(ev.Leased(owner="me", attempt=1, duration=60.0), rebuilt, accepted)
    for run_id in (incremental_run_id("l", "orders", 3), request_run_id("l", "orders", "1" * 32)):
        assert generation_of_lost(folding.state, run_id, TP) == 0
