"""A ledger rebuilt from tables: what it does to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import incremental_run_id, request_run_id
from kseg.etl.operations.rebuild_ledger import _Rebuilding
from kseg.etl.operations.table_history import TableHistory
from kseg.etl.rows.names import KSEG_ADDRESS, OWN_ADDRESS, RUN_COLUMN
from kseg.etl.source.resolve import LogBounds
from kseg.etl.tables.values import CommitRecord, RunCommit
from kseg.etl.telemetry.progress import NULL_PROGRESS

TP = TopicPartition("orders", 0)


class Target:
    """Notes what is done to it, and under which lease."""

    def __init__(self) -> None:
        self.holder: Any = None
        self.done: list[tuple[RunCommit, Any]] = []

    @contextmanager
    def exclusively(self, lease: Lease, *, wait: timedelta) -> Iterator[None]:
        self.holder = lease
        yield
        self.holder = None

    def remove_run(self, run: RunCommit) -> None:
        self.done.append((run, self.holder))


def test_lost_drivers_are_fenced_with_the_tables_lease() -> None:
    """In every table, and above the newest run of any: a run that has landed in one may have yet to land in another."""
    job = SimpleNamespace(name="job", commits_offsets=False)
    targets: dict[str, Target] = {"t": Target(), "idle": Target(), "other": Target()}
    now = SimpleNamespace(target=targets.__getitem__, transaction_version=lambda *_: 0)
    context = SimpleNamespace(job=job, targets=now, deadline=SimpleNamespace(left=lambda: timedelta(0)))
    found: dict[str, Any] = {"t": {"kseg/lost/job": 7}, "idle": {"kseg/lost/job": 5}, "other": {"kseg/x/job": 3}}
    lease = cast("Any", object())
    unused = cast("Any", None)
    _Rebuilding(cast("Any", context), unused, None, {}, found, ("lost",), ("lost",), ()).fence_lost_drivers(lease)
    for target in targets.values():
        assert target.done == [
            (RunCommit("ledger-rebuilt", "kseg-closed/lost/job", 1), lease),
            (RunCommit("ledger-rebuilt", "kseg/lost/job", 8), lease),
        ]


def test_no_table_is_closed_if_one_of_them_cannot_be() -> None:
    """A side table with features of Spark's own writer is refused; the lost ledger is of use until then."""
    rows = Target()

    def refused(table: str, *, setting: str) -> Target:
        raise ConfigurationError.of(setting, f"{table} has features that only Spark's own writer can honour")

    job = SimpleNamespace(name="job", commits_offsets=False, quarantine=None, dead_letters="letters")
    targets = SimpleNamespace(target=lambda _: rows, side_target=refused, transaction_version=lambda *_: 0)
    context: Any = SimpleNamespace(job=job, targets=targets, deadline=SimpleNamespace(left=lambda: timedelta(0)))
    found: dict[str, Any] = {"t": {"kseg/lost/job": 7}, "letters": {}}
    unused = cast("Any", None)
    beside = {"letters": unused}
    rebuilding = _Rebuilding(context, unused, None, {}, found, ("lost",), ("lost",), (), beside=beside)
    with pytest.raises(ConfigurationError, match=r"sink\.dead_letters: letters has features"):
        rebuilding.fence_lost_drivers(cast("Any", object()))
    assert rows.done == []


class Table:
    """Rows (run, offset) of one partition, and the commits of the runs that its history still has."""

    def __init__(
        self, rows: dict[str, tuple[int, int]], generations: dict[str, int], routed: Sequence[str] = ()
    ) -> None:
        """routed: the tables for which each run may have had rows."""
        self.rows, self.generations, self.routed = rows, generations, routed

    def column_names(self) -> list[str]:
        return [*KSEG_ADDRESS, RUN_COLUMN]

    def scan(self, columns: Any) -> Iterator[pa.RecordBatch]:
        for run, (start, end) in self.rows.items():
            count = end - start
            values = [["orders"] * count, [0] * count, list(range(start, end)), [run] * count]
            yield pa.RecordBatch.from_arrays([pa.array(of_one) for of_one in values], [*columns])

    def rows_of(self, run: str) -> int:
        start, end = self.rows[run]
        return end - start

    def history(self) -> Iterator[CommitRecord]:
        for run, generation in self.generations.items():
            facts: dict[str, Any] = {"run": run, "mode": "incremental", "ledger": "lost", "job": "job"}
            facts["ranges"] = [["orders", 0, *self.rows[run]]]
            facts["rows"] = self.rows_of(run)
            if self.routed:
                facts["routed"] = [*self.routed]
            if generation:
                facts["generations"] = [["orders", 0, generation]]
            yield CommitRecord(0, details=facts)


class Letters(Table):
    """Dead letters (run, offset). reads: what each run read, by its commit there, which releases before did not say."""

    def __init__(
        self, letters: dict[str, tuple[int, int]], reads: dict[str, tuple[int, int]], generations: dict[str, int]
    ) -> None:
        super().__init__(letters, generations)
        self.reads = reads

    def column_names(self) -> list[str]:
        return [*OWN_ADDRESS, RUN_COLUMN]

    def history(self) -> Iterator[CommitRecord]:
        for run, generation in self.generations.items():
            facts: dict[str, Any] = {"run": run, "mode": "incremental", "ledger": "lost", "job": "job", "ranges": []}
            if run in self.reads:
                facts["read"] = [["orders", 0, *self.reads[run]]]
                facts["generations"] = [["orders", 0, generation]] if generation else []
            yield CommitRecord(0, details=facts)


def rebuilt(
    rows: dict[str, tuple[int, int]], generations: dict[str, int], *, kind: type[Table] = Table, end: int = 60
) -> _Rebuilding:
    return rebuilt_from({"t": kind(rows, generations)}, end=end)


def rebuilt_from(tables: dict[str, Table], *, end: int, letters: Letters | None = None) -> _Rebuilding:
    targets = SimpleNamespace(scan=lambda name, columns: tables[name].scan(columns))
    context = SimpleNamespace(job=SimpleNamespace(name="job"), progress=NULL_PROGRESS, targets=targets)
    snapshot = SimpleNamespace(topics={"orders": None}, bounds={TP: LogBounds(0, end, end)}, partitions=[TP])
    beside = {} if letters is None else {"letters": letters}
    found: dict[str, Any] = {name: {"kseg/lost/job": 9} for name in (*tables, *beside)}
    given: list[Any] = [context, snapshot, None, tables, found]
    rebuilding = _Rebuilding(*given, ("lost",), ("lost",), (), beside=cast("Any", beside))
    rebuilding.read_rows()
    return rebuilding


def run(number: int) -> str:
    return incremental_run_id("lost", "job", number)


def test_offsets_that_only_rows_of_before_a_truncation_have_are_open() -> None:
    """The log was cut off at 35, where the third run began; the second had read up to 100."""
    rows = {run(1): (0, 20), run(2): (20, 100), run(3): (35, 50), run(4): (50, 55)}
    first, second, third, fourth = rows
    for history in (
        {first: 0, second: 0, third: 1, fourth: 1},
        {third: 1, fourth: 1},
        {fourth: 1},
    ):
        found = rebuilt(rows, history)
        assert found.landed[TP] == OffsetSet.single(0, 55)
        assert found.reopened == {TP: (50 if history == {fourth: 1} else 35,)}


def test_later_runs_go_on_counting_generations() -> None:
    rows = {run(1): (0, 20), run(2): (10, 30), run(3): (5, 55)}
    found = rebuilt(rows, dict(zip(rows, (0, 1, 2), strict=True)))
    assert found.landed[TP] == OffsetSet.single(0, 55)
    assert found.reopened == {TP: (5, 5)}


def test_runs_of_the_newest_generation_are_told_from_those_before() -> None:
    """By their number, also those that the histories do not go back to; backfills one by one."""
    before, after = (request_run_id("lost", "job", f"{digit}" * 32) for digit in "ab")
    first, second, third = run(1), run(2), run(3)
    rows = {first: (0, 20), before: (0, 20), second: (5, 30), third: (30, 40), after: (5, 40)}
    read = rebuilt(rows, {before: 0, second: 1, third: 1, after: 1}).lost_runs
    assert read is not None
    assert [read.generation(one, TP) for one in (first, before)] == [0, 0]
    assert [read.generation(one, TP) for one in (second, third, after, run(9))] == [1] * 4
    assert read.generation(request_run_id("lost", "job", "c" * 32), TP) is None, "no history shows it"
    assert read.generation(second, TopicPartition("orders", 1)) == 0


@given(st.data())
def test_what_counts_as_older_when_it_is_read_does_so_when_it_is_replaced(data: st.DataObject) -> None:
    """Runs of two lost ledgers, numbered or not; the histories show some of them."""
    change = {ledger: data.draw(st.integers(0, 4), label=f"runs of {ledger} before") for ledger in ("lost", "other")}
    rows: dict[str, tuple[int, int]] = {}
    generations: dict[str, int] = {}
    for ledger, before in change.items():
        for number in range(1, 6):
            numbered = data.draw(st.booleans(), label="numbered")
            named = incremental_run_id(ledger, "job", number), request_run_id(ledger, "job", f"{number}" * 32)
            run_id = named[0 if numbered else 1]
            rows[run_id] = (number, number + 30)
            if data.draw(st.booleans(), label="in the history"):
                generations[run_id] = int(number > before)
    table = cast("Any", Table(rows, generations))
    history = TableHistory.of(table)
    read = history.generations_read()
    for run_id in generations:
        if TP in history.changes:
            assert read.generation(run_id, TP) == (0 if history.is_older(run_id, TP) else 1)
        else:
            assert read.generation(run_id, TP) == 0


def test_without_an_accepted_change_all_rows_count() -> None:
    rows = {run(1): (0, 20), run(2): (20, 60)}
    found = rebuilt(rows, dict.fromkeys(rows, 0))
    assert found.landed[TP] == OffsetSet.single(0, 60)
    assert not found.reopened


class Empty(Table):
    """Has the commits of runs that landed without a row."""

    def rows_of(self, run: str) -> int:
        return 0

    def scan(self, columns: Any) -> Iterator[pa.RecordBatch]:
        return iter(())


@pytest.mark.parametrize("told", [True, False], ids=["now", "by releases before"])
def test_a_run_of_dead_letters_alone_has_landed_its_whole_range(told: bool) -> None:
    one = run(1)
    letters = Letters({one: (3, 5)}, {one: (0, 20)} if told else {}, {one: 0})
    found = rebuilt_from({"t": Empty({one: (0, 20)}, {one: 0})}, end=60, letters=letters)
    assert found.landed[TP] == OffsetSet.single(0, 20)
    assert (found.bases(), found.set_aside) == ({TP: 0}, 2)


@pytest.mark.parametrize("told", [True, False], ids=["now", "by releases before"])
def test_a_run_that_died_behind_its_dead_letters_begins_where_it_began_or_wherever_the_job_does(told: bool) -> None:
    one = run(1)
    letters = Letters({one: (3, 5)}, {one: (0, 20)} if told else {}, {one: 0})
    found = rebuilt_from({"t": Table({}, {})}, end=60, letters=letters)
    assert found.landed[TP] == OffsetSet.single(3, 5)
    assert found.bases() == ({TP: 0} if told else {})


@pytest.mark.parametrize("told", [True, False], ids=["now", "by releases before"])
def test_dead_letters_of_a_former_generation_count_below_its_change_alone(told: bool) -> None:
    """The log was cut off at 35; what the first run had set aside above are other records now."""
    old, new = run(1), run(2)
    reads = {old: (0, 40), new: (35, 38)}
    letters = Letters({old: (30, 40), new: (36, 37)}, reads if told else {}, {old: 0, new: 1})
    found = rebuilt_from({"t": Table(reads, {old: 0, new: 1})}, end=60, letters=letters)
    assert found.landed[TP] == OffsetSet.single(0, 38)
    assert found.reopened == {TP: (35,)}


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_a_table_without_rows_of_the_newest_generation_has_its_older_rows_below_it_alone(names: Sequence[str]) -> None:
    """The log was cut off at 35 and is at 45: rows above counted as landed, so that records there were never read."""
    old, new = run(1), run(2)
    routed = ("a", "b")
    tables = {"a": Table({old: (0, 50), new: (35, 45)}, {new: 1}, routed), "b": Table({old: (0, 55)}, {}, routed)}
    found = rebuilt_from({name: tables[name] for name in names}, end=60)
    assert found.landed[TP] == OffsetSet.single(0, 45)
    assert found.reopened == {TP: (35,)}


def test_offsets_with_gaps_are_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transform that drops every other record leaves a range for each row: a union for each batch, and for each run
    of the history, sorted all that had been found before."""
    sorted_ranges = 0
    whole = OffsetSet.of

    def of(intervals: Iterable[tuple[int, int]]) -> OffsetSet:
        nonlocal sorted_ranges
        listed = list(intervals)
        sorted_ranges += len(listed)
        return whole(listed)

    class Filtered(Table):
        def scan(self, columns: Any) -> Iterator[pa.RecordBatch]:
            for batch in super().scan(columns):
                yield batch.filter(pc.equal(pc.bit_wise_and(batch.column(2), 1), 1))

    rows = {run(number): (100 * number, 100 * number + 100) for number in range(60)}
    monkeypatch.setattr(OffsetSet, "of", of)
    found = rebuilt(rows, {}, kind=Filtered, end=6000)
    assert found.landed[TP].length == 3000
    assert sorted_ranges <= 3 * 3000
    sorted_ranges = 0
    assert rebuilt(rows, dict.fromkeys(rows, 0), kind=Filtered, end=6000).landed[TP] == OffsetSet.single(0, 6000)
    assert sorted_ranges <= 3 * 3000
