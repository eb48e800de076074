"""What may follow what in a ledger, and what it means."""

import pickle
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.bases import BasePinned
from kseg.etl.ledger.errors import IllegalEvent, LeaseLost
from kseg.etl.ledger.fold import Entry, fold
from kseg.etl.ledger.ranges import OffsetRange, OffsetSet
from kseg.etl.ledger.state import JobState

PHASES = [
    "planned",
    "landing",
    "account-failed",
    "accounted",
    "offsets-committed",
    "finished",
    "abandoning",
    "abandoned",
]

# Written down again here, by step instead of by phase, so that the table in the code is checked and not repeated.
LEGAL = {
    "planned": {"reconfigured", "landed", "accounted", "account_failed", "abandoning", "refused"},
    "landing": {"landed", "accounted", "account_failed", "abandoning", "refused"},
    "account-failed": {"account_cleared", "abandoning", "refused"},
    "accounted": {"offsets_committed", "finished", "abandoning", "refused"},
    "offsets-committed": {"offsets_committed", "finished", "refused"},
    "finished": {"offsets_committed", "refused"},
    "abandoning": {"abandoned", "refused"},
    "abandoned": {"refused"},
}


def bring_to(folding, words, phase):
    """A run r1 over [0, 10) brought to a phase; returns its plan."""
    planned = words.plan(folding.state, "r1", (0, 10))
    landed = words.landed("r1")
    accounted = words.accounted(planned.plan)
    committed = words.step(
        ev.OffsetsCommitted, "r1", group="g", how="plain", offsets={words.tp: ev.GroupOffset(10, "ours")}
    )
    failed = words.step(ev.AccountFailed, "r1", equation="offsets", reason="a gap")
    abandoning = words.step(ev.Abandoning, "r1")
    paths = {
        "planned": [],
        "landing": [landed],
        "account-failed": [failed],
        "accounted": [landed, accounted],
        "offsets-committed": [landed, accounted, committed],
        "finished": [landed, accounted, committed, words.step(ev.Finished, "r1")],
        "abandoning": [landed, abandoning],
        "abandoned": [landed, abandoning, words.step(ev.Abandoned, "r1")],
    }
    folding.add(planned)
    for event in paths[phase]:
        folding.add(event)
    return planned.plan


@pytest.mark.parametrize("phase", PHASES)
def test_each_phase_allows_its_steps_and_no_other(folding, words, phase):
    plan = bring_to(folding, words, phase)
    assert folding.state.runs["r1"].phase == phase
    steps = [
        words.step(
            ev.Reconfigured, "r1", config_hash="new", pinned_config="{}", ranges=plan.ranges, tables={"other": None}
        ),
        words.landed("r1", table="another"),
        words.accounted(plan),
        words.step(ev.AccountFailed, "r1", equation="rows", reason="lost one"),
        words.step(ev.AccountCleared, "r1", reason="repaired"),
        words.step(ev.OffsetsCommitted, "r1", group="g", how="plain", offsets={}),
        words.step(ev.Finished, "r1"),
        words.step(ev.RunRefused, "r1", code="x", message="y"),
        words.step(ev.Abandoning, "r1"),
        words.step(ev.Abandoned, "r1"),
    ]
    legal = set()
    for event in steps:
        entry = Entry(event, folding.now, folding.state.sequence + 1)
        try:
            fold(folding.state, [entry])
            legal.add(event.KIND)
        except IllegalEvent as error:
            assert error.address["run"] == "r1"  # noqa: PT017
    assert legal == LEGAL[phase]


def test_an_illegal_step_changes_nothing(folding, words):
    bring_to(folding, words, "landing")
    before = folding.state
    with pytest.raises(IllegalEvent):
        folding.add(words.landed("r1", table="u"), words.step(ev.Finished, "r1"))
    assert folding.state == before
    assert set(folding.state.runs["r1"].landed) == {"t"}


def test_a_whole_run_moves_the_frontier_when_it_is_accounted_and_not_before(folding, words):
    planned, landed, accounted, committed, finished = words.whole_run(folding.state, "r1", (0, 10))
    for event in (planned, landed):
        assert folding.add(event).frontier(words.tp) == 0
    assert folding.state.reserved(words.tp) == OffsetSet.single(0, 10)
    assert folding.state.unfinished().run_id == "r1"
    assert folding.add(accounted).frontier(words.tp) == 10
    state = folding.add(committed, finished)
    assert state.landed(words.tp) == OffsetSet.single(0, 10)
    assert not state.reserved(words.tp)
    assert state.unfinished() is None
    assert state.group_offsets("g") == {words.tp: ev.GroupOffset(10, "ours")}
    assert state.tables == {"t": ev.TableState("table-id", 1, 10)}
    assert state.runs["r1"].ended_at == folding.now
    assert state.incremental_sequence == 1
    assert state.next_app_transaction() == ("kseg/L/orders", 2)


def test_a_run_is_whose_lease_ended_it_whoever_commits_its_offsets_again(folding, words):
    bring_to(folding, words, "accounted")
    assert folding.state.runs["r1"].owner == "me"
    folding.add(words.lease(owner="second", attempt=2))
    folding.add(words.step(ev.Finished, "r1", owner="second", attempt=2))
    folding.add(words.lease(owner="third", attempt=3))
    again = {"group": "g", "how": "plain", "offsets": {words.tp: ev.GroupOffset(10, "ours")}}
    folding.add(words.step(ev.OffsetsCommitted, "r1", owner="third", attempt=3, **again))
    assert folding.state.runs["r1"].owner == "second"


def test_an_empty_plan_is_a_run_too(folding, words):
    state = folding.add(*words.whole_run(folding.state, "r1"))
    assert state.runs["r1"].phase == "finished"
    assert state.frontier(words.tp) == 0


def test_a_failed_account_lasts_until_it_is_cleared(folding, words):
    plan = bring_to(folding, words, "account-failed")
    with pytest.raises(IllegalEvent):
        folding.add(words.accounted(plan))
    folding.add(words.step(ev.AccountCleared, "r1", reason="on_gap: record"))
    assert folding.add(words.accounted(plan)).frontier(words.tp) == 10


class TestPlans:
    def test_one_unfinished_run_a_chain(self, folding, words):
        folding.add(words.plan(folding.state, "r1", (0, 10)))
        with pytest.raises(IllegalEvent, match="r1 of this chain has not ended"):
            folding.add(words.plan(folding.state, "r2", (10, 20)))

    def test_numbers_have_no_gap_and_an_abandoned_run_keeps_its_own(self, folding, words):
        with pytest.raises(IllegalEvent, match="app transaction"):
            folding.add(words.plan(folding.state, "r1", (0, 10), app_version=2))
        bring_to(folding, words, "abandoned")
        assert folding.state.incremental_sequence == 1
        assert folding.add(words.plan(folding.state, "r2", (0, 10))).runs["r2"].sequence == 2

    def test_another_ledgers_app_transaction_shows(self, folding, words):
        with pytest.raises(IllegalEvent, match="app transaction"):
            folding.add(words.plan(folding.state, "r1", (0, 10), app_id="kseg/other/orders"))

    def test_no_two_runs_plan_one_offset(self, folding, words):
        folding.add(words.plan(folding.state, "r1", (0, 10)))
        folding.add(words.lease(chain="b"))
        for mode in ("interval", "backfill-missing", "backfill-replace", "backfill-append"):
            with pytest.raises(IllegalEvent, match="planned by a run that has not ended"):
                folding.add(words.plan(folding.state, "b", (9, 12), mode=mode))
        folding.add(words.plan(folding.state, "b", (10, 12), mode="interval"))
        assert folding.state.open_in(words.tp, 0, 15) == OffsetSet.single(12, 15)
        assert folding.state.open_in(words.tp, 0, 15, except_chain="b") == OffsetSet.single(10, 15)
        assert folding.state.reservations() == {words.tp: OffsetSet.single(0, 12)}

    def test_an_accounted_run_keeps_its_offsets_reserved_until_it_ends(self, folding, words):
        bring_to(folding, words, "accounted")
        folding.add(words.lease(chain="b"))
        with pytest.raises(IllegalEvent, match="planned by a run that has not ended"):
            folding.add(words.plan(folding.state, "b", (0, 3), mode="backfill-replace"))

    @pytest.mark.parametrize("mode", ["incremental", "interval", "backfill-missing"])
    def test_what_has_landed_is_not_planned_again(self, folding, words, mode):
        folding.add(*words.whole_run(folding.state, "r1", (0, 10)))
        folding.add(words.lease(chain="b"))
        with pytest.raises(IllegalEvent, match=r"\[9, 10\)} has landed"):
            folding.add(words.plan(folding.state, "r2" if mode == "incremental" else "b", (9, 12), mode=mode))

    @pytest.mark.parametrize("mode", ["backfill-replace", "backfill-append"])
    def test_replace_and_append_may(self, folding, words, mode):
        folding.add(*words.whole_run(folding.state, "r1", (0, 10)))
        folding.add(words.lease(chain="b"))
        state = folding.add(*words.whole_run(folding.state, "b", (5, 12), mode=mode))
        assert state.landed(words.tp) == OffsetSet.single(0, 12)
        assert state.frontier(words.tp) == 12

    def test_ranges_of_one_plan_do_not_overlap(self, folding, words):
        with pytest.raises(IllegalEvent, match="overlap"):
            folding.add(words.plan(folding.state, "r1", (0, 10), (9, 12)))
        folding.add(words.plan(folding.state, "r1", (0, 10), (10, 12), (1, 0, 10)))

    def test_a_run_id_is_used_once(self, folding, words):
        folding.add(*words.whole_run(folding.state, "r1", (0, 10)))
        with pytest.raises(IllegalEvent, match="there is a run of this id"):
            folding.add(words.plan(folding.state, "r1", (10, 20)))

    def test_an_abandoned_backfill_runs_again_under_the_next_version(self, folding, words):
        folding.add(words.lease(chain="b"))
        folding.add(words.plan(folding.state, "b", (0, 5), mode="backfill-missing"))
        folding.add(words.landed("b", chain="b"), words.step(ev.Abandoning, "b", chain="b"))
        folding.add(words.step(ev.Abandoned, "b", chain="b"))
        assert folding.state.next_app_transaction("b") == ("kseg/L/orders/b", 2)
        state = folding.add(words.plan(folding.state, "b", (0, 5), mode="backfill-missing"))
        assert (state.runs["b"].phase, state.runs["b"].sequence) == ("planned", 2)

    @pytest.mark.parametrize(
        ("mode", "chain"), [("incremental", "r1"), ("interval", ev.INCREMENTAL), ("interval", "other")]
    )
    def test_mode_and_chain_agree(self, folding, words, mode, chain):
        folding.add(words.lease(chain="r1"), words.lease(chain="other"))
        with pytest.raises(IllegalEvent):
            folding.add(words.plan(folding.state, "r1", (0, 10), mode=mode, chain=chain))


class TestAccounts:
    @pytest.mark.parametrize(
        "counts",
        [ev.RangeCounts(data=9), ev.RangeCounts(data=11), ev.RangeCounts(data=5, control=2, aborted=2, absent=2)],
    )
    def test_an_account_that_is_off_is_no_account(self, folding, words, counts):
        plan = bring_to(folding, words, "landing")
        account = replace(words.accounted(plan), ranges=(ev.RangeAccount("orders", 0, 0, 10, counts),))
        with pytest.raises(IllegalEvent, match="is off"):
            folding.add(account)

    def test_all_five_kinds_count(self, folding, words):
        plan = bring_to(folding, words, "landing")
        counts = ev.RangeCounts(data=5, control=1, aborted=2, dead_lettered=1, absent=1)
        account = replace(words.accounted(plan), ranges=(ev.RangeAccount("orders", 0, 0, 10, counts),))
        assert folding.add(account).runs["r1"].accounted.counts == counts

    @pytest.mark.parametrize("ranges", [[(0, 9)], [(0, 10), (10, 11)], [(0, 10), (0, 10)], []])
    def test_an_account_covers_the_plan_exactly(self, folding, words, ranges):
        plan = bring_to(folding, words, "landing")
        accounts = tuple(ev.RangeAccount("orders", 0, s, e, ev.RangeCounts(data=e - s)) for s, e in ranges)
        with pytest.raises(IllegalEvent, match="other ranges"):
            folding.add(replace(words.accounted(plan), ranges=accounts))

    def test_it_may_be_split_otherwise_than_the_plan(self, folding, words):
        plan = bring_to(folding, words, "landing")
        accounts = tuple(ev.RangeAccount("orders", 0, s, e, ev.RangeCounts(data=e - s)) for s, e in [(0, 4), (4, 10)])
        assert folding.add(replace(words.accounted(plan), ranges=accounts)).frontier(words.tp) == 10


class TestAbandoning:
    def test_an_abandoned_run_opens_its_offsets_again(self, folding, words):
        folding.add(*words.whole_run(folding.state, "r0", (0, 3)))
        folding.add(words.plan(folding.state, "r1", (3, 10)))
        folding.add(words.landed("r1"), words.accounted(folding.state.runs["r1"].plan))
        assert folding.state.frontier(words.tp) == 10
        folding.add(words.step(ev.Abandoning, "r1"))
        state = folding.add(words.step(ev.Abandoned, "r1", tables={"t": ev.TableState("table-id", 5, 3)}))
        assert state.frontier(words.tp) == 3
        assert state.open_in(words.tp, 0, 10) == OffsetSet.single(3, 10)
        assert state.tables["t"] == ev.TableState("table-id", 5, 3)

    def test_an_abandoned_append_leaves_what_others_landed(self, folding, words):
        folding.add(*words.whole_run(folding.state, "r1", (0, 10)), words.lease(chain="b"))
        folding.add(words.plan(folding.state, "b", (5, 15), mode="backfill-append"))
        folding.add(words.landed("b", chain="b"), words.accounted(folding.state.runs["b"].plan))
        assert folding.state.landed(words.tp) == OffsetSet.single(0, 15)
        folding.add(words.step(ev.Abandoning, "b", chain="b"), words.step(ev.Abandoned, "b", chain="b"))
        assert folding.state.landed(words.tp) == OffsetSet.single(0, 10)

    @pytest.mark.parametrize("landed", [True, False])
    def test_an_abandoned_replacement_takes_what_it_had_replaced_with_it(self, folding, words, landed):
        folding.add(*words.whole_run(folding.state, "r1", (0, 10)), words.lease(chain="b"))
        folding.add(words.plan(folding.state, "b", (5, 8), mode="backfill-replace"))
        if landed:
            folding.add(words.landed("b", chain="b"))
        folding.add(words.step(ev.Abandoning, "b", chain="b"), words.step(ev.Abandoned, "b", chain="b"))
        expected = [(0, 5), (8, 10)] if landed else [(0, 10)]
        assert folding.state.landed(words.tp) == OffsetSet.of(expected)


class TestReconfiguring:
    def test_a_run_goes_on_with_a_new_configuration_and_its_own_ranges(self, folding, words):
        plan = bring_to(folding, words, "planned")
        moved = tuple(replace(r, table="u") for r in plan.ranges)
        change = words.step(
            ev.Reconfigured,
            "r1",
            config_hash="new",
            pinned_config='{"a": 1}',
            ranges=moved,
            tables={"u": ev.TableState("u-id", 3, 0)},
        )
        run = folding.add(change).runs["r1"]
        assert (run.config_hash, run.plan.pinned_config, run.plan.ranges) == ("new", '{"a": 1}', moved)
        assert folding.state.tables["u"].version == 3

    def test_other_ranges_are_refused(self, folding, words):
        plan = bring_to(folding, words, "planned")
        shorter = (replace(plan.ranges[0], end=9),)
        change = words.step(ev.Reconfigured, "r1", config_hash="n", pinned_config="", ranges=shorter, tables={})
        with pytest.raises(IllegalEvent, match="not those that were planned"):
            folding.add(change)


class TestLeases:
    def test_only_the_last_lease_of_a_chain_may_write_for_it(self, folding, words):
        bring_to(folding, words, "landing")
        folding.add(words.lease(owner="you", attempt=2))
        with pytest.raises(LeaseLost) as lost:
            folding.add(words.step(ev.AccountFailed, "r1", equation="rows", reason="late"))
        assert lost.value.owner == "you"
        assert lost.value.exit_code == 5
        folding.add(words.landed("r1", table="u", owner="you", attempt=2))

    def test_nothing_is_written_without_a_lease_or_after_its_release(self, folding, words):
        with pytest.raises(LeaseLost, match="without a lease"):
            folding.add(words.plan(folding.state, "b", (0, 5), mode="interval"))
        folding.add(ev.Released(owner="me", attempt=1))
        with pytest.raises(LeaseLost):
            folding.add(words.plan(folding.state, "r1", (0, 5)))
        with pytest.raises(LeaseLost):
            folding.add(ev.Renewed(owner="me", attempt=1))

    def test_attempts_are_counted_without_a_gap(self, folding, words):
        for attempt in (1, 3):
            with pytest.raises(IllegalEvent, match="lease number"):
                folding.add(words.lease(owner="you", attempt=attempt))

    def test_a_lease_lives_from_its_last_renewal(self, folding):
        folding.add(ev.Renewed(owner="me", attempt=1))
        lease = folding.state.lease()
        assert lease.renewed_at == folding.now > lease.since
        assert lease.live(folding.now + timedelta(seconds=59.9))
        assert not lease.live(folding.now + timedelta(seconds=60))
        folding.add(ev.Released(owner="me", attempt=1))
        assert not folding.state.lease().live(folding.now)

    def test_a_refusal_needs_no_lease(self, folding):
        state = folding.add(ev.RunRefused(owner="you", code="group-has-members", message="…"))
        assert state.last_refused.code == "group-has-members"

    def test_a_refusal_of_another_chain_does_not_take_the_place_of_the_incremental_chain_s(self, folding):
        """An interval that is not closed yet is tried again and again: `kseg status` showed no problem any more."""
        folding.add(ev.RunRefused(owner="me", code="data-lost", message="…"))
        state = folding.add(ev.RunRefused(chain="b", run_id="b", owner="you", code="IntervalOpen", message="…"))
        assert state.last_refused.code == "data-lost"


class TestPartitions:
    def pin(self, words, base, reason="configured"):
        return words.step(BasePinned, "", bases={words.tp: base}, reason=reason)

    def test_a_base_is_pinned_once_and_only_acceptance_moves_it_down(self, folding, words):
        folding.add(self.pin(words, 0))
        with pytest.raises(IllegalEvent, match="pinned at 0"):
            folding.add(self.pin(words, 5))
        other = TopicPartition("orders", 1)
        folding.add(words.step(BasePinned, "", bases={other: 100}, reason="group"))
        with pytest.raises(IllegalEvent):
            folding.add(words.step(BasePinned, "", bases={other: 50}, reason="group"))
        assert folding.add(words.step(BasePinned, "", bases={other: 50}, reason="accepted")).frontier(other) == 50

    def test_a_base_is_of_files_until_a_plan_at_the_brokers_pins_it_again(self, folding, words):
        first, second = TopicPartition("orders", 1), TopicPartition("orders", 2)
        of_files = words.step(BasePinned, "", bases={first: 3}, reason="configured", of_files=True)
        assert folding.add(of_files).bases_of_files == {first: 3}
        assert folding.add(words.step(BasePinned, "", bases={first: 3}, reason="files")).bases_of_files == {}
        assert folding.add(of_files).bases_of_files == {}, "the brokers have been read before"
        more = words.step(BasePinned, "", bases={second: 9}, reason="earliest", of_files=True)
        assert folding.add(more).bases_of_files == {second: 9}

    def test_a_partition_without_a_base_has_no_frontier(self, folding):
        assert folding.state.frontier(TopicPartition("orders", 9)) is None

    def test_a_boundary_is_pinned_once(self, folding, words):
        pin = words.step(ev.BoundaryPinned, "", time_ms=1000, offsets={words.tp: 7})
        assert folding.add(pin, pin).boundary(words.tp, 1000) == 7
        with pytest.raises(IllegalEvent, match="pinned at 7"):
            folding.add(words.step(ev.BoundaryPinned, "", time_ms=1000, offsets={words.tp: 8}))

    def test_offsets_given_up_count_for_the_frontier_and_are_listed_apart(self, folding, words):
        folding.add(*words.whole_run(folding.state, "r1", (0, 10)))
        given = (OffsetRange("orders", 0, 10, 20),)
        state = folding.add(words.step(ev.OffsetsGivenUp, "", ranges=given, reason="retention"))
        assert state.frontier(words.tp) == 20
        assert state.given_up(words.tp) == OffsetSet.single(10, 20)
        assert state.landed(words.tp) == OffsetSet.single(0, 10)
        assert state.open_in(words.tp, 0, 20) == OffsetSet.single(10, 20)

        folding.add(words.lease(chain="b"))
        state = folding.add(*words.whole_run(folding.state, "b", (12, 15), mode="backfill-missing"))
        assert state.given_up(words.tp) == OffsetSet.of([(10, 12), (15, 20)])
        assert state.frontier(words.tp) == 20

        back = (OffsetRange("orders", 0, 10, 20),)
        state = folding.add(words.step(ev.OffsetsReclaimed, "", ranges=back, reason="group set back"))
        assert state.frontier(words.tp) == 10
        assert not state.given_up(words.tp)

    def test_accepted_group_offsets_are_remembered(self, folding, words):
        accepted = {words.tp: ev.GroupOffset(500, "by hand")}
        state = folding.add(words.step(ev.GroupOffsetsAccepted, "", group="g", offsets=accepted))
        assert state.group_offsets("g") == accepted
        assert state.group_offsets("other") == {}

    def test_a_topic_is_as_it_was_last_seen(self, folding, words):
        first = ev.TopicIdentity(UUID(int=1), "c", {0: ev.PartitionIdentity(1, 10), 1: ev.PartitionIdentity(4, 9)})
        folding.add(words.step(ev.TopicSeen, "", topics={"orders": first}))
        later = ev.TopicIdentity(UUID(int=1), "c", {0: ev.PartitionIdentity(2, 20)})
        state = folding.add(words.step(ev.TopicSeen, "", topics={"orders": later}))
        assert state.topics["orders"].partitions == {0: ev.PartitionIdentity(2, 20), 1: ev.PartitionIdentity(4, 9)}
        other = ev.TopicIdentity(UUID(int=2), "c", {0: ev.PartitionIdentity(0, 0)})
        assert folding.add(words.step(ev.TopicSeen, "", topics={"orders": other})).topics["orders"] == other

    def test_of_one_table_the_newest_sight_counts(self, folding, words):
        folding.add(words.lease(chain="b"))
        folding.add(words.plan(folding.state, "r1", (0, 10)))
        folding.add(words.plan(folding.state, "b", (20, 30), mode="interval"))
        folding.add(words.landed("b", rows=20, version=8, chain="b"))
        assert folding.add(words.landed("r1", rows=10, version=7)).tables["t"].version == 8


def test_a_sequence_number_is_the_last_transitions(folding):
    assert folding.state.sequence == 1
    assert fold(JobState(job="j", ledger_id="L"), []).sequence == 0


@pytest.mark.parametrize(
    "error",
    [LeaseLost("taken", owner="you", job="orders", chain="incremental"), IllegalEvent("no", job="orders", run="r1")],
)
def test_errors_cross_processes_whole(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.address, again.exit_code) == (
        type(error),
        str(error),
        error.address,
        error.exit_code,
    )
