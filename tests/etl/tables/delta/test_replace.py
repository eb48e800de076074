from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import Refused
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import incremental_run_id
from kseg.etl.rows.names import OWN_ADDRESS
from kseg.etl.tables.errors import NeedsSparkWriter
from kseg.etl.tables.removal import Bounds, OfAddresses, OfRun, Verdict
from kseg.etl.tables.values import FoundCommit, NewCommit, RunCommit

APP = "kseg/ledger/job"
BACKFILL = "kseg/ledger/job/backfill"
TP = TopicPartition("orders", 0)


def addresses(*intervals, tp=TP):
    return OfAddresses(OWN_ADDRESS, {tp: OffsetSet.of(intervals)})


def runs_by_offset(table) -> dict[int, str]:
    loaded = table.target.load()
    found = pa.table(loaded.scan(columns=["offset", "_kseg_run"]).read_all()).to_pylist()
    assert len({r["offset"] for r in found}) == len(found)
    return {r["offset"]: r["_kseg_run"] for r in found}


@pytest.fixture
def landed(lander, rows):
    """Offsets 0 to 400, 100 a file and a run."""
    table = lander()
    for n in range(4):
        table.land(rows(n * 100, n * 100 + 100), run_id=f"run-{n}", number=n + 1)
    return table


# --- replace ---------------------------------------------------------------------------------------------------------


def test_old_rows_go_and_new_ones_come_in_one_commit(landed, rows):
    before = landed.target.state()
    again = landed.write([rows(150, 320, value=b"new")], "backfill")
    outcome = landed.commit(again, "backfill", app=BACKFILL, remove=addresses((150, 320)))
    assert isinstance(outcome, NewCommit)
    commit = outcome.commit
    assert (commit.version, commit.rows, commit.removed) == (before.version + 1, 170, 170)
    assert commit.after == landed.target.state()
    expected = {n: f"run-{n // 100}" for n in range(400)} | dict.fromkeys(range(150, 320), "backfill")
    assert runs_by_offset(landed) == expected
    scanned = pa.table(landed.target.load().scan(columns=["offset", "value"], predicate='"offset" = 151').read_all())
    assert scanned.to_pylist() == [{"offset": 151, "value": b"new-151"}]


def test_files_wholly_inside_are_not_read(landed, rows, monkeypatch):
    monkeypatch.setattr("kseg.etl.tables.delta.snapshot_files.pq.ParquetFile", None)
    outcome = landed.commit([], "backfill", app=BACKFILL, remove=addresses((100, 300)))
    assert outcome.commit.removed == 200
    assert outcome.commit.files == 0
    assert set(runs_by_offset(landed)) == {*range(100), *range(300, 400)}


def test_files_outside_stay_as_they_are(landed):
    before = set(landed.target.load().file_uris())
    outcome = landed.commit([], "backfill", app=BACKFILL, remove=addresses((120, 130)))
    after = set(landed.target.load().file_uris())
    assert len(before & after) == 3
    assert (outcome.commit.removed, outcome.commit.files) == (10, 1)


def test_addresses_that_nobody_landed_remove_nothing(landed, rows):
    other = addresses((0, 400), tp=TopicPartition("orders", 1))
    outcome = landed.commit([], "backfill", app=BACKFILL, remove=other)
    assert outcome.commit.removed == 0
    assert len(runs_by_offset(landed)) == 400


def test_replacing_again_changes_nothing(landed, rows):
    for attempt in range(2):
        files = landed.write([rows(150, 250)], "backfill", attempt=attempt)
        outcome = landed.commit(files, "backfill", app=BACKFILL, remove=addresses((150, 250)))
    assert isinstance(outcome, FoundCommit)
    assert (outcome.commit.rows, outcome.commit.removed) == (100, 100)
    assert len(runs_by_offset(landed)) == 400


def test_the_commit_says_what_its_attempt_kept_whoever_finds_it(landed, rows):
    def land(attempt, kept):
        run = RunCommit("backfill", BACKFILL, 1, {"ranges": [], "kept": kept})
        return landed.target.commit(landed.write([rows(150, 250)], "backfill", attempt=attempt), run)

    first, second = land(0, "what the first kept"), land(1, "what the second kept")
    assert (type(first), type(second)) == (NewCommit, FoundCommit)
    assert (first.commit.kept, second.commit.kept) == ("what the first kept",) * 2


class OfRuns:
    """An owner of some runs' rows, below an offset."""

    def __init__(self, *mine, below=2**62):
        self.mine, self.below, self.asked = mine, below, set()

    def owned_below(self, run_id, tp):
        self.asked.add(run_id)
        return self.below if run_id in self.mine else 0

    def owns_all(self, lowest, highest, tp):
        return lowest == highest and lowest in self.mine and self.below == 2**62


def test_rows_of_other_sources_at_the_same_addresses_stay(landed, rows):
    landed.land(rows(100, 300), run_id="theirs", app="kseg/other/job", number=1)
    owner = OfRuns("run-1", "run-2", below=250)
    removal = OfAddresses(OWN_ADDRESS, {TP: OffsetSet.of([(150, 400)])}, owner)
    outcome = landed.commit([], "backfill", app=BACKFILL, remove=removal)
    assert outcome.commit.removed == 100
    left = pa.table(landed.target.load().scan(columns=["offset", "_kseg_run"])).to_pylist()
    found = {
        run: sorted(row["offset"] for row in left if row["_kseg_run"] == run) for run in ("theirs", "run-1", "run-2")
    }
    assert found == {"theirs": [*range(100, 300)], "run-1": [*range(100, 150)], "run-2": [*range(250, 300)]}
    assert owner.asked == {"theirs", "run-1", "run-2", "run-3"}, "only runs of rows that are hit"


def test_files_of_runs_that_are_all_ours_are_not_read(landed, monkeypatch):
    monkeypatch.setattr("kseg.etl.tables.delta.snapshot_files.pq.ParquetFile", None)
    removal = OfAddresses(OWN_ADDRESS, {TP: OffsetSet.of([(100, 300)])}, OfRuns("run-1", "run-2"))
    assert landed.commit([], "backfill", app=BACKFILL, remove=removal).commit.removed == 200


def test_a_predicate_names_the_runs_whose_rows_go():
    removal = OfAddresses(OWN_ADDRESS, {TP: OffsetSet.single(1, 5)}, OfRuns("mine", below=3))
    found = [(TP, "mine"), (TP, "theirs"), (TP, None)]
    assert removal.of_runs(found, "new").sql() == (
        "(`topic` = 'orders' AND `partition` = 0 AND ((`offset` >= 1 AND `offset` < 5)) AND "
        "((`_kseg_run` IN ('mine') AND `offset` < 3) OR (`_kseg_run` IN ('new') AND `offset` < 9223372036854775807)))"
    )


def test_a_lost_race_rewrites_only_what_is_new_and_leaves_no_file_behind(landed, rows, monkeypatch):
    files = landed.write([rows(150, 250)], "backfill")
    commit = DeltaTable.create_write_transaction
    read = []
    strangers = iter(range(2))

    def somebody_first(self, *args, **kwargs):
        if (n := next(strangers, None)) is not None:
            monkeypatch.setattr(DeltaTable, "create_write_transaction", commit)
            landed.land(rows(400 + n, 401 + n), run_id=f"stranger-{n}", app="kseg/ledger/other", number=n + 1)
            monkeypatch.setattr(DeltaTable, "create_write_transaction", somebody_first)
        return commit(self, *args, **kwargs)

    import kseg.etl.tables.delta.snapshot_files as snapshot_files

    opened = snapshot_files.pq.ParquetFile
    monkeypatch.setattr(snapshot_files.pq, "ParquetFile", lambda *a, **k: read.append(1) or opened(*a, **k))
    monkeypatch.setattr(DeltaTable, "create_write_transaction", somebody_first)
    outcome = landed.commit(files, "backfill", app=BACKFILL, remove=addresses((150, 250)))
    assert isinstance(outcome, NewCommit)
    assert len(read) == 4  # two files, each once for its address and once for its rows
    assert len(runs_by_offset(landed)) == 402
    on_disk = {str(path) for path in Path(landed.path).glob("*.parquet")}
    assert {uri.removeprefix("file://") for uri in landed.target.load().file_uris()} <= on_disk
    assert len(on_disk) == 4 + 1 + 2 + 2


def test_rewritten_files_of_a_refused_commit_are_deleted(landed, rows):
    before = set(Path(landed.path).glob("*.parquet"))
    landed.target.load().alter.set_table_properties({"delta.appendOnly": "true"}, raise_if_not_exists=False)
    with pytest.raises(Refused) as caught:
        landed.commit([], "backfill", app=BACKFILL, remove=addresses((150, 250)))
    assert caught.value.code == "table-append-only"
    assert set(Path(landed.path).glob("*.parquet")) == before


def test_a_change_data_feed_leaves_removal_to_spark(landed, rows):
    landed.target.load().alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    with pytest.raises(NeedsSparkWriter, match="change data feed"):
        landed.commit([], "backfill", app=BACKFILL, remove=addresses((150, 250)))
    landed.land(rows(400, 410), run_id="run-5", number=5)


def test_partitioned_tables_are_replaced_in_their_partitions(lander, rows):
    table = lander()
    batch = pa.concat_batches([rows(0, 50), rows(0, 50, partition=1), rows(0, 50, topic="a/b c")])
    table.land(batch, partition_by=["topic", "partition"])
    removal = OfAddresses(
        OWN_ADDRESS,
        {
            TopicPartition("a/b c", 0): OffsetSet.of([(10, 20)]),
            TopicPartition("orders", 1): OffsetSet.of([(0, 50)]),
        },
    )
    outcome = table.commit([], "backfill", app=BACKFILL, remove=removal)
    assert (outcome.commit.removed, outcome.commit.files) == (60, 1)
    left = [("a/b c", 0, n) for n in range(50) if not 10 <= n < 20] + [("orders", 0, n) for n in range(50)]
    assert table.offsets() == left


def test_rows_are_replaced_after_delta_rs_rewrote_the_files(landed, rows):
    # Its files come back with Arrow's view types.
    landed.target.load().optimize.compact()
    landed.target.load().update(updates={"key": "'k'"}, predicate='"offset" = 399')
    outcome = landed.commit([], "backfill", app=BACKFILL, remove=addresses((150, 250)))
    assert outcome.commit.removed == 100
    assert landed.target.remove_run(RunCommit("run-3", APP, 4)).removed == 100
    assert set(runs_by_offset(landed)) == {*range(150), *range(250, 300)}


def test_rows_are_replaced_after_spark_rewrote_the_files(landed, rows, spark):
    spark.sql(f"OPTIMIZE delta.`{landed.path}`")
    assert len(landed.target.load().file_uris()) == 1
    before = spark.read.format("delta").load(landed.path).where("offset not between 150 and 249").orderBy("offset")
    kept = before.toArrow()
    files = landed.write([rows(150, 250)], "backfill")
    outcome = landed.commit(files, "backfill", app=BACKFILL, remove=addresses((150, 250)))
    assert outcome.commit.removed == 100
    after = spark.read.format("delta").load(landed.path)
    assert after.count() == 400
    assert after.where("offset not between 150 and 249").orderBy("offset").toArrow().equals(kept)


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "x" * 40 + "1", "x" * 40 + "2"]), st.integers(0, 1), st.lists(st.integers(0, 30))
        ),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=3),
)
def test_a_replace_removes_exactly_its_addresses(new_lander, files, intervals):
    table = new_lander()
    offsets = OffsetSet.of([(start, start + length) for start, length in intervals])
    removal = OfAddresses(OWN_ADDRESS, {TopicPartition("x" * 40 + "1", 0): offsets, TopicPartition("a", 1): offsets})
    rows = []
    for number, (topic, partition, numbers) in enumerate(files):
        batch = pa.record_batch(
            {
                "topic": pa.array([topic] * len(numbers), pa.string()),
                "partition": pa.array([partition] * len(numbers), pa.int32()),
                "offset": pa.array(numbers, pa.int64()),
            }
        )
        table.land(batch, run_id=f"run-{number}", number=number + 1)
        rows += [(topic, partition, n) for n in numbers]
    outcome = table.commit([], "backfill", app=BACKFILL, remove=removal)
    left = [r for r in rows if not (r[2] in offsets and (r[0], r[1]) in removal.offsets)]
    assert table.offsets() == sorted(left)
    assert outcome.commit.removed == len(rows) - len(left)
    assert outcome.commit.after.rows == len(left)


def test_a_partition_with_nothing_to_replace_beside_one_with_something(lander):
    table = lander()
    rows = pa.record_batch(
        {
            "topic": pa.array(["orders"] * 4, pa.string()),
            "partition": pa.array([0, 0, 1, 1], pa.int32()),
            "offset": pa.array([0, 1, 0, 1], pa.int64()),
        }
    )
    table.land(rows, run_id="run-1", number=1)
    offsets = {TP: OffsetSet.single(1, 2), TopicPartition("orders", 1): OffsetSet()}
    outcome = table.commit([], "backfill", app=BACKFILL, remove=OfAddresses(OWN_ADDRESS, offsets))
    assert outcome.commit.removed == 1
    assert table.offsets() == [("orders", 0, 0), ("orders", 1, 0), ("orders", 1, 1)]


# --- verdicts by statistics ------------------------------------------------------------------------------------------


def verdict(removal, topic=("orders", "orders"), partition=(0, 0), offset=(100, 199), nulls=0):
    names = ("topic", "partition", "offset")
    given = zip(names, (topic, partition, offset), strict=True)
    return removal.verdict({name: Bounds(*bounds, nulls) for name, bounds in given})


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        ([(100, 200)], Verdict.ALL),
        ([(0, 500)], Verdict.ALL),
        ([(100, 199)], Verdict.UNKNOWN),
        ([(100, 150), (151, 300)], Verdict.UNKNOWN),
        ([(0, 100)], Verdict.NONE),
        ([(200, 300)], Verdict.NONE),
        ([(0, 50), (199, 200)], Verdict.UNKNOWN),
        ([], Verdict.NONE),
    ],
)
def test_statistics_decide_where_they_can(intervals, expected):
    assert verdict(addresses(*intervals)) is expected


def test_statistics_decide_only_where_they_are_certain():
    whole = addresses((0, 1000))
    assert verdict(whole, nulls=None) is Verdict.UNKNOWN
    assert verdict(whole, topic=("a", "z")) is Verdict.UNKNOWN
    assert verdict(whole, topic=("pa", "z")) is Verdict.NONE
    assert verdict(whole, partition=(0, 3)) is Verdict.UNKNOWN
    assert whole.verdict({}) is Verdict.UNKNOWN
    long = "t" * 40
    of_long = addresses((0, 1000), tp=TopicPartition(long, 0))
    # Cut to 32 characters, bounds are no values any more.
    assert verdict(of_long, topic=("t" * 32, "t" * 32 + "\x7f")) is Verdict.UNKNOWN
    assert OfRun("r" * 40).verdict({"_kseg_run": Bounds("r" * 32, "r" * 32, 0)}) is not Verdict.ALL
    assert OfRun("run-1").verdict({"_kseg_run": Bounds("run-1", "run-1", 0)}) is Verdict.ALL
    assert OfRun("run-1").verdict({"_kseg_run": Bounds("run-2", "run-3", 0)}) is Verdict.NONE


def test_predicates_for_spark_are_quoted():
    assert addresses((1, 5), (7, 9), tp=TopicPartition("it's", 2)).sql() == (
        "(`topic` = 'it\\'s' AND `partition` = 2 AND "
        "((`offset` >= 1 AND `offset` < 5) OR (`offset` >= 7 AND `offset` < 9)))"
    )


# --- remove a run ----------------------------------------------------------------------------------------------------


def test_a_runs_rows_are_removed_wherever_they_are(landed, rows, spark):
    spark.sql(f"OPTIMIZE delta.`{landed.path}`")
    commit = landed.target.remove_run(RunCommit("run-1", APP, 2))
    assert (commit.removed, commit.rows) == (100, 0)
    assert set(runs_by_offset(landed).values()) == {"run-0", "run-2", "run-3"}
    assert landed.target.state() == commit.after


def test_removing_again_commits_nothing(landed):
    first = landed.target.remove_run(RunCommit("run-3", APP, 4))
    again = landed.target.remove_run(RunCommit("run-3", APP, 4))
    assert again.version == first.version
    assert again.found
    assert not first.found


def test_removal_fences_an_attempt_that_has_not_landed(landed, rows):
    suspended = landed.write([rows(400, 500)], "run-4")
    commit = landed.target.remove_run(RunCommit("run-4", APP, 5))
    assert commit.removed == 0
    assert landed.target.transaction_version(APP) == 5
    assert isinstance(landed.commit(suspended, "run-4", 5), FoundCommit)
    assert len(runs_by_offset(landed)) == 400


def test_removal_does_not_take_the_chain_back(landed):
    landed.target.remove_run(RunCommit("run-1", APP, 2))
    assert landed.target.transaction_version(APP) == 4


def test_a_removal_tells_what_it_did(landed):
    version = landed.target.remove_run(RunCommit("run-1", APP, 2)).version
    log = Path(landed.path) / f"_delta_log/{version:020d}.json"
    info = json.loads(log.read_text().splitlines()[0])["commitInfo"]
    assert (info["kseg"]["run"], info["kseg"]["removed"]) == ("run-1", 100)


def test_a_run_without_rows_is_fenced_off_an_append_only_table(landed):
    """Nothing is removed, so nothing is asked of the table but an append."""
    landed.target.load().alter.set_table_properties({"delta.appendOnly": "true"})
    assert landed.target.spark_reasons(removing=OfRun("run-4")) == ()
    removed = landed.target.remove_run(RunCommit("run-4", APP, 5))
    assert (removed.removed, removed.found) == (0, False)
    assert landed.target.transaction_version(APP) == 5
    before = len(landed.offsets())
    with pytest.raises(Refused) as caught:
        landed.target.remove_run(RunCommit("run-1", APP, 2))
    assert caught.value.code == "table-append-only"
    assert len(landed.offsets()) == before


def test_a_table_that_needs_spark_for_removals_alone_is_only_asked_where_rows_match(landed):
    landed.target.load().alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    assert landed.target.spark_reasons(removing=OfRun("run-4")) == ()
    assert landed.target.spark_reasons(removing=OfRun("run-1")) == ("change data feed",)
    assert landed.target.remove_run(RunCommit("run-4", APP, 5)).removed == 0


def test_rows_of_a_table_made_anew_are_removed_by_ids_that_name_their_ledger(lander, rows):
    """It has no app transaction of the run. An id without a mark may be another ledger's run."""
    marked, unmarked = incremental_run_id("ledger", "job", 2), "0" * 32
    table = lander()
    for n, run_id in enumerate((marked, unmarked)):
        table.land(rows(n * 10, n * 10 + 10), run_id=run_id, app=f"of somebody else {n}")
    assert table.target.remove_run(RunCommit(marked, APP, 2)).removed == 10
    assert table.target.remove_run(RunCommit(unmarked, f"{APP}/{unmarked}", 1)).removed == 0
    assert set(runs_by_offset(table).values()) == {unmarked}
    assert table.target.transaction_version(APP) == 2


def test_files_that_delta_rs_cannot_name_leave_removal_to_spark(landed, rows, spark):
    """Spark writes characters beyond ASCII into the log as they are; delta-rs would encode them, and remove no file."""
    path = f"{landed.path}-é"
    frame = spark.read.format("delta").load(landed.path)
    frame.selectExpr("* except (topic)", "'é' topic").write.format("delta").partitionBy("topic").save(path)
    target = type(landed)(type(landed.target)(path))
    assert target.target.spark_reasons() == ()
    reasons = ("paths of files that delta-rs would encode in another way",)
    assert target.target.spark_reasons(removing=True) == reasons
    with pytest.raises(NeedsSparkWriter, match="encode in another way"):
        target.commit([], "backfill", app=BACKFILL, remove=addresses((150, 250), tp=TopicPartition("é", 0)))
    assert len(target.offsets()) == 400
