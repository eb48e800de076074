"""What a replacement has left standing is decided, table by table, by the attempt whose commit landed there."""

from dataclasses import replace

import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.kept_offsets import kept_digest
from kseg.etl.ledger.ranges import OffsetSet

RUN = "again"
ORDERS, USERS = TopicPartition("orders", 0), TopicPartition("users", 0)
ALL_READ = {}
SOME_LOST = {ORDERS: OffsetSet.single(0, 3), USERS: OffsetSet.single(0, 2)}
MORE_LOST = {ORDERS: OffsetSet.single(0, 5), USERS: OffsetSet.single(0, 4)}


@pytest.fixture
def planned(folding, words):
    """A replacement of orders [0, 10) in `t` and users [0, 10) in `u`, which an incremental run had landed."""
    ranges = tuple(ev.PlannedRange(tp.topic, 0, 0, 10, table=table) for tp, table in ((ORDERS, "t"), (USERS, "u")))
    first = words.plan(folding.state, "first", ranges=ranges, tables={"t": None, "u": None})
    folding.add(first)
    folding.add(words.landed("first"), words.landed("first", table="u"))
    folding.add(words.accounted(first.plan), words.step(ev.Finished, "first"))
    folding.add(words.lease(chain=RUN))
    plan = words.plan(folding.state, RUN, mode="backfill-replace", ranges=ranges, tables={"t": None, "u": None})
    folding.add(plan)
    return plan.plan


@pytest.fixture
def attempt(folding, words):
    """attempt(kept): an attempt has read its ranges and is about to commit."""
    return lambda kept: folding.add(words.step(ev.Replacing, RUN, chain=RUN, kept=kept))


@pytest.fixture
def landed(folding, words, planned):
    """landed(table, kept): the commit of the attempt that kept these offsets; None: its commit does not say."""

    def add(table, kept):
        event = words.landed(RUN, table=table, version=2, chain=RUN)
        digest = None if kept is None else kept_digest(planned, table, kept)
        return folding.add(replace(event, commit=replace(event.commit, kept=digest)))

    return add


@pytest.fixture
def abandoned(folding, words):
    """abandoned(before, since): what is open after it; both are `kept` of the events, by table."""

    def add(before=None, since=None):
        tables = tuple({**(before or {}), **(since or {})})
        noted = words.step(ev.Abandoning, RUN, chain=RUN, landed_in=tuple(before or ()), kept=before or {})
        folding.add(noted)
        folding.add(words.step(ev.Abandoned, RUN, chain=RUN, landed_in=tables, kept=since or {}))
        opened = {tp: list(folding.state.open_in(tp, 0, 10)) for tp in (ORDERS, USERS)}
        return {tp.topic: offsets for tp, offsets in opened.items() if offsets}

    return add


def test_an_attempt_that_died_before_its_commit_does_not_count(attempt, landed, abandoned):
    attempt(SOME_LOST)
    attempt(MORE_LOST)
    landed("t", MORE_LOST)
    assert abandoned() == {"orders": [(5, 10)]}


def test_a_suspended_attempt_may_land_after_a_later_one_has_read_less(attempt, landed, abandoned):
    attempt(SOME_LOST)
    attempt(MORE_LOST)
    landed("t", SOME_LOST)
    assert abandoned() == {"orders": [(3, 10)]}


def test_each_table_has_the_rows_of_one_attempt(attempt, landed, folding):
    attempt(ALL_READ)
    landed("t", ALL_READ)
    attempt(SOME_LOST)
    attempt(MORE_LOST)
    landed("u", MORE_LOST)
    run = folding.state.runs[RUN]
    assert {tp: offsets for tp, offsets in run.kept.items() if offsets} == {USERS: MORE_LOST[USERS]}


def test_an_attempt_that_follows_a_commit_changes_nothing_about_it(attempt, landed, folding):
    attempt(MORE_LOST)
    landed("t", MORE_LOST)
    attempt(ALL_READ)
    assert folding.state.runs[RUN].kept == {ORDERS: MORE_LOST[ORDERS]}


def test_commits_that_were_not_recorded_are_known_when_the_run_is_abandoned(attempt, abandoned, planned):
    attempt(SOME_LOST)
    attempt(MORE_LOST)
    before = {"t": kept_digest(planned, "t", MORE_LOST)}
    since = {"u": kept_digest(planned, "u", MORE_LOST)}
    assert abandoned(before, since) == {"orders": [(5, 10)], "users": [(4, 10)]}


def test_where_a_commit_does_not_say_whose_it_is_only_what_all_attempts_kept_stays(attempt, landed, abandoned):
    attempt(MORE_LOST)
    attempt(SOME_LOST)
    attempt(MORE_LOST)
    landed("t", None)
    assert abandoned() == {"orders": [(3, 10)]}


def test_a_digest_is_of_one_tables_offsets(planned):
    elsewhere = {**MORE_LOST, USERS: OffsetSet.single(0, 9)}
    assert kept_digest(planned, "t", MORE_LOST) == kept_digest(planned, "t", elsewhere)
    assert len({kept_digest(planned, "t", kept) for kept in (ALL_READ, SOME_LOST, MORE_LOST)}) == 3


def test_attempts_are_forgotten_when_the_run_ends(attempt, landed, abandoned, folding):
    attempt(SOME_LOST)
    assert len(folding.state.runs[RUN].attempts_kept) == 1
    landed("t", SOME_LOST)
    abandoned()
    run = folding.state.runs[RUN]
    assert (run.attempts_kept, run.kept[ORDERS]) == ((), SOME_LOST[ORDERS])
