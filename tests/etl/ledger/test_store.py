"""Transitions on real Delta tables: what is written, what a loser does, and what damage looks like."""

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from kseg.etl.errors import ConfigurationError, KsegError, Refused, RetriableFailure
from kseg.etl.ledger import codec, opening
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.bases import BasePinned
from kseg.etl.ledger.errors import IllegalEvent, LeaseLost
from kseg.etl.ledger.maintenance import compact, retain, summarise
from kseg.etl.ledger.store import Ledger


@pytest.fixture
def leased(ledger, words):
    """The ledger, with the incremental chain of `orders` leased by `me`."""
    ledger.transition("orders", lambda state: [words.lease()])
    return ledger


def boundary(words, number, **fields):
    return words.step(ev.BoundaryPinned, "", time_ms=number, offsets={words.tp: number}, **fields)


def pin(ledger, words, number, job="orders"):
    return ledger.transition(job, lambda state: [boundary(words, number)])


class TestOpening:
    def test_a_ledger_is_made_once_and_keeps_its_id(self, tmp_path):
        made = Ledger.open(tmp_path / "deep" / "ledger")
        assert Ledger.open(tmp_path / "deep" / "ledger").id == made.id
        assert Ledger.open(str(tmp_path / "deep" / "ledger"), create=False).id == made.id
        assert made.jobs() == []
        assert made.read("orders").sequence == 0

    def test_relative_paths_are_those_of_now(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        ledger = Ledger.open("ledger")
        monkeypatch.chdir("/")
        assert ledger.read("orders").ledger_id == ledger.id

    def test_processes_that_make_it_at_once_agree_on_one(self, tmp_path, worker, scale):
        started = [worker("create", "-") for _ in range(3)]
        for process in started:
            assert process.stdout.readline() == "ready\n"
        for attempt in range(scale(8, 100)):
            path = tmp_path / f"ledger{attempt}"
            together = time.time() + 0.05
            for process in started:
                process.stdin.write(f"{together} {path}\n")
                process.stdin.flush()
            ids = {process.stdout.readline().strip() for process in started}
            assert ids == {Ledger.open(path, create=False).id}
            assert DeltaTable(path).version() == 0

    def test_no_ledger_and_none_wanted(self, tmp_path):
        with pytest.raises(Refused, match="no ledger") as refused:
            Ledger.open(tmp_path / "none", create=False)
        assert refused.value.code == "ledger-missing"
        assert not (tmp_path / "none").exists()

    def test_another_delta_table_is_no_ledger(self, tmp_path):
        write_deltalake(tmp_path / "sink", pa.table({"value": [1]}))
        with pytest.raises(Refused) as refused:
            Ledger.open(tmp_path / "sink")
        assert refused.value.code == "ledger-foreign"

    def test_files_without_a_log_are_a_lost_ledger_and_not_a_new_one(self, leased):
        shutil.rmtree(Path(leased.path) / "_delta_log")
        with pytest.raises(Refused) as refused:
            Ledger.open(leased.path)
        assert refused.value.code == "ledger-damaged"

    def test_a_ledger_that_is_made_and_written_meanwhile_is_not_a_lost_one(self, leased, monkeypatch):
        looks = [None]
        load = opening.load
        monkeypatch.setattr(opening, "load", lambda *at: looks.pop() if looks else load(*at))
        opened = Ledger.open(leased.path)
        assert not looks
        assert opened.id == leased.id
        assert opened.read("orders").sequence == 1

    def test_a_later_format_is_refused(self, ledger):
        DeltaTable(ledger.path).alter.set_table_properties({"kseg.ledgerFormat": "2"}, raise_if_not_exists=False)
        with pytest.raises(Refused) as refused:
            Ledger.open(ledger.path)
        assert refused.value.code == "ledger-newer"

    @pytest.mark.parametrize("key", ["AWS_S3_ALLOW_UNSAFE_RENAME", "allow_unsafe_rename"])
    def test_a_store_that_may_overwrite_a_commit_is_refused(self, tmp_path, key):
        with pytest.raises(Refused) as refused:
            Ledger.open(tmp_path / "ledger", {key: "true"})
        assert refused.value.code == "ledger-unsafe-store"

    def test_a_store_that_does_not_answer_is_a_retriable_failure(self, tmp_path):
        options = {
            "aws_endpoint": "http://127.0.0.1:9",
            "aws_region": "x",
            "aws_access_key_id": "a",
            "aws_secret_access_key": "b",
            "allow_http": "true",
            "max_retries": "0",
            "retry_timeout": "1s",
        }
        with pytest.raises(RetriableFailure) as failed:
            Ledger.open("s3://bucket/ledger", options)
        assert failed.value.exit_code == 4

    def test_a_path_that_is_a_file(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(KsegError):
            Ledger.open(tmp_path / "file")


class TestTransitions:
    def test_a_state_read_is_the_state_that_was_written(self, leased, words):
        planned = words.plan(leased.read("orders"), "r1", (0, 10))
        written = leased.transition("orders", lambda state: [planned, boundary(words, 7)])
        assert leased.read("orders") == written
        read = Ledger.open(leased.path).read("orders")
        assert read == written
        assert (read.sequence, read.runs["r1"].plan) == (2, planned.plan)

    def test_events_of_some_kinds_are_read_without_parsing_the_others(self, leased, words, monkeypatch):
        pin(leased, words, 1)
        monkeypatch.setattr(
            codec, "_adapter", lambda kind, of=codec._adapter: of(kind) if kind is ev.BoundaryPinned else 1 / 0
        )
        [entry] = leased.events("orders", [ev.BoundaryPinned])
        assert (entry.sequence, entry.event.time_ms) == (2, 1)
        assert leased.events("orders", [ev.RunRefused]) == []

    def test_nothing_decided_writes_nothing(self, leased):
        before = leased.read("orders")
        assert leased.transition("orders", lambda state: []) == before
        assert leased.read("orders").version == before.version

    def test_what_decide_raises_comes_out_as_it_is(self, leased):
        errors = [OSError("no"), CommitFailedError("of another table"), RetriableFailure("x"), KeyboardInterrupt()]
        for error in errors:

            def decide(state, error=error):
                raise error

            with pytest.raises(type(error)) as raised:
                leased.transition("orders", decide)
            assert raised.value is error
        assert leased.read("orders").sequence == 1

    def test_illegal_events_are_not_written(self, leased, words):
        with pytest.raises(IllegalEvent):
            leased.transition("orders", lambda state: [boundary(words, 1), words.step(ev.Finished, "r1")])
        with pytest.raises(LeaseLost):
            leased.transition("orders", lambda state: [boundary(words, 1, owner="you")])
        assert Ledger.open(leased.path).read("orders").sequence == 1

    def test_the_loser_reads_again_and_decides_again(self, leased, words):
        rival = Ledger.open(leased.path)
        seen = []

        def decide(state):
            seen.append(state.sequence)
            if len(seen) < 4:
                pin(rival, words, len(seen))
            return [boundary(words, 100)]

        state = leased.transition("orders", decide)
        assert seen == [1, 2, 3, 4]
        assert state.sequence == 5
        assert state.boundary(words.tp, 3) == 3

    def test_the_loser_may_find_nothing_left_to_do(self, leased, words):
        rival = Ledger.open(leased.path)

        def decide(state):
            if state.boundary(words.tp, 1) is not None:
                return []
            pin(rival, words, 1)
            return [boundary(words, 1)]

        assert leased.transition("orders", decide).sequence == 2

    def test_other_jobs_do_not_disturb(self, leased, words):
        leased.transition("other", lambda state: [words.lease()])
        seen = []

        def decide(state):
            seen.append(state.sequence)
            for number in range(3):
                pin(leased, words, number, job="other")
            return [boundary(words, 1)]

        assert leased.transition("orders", decide).sequence == 2
        assert seen == [1]
        assert leased.jobs() == ["orders", "other"]

    def test_a_compaction_in_between_makes_it_decide_again(self, leased, words):
        for number in range(5):
            pin(leased, words, number)
        seen = []

        def decide(state):
            seen.append(state.sequence)
            assert compact(leased, "orders", small_files=1) == (len(seen) == 1)
            return [boundary(words, 10)]

        assert leased.transition("orders", decide).sequence == 7
        assert seen == [6, 6]

    def test_upkeep_in_between_makes_it_decide_again(self, leased, words):
        for number in range(5):
            pin(leased, words, number)
        later = leased.read("orders").updated_at + timedelta(days=100)
        seen = []

        def decide(state):
            seen.append(state.sequence)
            if len(seen) == 1:
                assert summarise(leased, "orders", after=0)
                assert retain(leased, "orders", now=later)
            return [boundary(words, 10)]

        assert leased.transition("orders", decide).sequence == 7
        assert seen == [6, 6]
        assert Ledger.open(leased.path).read("orders").boundary(words.tp, 4) == 4

    def test_it_gives_up_at_its_deadline(self, leased, words):
        rival = Ledger.open(leased.path)
        numbers = iter(range(10_000))

        def decide(state):
            pin(rival, words, next(numbers))
            return [boundary(words, 10_000)]

        with pytest.raises(RetriableFailure, match="tries"):
            leased.transition("orders", decide, deadline=0.5)
        assert leased.read("orders").boundary(words.tp, 10_000) is None

    @pytest.mark.parametrize("error", [OSError("connection reset"), CommitFailedError("version exists")])
    @pytest.mark.parametrize("others", [0, 3])
    def test_a_commit_whose_answer_was_lost_is_made_once(self, leased, words, monkeypatch, error, others):
        rival = Ledger.open(leased.path)
        commit = Ledger._commit
        calls = []

        def commits_and_fails(self, *args):
            commit(self, *args)
            if self is leased:
                calls.append(args)
                for number in range(others):
                    pin(rival, words, number)
                raise error

        monkeypatch.setattr(Ledger, "_commit", commits_and_fails)
        state = leased.transition("orders", lambda state: [words.plan(state, "r1", (0, 10))])
        assert len(calls) == 1
        assert state.sequence == 2 + others
        assert state.runs["r1"].phase == "planned"

    def test_a_commit_that_failed_is_made_again(self, leased, words, monkeypatch):
        commit = Ledger._commit
        failures = iter([OSError("reset"), CommitFailedError("busy")])

        def fails_at_first(self, *args):
            for failure in failures:
                raise failure
            commit(self, *args)

        monkeypatch.setattr(Ledger, "_commit", fails_at_first)
        assert pin(leased, words, 1).sequence == 2
        assert Ledger.open(leased.path).read("orders").sequence == 2

    def test_threads_share_a_ledger(self, leased, words):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: pin(leased, words, number), range(24)))
        state = Ledger.open(leased.path).read("orders")
        assert state.sequence == 25
        assert len(state.boundaries) == 24

    def test_a_job_has_a_name(self, ledger, words):
        with pytest.raises(ValueError, match="name"):
            pin(ledger, words, 1, job="")

    @pytest.mark.parametrize("job", ["o'rd\"ers", "a=b/c d%41", "ü é", "x" * 200, "orders --", "NULL"])
    def test_job_names_are_only_names(self, ledger, words, job):
        ledger.transition(job, lambda state: [words.lease()])
        for number in range(3):
            pin(ledger, words, number, job=job)
        assert compact(ledger, job, small_files=1)
        read = Ledger.open(ledger.path).read(job)
        assert (read.job, read.sequence) == (job, 4)
        assert summarise(ledger, job, after=0)
        assert retain(ledger, job, now=read.updated_at + timedelta(days=100))
        assert len(ledger.events(job)) == 1
        assert Ledger.open(ledger.path).read(job).boundaries == read.boundaries
        assert ledger.jobs() == [job]


def test_two_processes_race_and_no_transition_is_lost_or_doubled(tmp_path, worker, scale):
    writers, each = scale((2, 25), (2, 250))
    path = tmp_path / "ledger"
    started = [worker("race", path, chain, each) for chain in range(1, writers + 1)]
    for process in started:
        assert process.stdout.readline() == "ready\n"
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        assert process.communicate(timeout=600)[0] == "done\n"
    ledger = Ledger.open(path)
    assert ledger.read("orders").sequence == writers * (each + 1)
    entries = [entry for entry in ledger.events("orders") if isinstance(entry.event, ev.BoundaryPinned)]
    written = sorted(entry.event.time_ms for entry in entries)
    assert written == [chain * 1_000_000 + number for chain in range(1, writers + 1) for number in range(each)]
    # Each was decided on the very state that it follows.
    assert all(list(entry.event.offsets.values()) == [entry.sequence] for entry in entries)
    assert len({entry.sequence for entry in entries}) == len(entries)


class TestDamage:
    """Whatever takes events away from the table must not look like a job that never did them."""

    @pytest.fixture
    def history(self, leased, words):
        for number in range(6):
            pin(leased, words, number)
        return leased

    def refused(self, ledger):
        with pytest.raises(Refused) as refused:
            Ledger.open(ledger.path).read("orders")
        assert refused.value.address["job"] == "orders"
        return refused.value.code

    @pytest.mark.parametrize("gone", ["seq = 1", "seq = 4", "seq = 7", "seq > 3", "true"])
    def test_deleted_events(self, history, gone):
        DeltaTable(history.path).delete(gone)
        assert self.refused(history) == "ledger-damaged"

    def test_a_part_of_a_transition(self, history, words):
        history.transition("orders", lambda state: [boundary(words, 10), boundary(words, 11)])
        DeltaTable(history.path).delete("part = 1")
        assert self.refused(history) == "ledger-damaged"

    def test_a_restore(self, history):
        table = DeltaTable(history.path)
        table.restore(table.version() - 2)
        assert self.refused(history) == "ledger-damaged"

    def test_two_transitions_of_one_number(self, history):
        table = DeltaTable(history.path)
        rows = pa.table(table.scan(predicate="seq = 3"))
        names = pa.array(["another"] * len(rows), rows.schema.field("transition").type)
        write_deltalake(
            table, rows.set_column(rows.column_names.index("transition"), "transition", names), mode="append"
        )
        assert self.refused(history) == "ledger-damaged"

    def test_a_data_file_that_is_gone(self, history):
        next(Path(history.path).glob("job=orders/*.parquet")).unlink()
        assert self.refused(history) == "ledger-damaged"

    def test_an_older_copy_put_back_under_a_living_process(self, leased, words, tmp_path):
        shutil.copytree(leased.path, tmp_path / "copy")
        pin(leased, words, 1)
        shutil.rmtree(leased.path)
        os.rename(tmp_path / "copy", leased.path)  # noqa: PTH104
        with pytest.raises(Refused) as refused:
            leased.read("orders")
        assert refused.value.code == "ledger-damaged"
        with pytest.raises(Refused):
            pin(leased, words, 2)

    def test_a_new_ledger_in_its_place(self, leased, words):
        shutil.rmtree(leased.path)
        with pytest.raises(Refused) as refused:
            leased.read("orders")
        assert refused.value.code == "ledger-missing"
        Ledger.open(leased.path)
        with pytest.raises(Refused) as refused:
            pin(leased, words, 1)
        assert refused.value.code == "ledger-foreign"

    def test_events_of_another_ledger(self, leased, words, tmp_path):
        """A copy of the rows into a new table has another id, which the plans' app transactions betray."""
        leased.transition("orders", lambda state: [words.plan(state, "r1", (0, 10))])
        rows = pa.table(DeltaTable(leased.path).scan())
        copy = Ledger.open(tmp_path / "copy")
        properties = copy.commit_properties("orders", 2, [], name="copied")
        write_deltalake(DeltaTable(copy.path), rows, mode="append", commit_properties=properties)
        assert self.refused(copy) == "ledger-damaged"

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"kind": "from_the_future"}, "ledger-newer"),
            ({"payload": '{"time_ms": 1, "offsets": {}, "decisive": 1}'}, "ledger-newer"),
            ({"payload": '{"time_ms": 1}'}, "ledger-damaged"),
            ({"payload": "{"}, "ledger-damaged"),
            ({"owner": "nobody"}, "ledger-damaged"),
        ],
    )
    def test_rows_that_cannot_be_understood(self, history, changes, code):
        updates = {column: "'" + value.replace("'", "''") + "'" for column, value in changes.items()}
        DeltaTable(history.path).update(updates=updates, predicate="seq = 3")
        assert self.refused(history) == code


def test_a_usual_ledger_is_read_in_a_tenth_of_a_second(ledger, words):
    ledger.transition("orders", lambda state: [words.lease(), words.step(BasePinned, "", bases={}, reason="group")])
    for number in range(8):
        for event in words.whole_run(ledger.read("orders"), f"r{number}", (number * 10, number * 10 + 10)):
            ledger.transition("orders", lambda state, event=event: [event])
    times = []
    for _ in range(5):
        began = time.process_time()
        assert Ledger.open(ledger.path).read("orders").sequence == 41
        times.append(time.process_time() - began)
    # 40 files, the most that maintenance leaves. Measured: 0.05 s of a processor.
    assert min(times) < 0.5


def test_a_ledger_behind_a_link_that_delta_rs_takes_for_another_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a%20b")
    for place in (tmp_path / "link", tmp_path / "a%20b", tmp_path / "a[b]"):
        with pytest.raises(ConfigurationError, match="delta-rs") as caught:
            Ledger.open(place)
        assert caught.value.address == {"ledger": str(place)}
    assert [path.name for path in tmp_path.iterdir()] == ["link"]
