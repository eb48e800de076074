"""What became of a dead letter follows from the ledger's runs and from nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.dead_letters import Letter, LetterStates
from kseg.etl.ledger.lost_runs import LostRuns
from kseg.etl.ledger.maintenance import summary_of
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import incremental_run_id

TP = TopicPartition("orders", 0)


def letter(offset: int, run_id: str = "r1") -> Letter:
    return Letter("orders", 0, offset, run_id)


def chain_run(folding: Any, words: Any, run_id: str, *ranges: tuple[int, int], mode: str, until: str = "end") -> None:
    """A run in a chain of its own; `until`: where it stops."""
    folding.add(words.lease(run_id))
    planned = words.plan(folding.state, run_id, *ranges, mode=mode, dead_letters="dead")
    where = {"chain": run_id}
    events = [planned]
    if until != "planned":
        if mode == "backfill-replace":
            events.append(words.step(ev.Replacing, run_id, kept={TP: OffsetSet.of([(3, 4)])}, **where))
        account = words.accounted(planned.plan)
        events += [words.landed(run_id, **where), account, words.step(ev.Finished, run_id, **where)]
    for event in events:
        folding.add(event)


@pytest.fixture
def landed(folding: Any, words: Any) -> Any:
    """Run r1 has landed the offsets 0 to 9."""
    folding.add(*words.whole_run(folding.state, "r1", (0, 10)))
    return folding


def test_a_letter_is_open_until_a_redrive_or_a_replacement_has_landed_its_record(landed: Any, words: Any) -> None:
    chain_run(landed, words, "again", (2, 3), (7, 8), mode="redrive")
    chain_run(landed, words, "replaced", (3, 6), mode="backfill-replace")
    states = LetterStates(landed.state)
    assert [states.of(letter(at)) for at in (1, 2, 3, 4, 5, 6, 7)] == [
        *("open", "redriven", "open", "replaced", "replaced", "open", "redriven")  # 3 was kept: it was not read again
    ]
    assert states.count(map(letter, (1, 2, 4))) == {"open": 1, "redriven": 1, "replaced": 1}


def test_a_redrive_that_has_no_account_yet_has_landed_nothing(landed: Any, words: Any) -> None:
    chain_run(landed, words, "again", (2, 3), mode="redrive", until="planned")
    assert LetterStates(landed.state).of(letter(2)) == "open"


def test_a_letter_of_the_replacement_itself_is_open_and_that_of_the_run_before_is_replaced(
    landed: Any, words: Any
) -> None:
    chain_run(landed, words, "replaced", (4, 6), mode="backfill-replace")
    states = LetterStates(landed.state)
    assert (states.of(letter(4)), states.of(letter(4, "replaced"))) == ("replaced", "open")
    chain_run(landed, words, "again", (4, 5), mode="redrive")
    states = LetterStates(landed.state)
    assert (states.of(letter(4)), states.of(letter(4, "replaced"))) == ("redriven", "redriven")


def test_a_letter_of_an_earlier_generation_is_stale_whatever_became_of_it(landed: Any, words: Any) -> None:
    """Its offset has another record, and maybe a letter of its own: a redrive would take the bytes of one for both."""
    chain_run(landed, words, "replaced", (3, 6), mode="backfill-replace")
    states = LetterStates(replace(landed.state, reopened={TP: (4,)}))
    assert [states.of(letter(at)) for at in (3, 4, 5)] == ["open", "stale", "stale"]


def test_what_has_landed_stays_known_when_summaries_drop_ranges(landed: Any, words: Any) -> None:
    chain_run(landed, words, "again", (2, 3), (7, 8), mode="redrive")
    chain_run(landed, words, "replaced", (3, 6), mode="backfill-replace")
    letters = [letter(at) for at in range(10)]
    before = LetterStates(landed.state).count(letters)
    assert before == {"open": 6, "redriven": 2, "replaced": 2}
    once = summary_of(landed.state, runs_kept=0)
    assert "r1" not in once.runs
    assert once.runs["again"].plan.ranges == ()
    assert LetterStates(once).count(letters) == LetterStates(summary_of(once, runs_kept=0)).count(letters) == before


def test_a_letter_of_a_run_without_an_account_is_pending_and_one_of_a_dropped_run_is_open(
    landed: Any, words: Any
) -> None:
    landed.add(words.plan(landed.state, "r2", (10, 20)))
    states = LetterStates(landed.state)
    assert (states.of(letter(12, "r2")), states.of(letter(1, incremental_run_id("L", "orders", 0)))) == (
        "pending",
        "open",
    )


def test_what_an_abandoned_replacement_took_along_is_read_again_by_another_run(landed: Any, words: Any) -> None:
    landed.add(words.lease("replaced"))
    landed.add(words.plan(landed.state, "replaced", (3, 6), mode="backfill-replace", dead_letters="dead"))
    where = {"chain": "replaced"}
    landed.add(words.step(ev.Replacing, "replaced", kept={}, **where))
    landed.add(words.landed("replaced", **where))
    landed.add(words.step(ev.Abandoning, "replaced", landed_in=("t",), **where))
    landed.add(words.step(ev.Abandoned, "replaced", landed_in=("t",), **where))
    assert 4 not in landed.state.landed(TP)
    assert LetterStates(landed.state).of(letter(4)) == "replaced"
    assert LetterStates(landed.state).of(letter(7)) == "open"
    summed = summary_of(landed.state, runs_kept=0)
    assert LetterStates(summed).of(letter(4)) == "replaced"
    assert LetterStates(landed.state).of(letter(4, "replaced")) == "pending"


def test_an_offset_that_means_another_record_today_is_not_redriven(landed: Any, words: Any) -> None:
    topics = {"orders": ev.TopicIdentity(cluster_id="cluster")}
    accepted = ev.SourceAccepted(topics=topics, reopened={TP: 5}, reason="log-truncated", owner="me", attempt=1)
    landed.add(accepted)
    states = LetterStates(landed.state)
    assert [states.of(letter(at)) for at in (4, 5)] == ["open", "stale"]


@pytest.mark.parametrize("reduced", [False, True])
def test_a_letter_is_not_open_where_an_abandoned_replacement_has_taken_its_offset(
    landed: Any, words: Any, reduced: bool
) -> None:
    where = {"chain": "replaced"}
    landed.add(words.lease("replaced"))
    planned = words.plan(landed.state, "replaced", (3, 6), mode="backfill-replace", dead_letters="dead")
    for event in (
        planned,
        words.step(ev.Replacing, "replaced", kept={TP: OffsetSet.of([(3, 4)])}, **where),
        words.landed("replaced", **where),
        words.step(ev.Abandoning, "replaced", reason="test", landed_in=("t",), **where),
        words.step(ev.Abandoned, "replaced", tables={}, landed_in=("t",), reason="test", **where),
    ):
        landed.add(event)
    states = LetterStates(landed.state)
    assert [states.of(letter(at)) for at in (2, 3, 4)] == ["open", "open", "replaced"]
    # The next run reads these offsets again: the record is a row now, or a dead letter of that run.
    landed.add(*words.whole_run(landed.state, "r2", (4, 6)))
    states = LetterStates(summary_of(landed.state, runs_kept=1) if reduced else landed.state)
    assert [states.of(letter(at)) for at in (2, 3, 4)] == ["open", "open", "replaced"]
    assert states.of(letter(4, "r2")) == "open"


def test_a_letter_of_an_offset_that_is_to_be_read_again_is_pending(landed: Any, words: Any) -> None:
    assert LetterStates(landed.state).of(letter(12)) == "pending"


def test_a_replacement_that_kept_a_row_has_no_dead_letter_there(landed: Any, words: Any) -> None:
    """An attempt that could read it committed the dead letter and died; the one that landed could not any more."""
    chain_run(landed, words, "replaced", (3, 6), mode="backfill-replace")
    states = LetterStates(landed.state)
    assert (states.of(letter(3, "replaced")), states.of(letter(4, "replaced"))) == ("kept", "open")


def test_dead_letters_of_other_jobs_and_of_lost_ledgers_are_not_redriven(landed: Any) -> None:
    state = landed.state
    own, others, lost = (
        letter(2, incremental_run_id(*of, 1)) for of in (("L", "orders"), ("L", "invoices"), ("lost", "orders"))
    )
    assert [LetterStates(state).of(one) for one in (own, others, lost)] == ["open", "other", "other"]
    states = LetterStates(replace(state, lost_ledgers=("lost",)))
    assert [states.of(one) for one in (own, others, lost)] == ["open", "other", "unknown"]
    assert states.count([own, others, lost]) == {"open": 1, "unknown": 1}


@pytest.mark.parametrize(("mode", "now"), [("backfill-replace", "replaced"), ("backfill-append", "appended")])
def test_a_letter_of_a_lost_ledger_is_known_once_a_run_of_this_one_has_read_its_record(
    mode: str, now: str, landed: Any, words: Any
) -> None:
    chain_run(landed, words, "again", (2, 5), mode=mode)
    of_lost = [letter(at, incremental_run_id("lost", "orders", 1)) for at in (1, 2)]
    states = LetterStates(replace(landed.state, lost_ledgers=("lost",)))
    assert [states.of(one) for one in of_lost] == ["unknown", now]
    assert all(states.is_of_lost(one.run_id) for one in of_lost)
    assert not any(states.is_of_lost(run_id) for run_id in ("r1", "again", ""))


@pytest.mark.parametrize("runs", [None, LostRuns({}, {})])
def test_a_letter_of_a_lost_ledger_that_has_expired_is_no_longer_unknown(landed: Any, runs: LostRuns | None) -> None:
    run_id = incremental_run_id("lost", "orders", 1)
    gone = {run_id: {TP: OffsetSet.single(2, 3)}}
    state = replace(landed.state, lost_ledgers=("lost",), lost_runs=runs, expired_letters=gone)
    assert LetterStates(state).count([letter(2, run_id), letter(3, run_id)]) == {"expired": 1, "unknown": 1}


def test_a_letter_of_a_lost_ledger_is_stale_where_its_offset_is_known_to_be_another_record_s(landed: Any) -> None:
    """A rebuilt ledger knows since which run the newest generation was read, or only that there was an older one."""
    old, new = (incremental_run_id("lost", "orders", number) for number in (1, 7))
    changed = replace(landed.state, lost_ledgers=("lost",), reopened={TP: (5,)})
    known = replace(changed, lost_runs=LostRuns({TP: 1}, {old.partition("-")[0]: {TP: 6}}))
    letters = [letter(4, old), letter(5, old), letter(5, new)]
    assert [LetterStates(known).of(one) for one in letters] == ["unknown", "stale", "unknown"]
    assert {LetterStates(changed).of(one) for one in letters} == {"unknown"}
