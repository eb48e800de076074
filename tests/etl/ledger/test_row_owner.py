"""Whose rows are replaced: by run id, ledger, topic and generation."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import Refused
from kseg.etl.ledger.lost_runs import LostRuns
from kseg.etl.ledger.row_owner import SourceRows
from kseg.etl.ledger.run_ids import incremental_run_id, mark_of, request_run_id
from kseg.etl.ledger.state import NO_END, JobState, RunState
from kseg.etl.ledger.values import RunPlan, TopicIdentity

TP = TopicPartition("orders", 0)
TOPICS = {"orders": TopicIdentity(UUID(int=1), "cluster")}
OURS = JobState(job="j", ledger_id="ours", topics=TOPICS)
OLDER = JobState(job="j", ledger_id="older", topics=TOPICS)
UNMARKED = "0" * 32
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def owner(ours=OURS, **changes):
    return SourceRows("./t", ours, TOPICS, **changes)


def plan_of(run_id, generations):
    return RunPlan(run_id, "incremental", "incremental", "", 1, "", "{}", None, {}, (), {}, generations=generations)


def test_marks_decide():
    assert owner().owned_below(incremental_run_id("ours", "j", 3), TP) == NO_END
    assert owner().owned_below(request_run_id("ours", "j", UNMARKED), TP) == NO_END
    for run_id in (incremental_run_id("older", "j", 3), incremental_run_id("ours", "k", 3), "nobody's", "", None):
        assert owner().owned_below(run_id, TP) == 0


@pytest.mark.parametrize(
    ("topic", "owned"),
    [
        (TopicIdentity(UUID(int=1), "cluster"), NO_END),
        (TopicIdentity(None, "cluster"), NO_END),
        (TopicIdentity(UUID(int=2), "cluster"), 0),
        (TopicIdentity(UUID(int=1), "another"), 0),
    ],
)
def test_an_adopted_ledgers_rows_count_where_it_read_the_same_topic(topic, owned):
    adopted = (replace(OLDER, topics={"orders": topic}),)
    assert owner(adopted=adopted).owned_below(incremental_run_id("older", "j", 3), TP) == owned


def test_rows_of_an_earlier_generation_are_others_from_where_the_log_was_truncated():
    ours = replace(OURS, reopened={TP: (12,)})
    assert owner(ours).owned_below(incremental_run_id("ours", "j", 3), TP) == 12
    assert owner(ours).owned_below(UNMARKED, TP) == 12


def test_rows_of_a_lost_ledger_are_of_the_generation_that_their_run_has_read():
    requests = [request_run_id("older", "j", f"{digit}" * 32) for digit in range(3)]
    read = LostRuns({TP: 2}, {mark_of("older", "j"): {TP: 7}}, {requests[0]: {TP: False}, requests[1]: {TP: True}})
    ours = replace(OURS, lost_ledgers=("older",), lost_runs=read, reopened={TP: (12, 12)}, reopened_after={TP: (0, 0)})
    later = replace(ours, reopened={TP: (12, 12, 30)}, reopened_after={TP: (0, 0, 4)})
    older = incremental_run_id("older", "j", 6), requests[0]
    newest = incremental_run_id("older", "j", 7), requests[1]
    for run in older:
        assert (owner(ours).owned_below(run, TP), owner(later).owned_below(run, TP)) == (12, 12)
    for run in newest:
        assert (owner(ours).owned_below(run, TP), owner(later).owned_below(run, TP)) == (NO_END, 30)
        assert owner(later, all_generations=True).owned_below(run, TP) == NO_END
    assert owner(ours).owned_below(incremental_run_id("another", "j", 7), TP) == 0
    with pytest.raises(Refused):  # no history showed it
        owner(ours).owned_below(requests[2], TP)
    assert owner(ours).owned_below(requests[2], TopicPartition("orders", 1)) == NO_END


def test_what_an_earlier_release_rebuilt_without_generations_is_not_guessed():
    lost = replace(OURS, lost_ledgers=("older",), reopened={TP: (12,)})
    run = incremental_run_id("older", "j", 7)
    for after, owned in (({TP: (3,)}, 12), ({TP: (0,)}, None), ({}, None)):
        ours = replace(lost, reopened_after=after)
        if owned is not None:
            assert owner(ours).owned_below(run, TP) == owned
            continue
        with pytest.raises(Refused) as caught:
            owner(ours).owned_below(run, TP)
        assert "--drop-older-generations" in str(caught.value.remedy)
        assert owner(ours, all_generations=True).owned_below(run, TP) == NO_END


def test_ids_without_a_mark_are_ours_where_nobody_else_can_have_landed_them():
    assert owner().owned_below(UNMARKED, TP) == NO_END
    assert owner(others={"job k of ledger ours": {"payments"}}).owned_below(UNMARKED, TP) == NO_END
    elsewhere = replace(OLDER, topics={"orders": TopicIdentity(UUID(int=2), "cluster")})
    unknown = {"others": {"job k of ledger ours": {"orders"}}}, {"others": {"job k of ledger x": None}}
    for others in (*unknown, {"adopted": (elsewhere,)}):
        with pytest.raises(Refused) as caught:
            owner(**others).owned_below(UNMARKED, TP)
        assert caught.value.code == "rows-of-unknown-run"
        assert "--adopt" in str(caught.value.remedy)


def test_statistics_are_enough_between_two_ids_with_our_mark():
    low, high = sorted(incremental_run_id("ours", "j", number) for number in (3, 40))
    assert owner().owns_all(low, high, TP)
    assert not owner().owns_all(low, "f" * 32, TP)
    assert not owner().owns_all(*[incremental_run_id("older", "j", 3)] * 2, TP)
    assert not owner(replace(OURS, reopened={TP: (12,)})).owns_all(low, high, TP)


def test_rows_of_older_generations_count_where_that_is_asked_for():
    state, run = replace(OURS, reopened={TP: (10,)}), incremental_run_id("ours", "j", 1)
    assert owner(state).owned_below(run, TP) == 10
    assert owner(state, all_generations=True).owned_below(run, TP) == NO_END


def test_a_change_that_was_accepted_after_a_ledger_was_left_makes_its_rows_older_ones_too():
    ours, older = replace(OURS, reopened={TP: (10,)}), replace(OLDER, reopened={TP: (30,)})
    run = incremental_run_id("older", "j", 1)
    known = replace(older, runs={run: RunState(plan_of(run, {TP: 1}), NOW)})
    for adopted in (older, known):
        assert owner(ours, adopted=(adopted,)).owned_below(run, TP) == 10
        assert owner(ours, adopted=(adopted,), all_generations=True).owned_below(run, TP) == NO_END
    assert owner(OURS, adopted=(older,)).owned_below(run, TP) == 30
    assert owner(OURS, adopted=(known,)).owned_below(run, TP) == NO_END


def test_rows_of_older_generations_without_a_mark_count_where_that_is_asked_for():
    assert owner(replace(OURS, reopened={TP: (10,)}), all_generations=True).owned_below(UNMARKED, TP) == NO_END


def test_rows_of_another_topic_do_not_count_in_any_generation():
    elsewhere = replace(OLDER, topics={"orders": TopicIdentity(UUID(int=2), "cluster")})
    run = incremental_run_id("older", "j", 1)
    assert owner(adopted=(elsewhere,), all_generations=True).owned_below(run, TP) == 0
