"""Table objects that are used again see what loading would see, and are loaded where a refresh could not know."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kseg.etl.errors import Refused
from kseg.etl.ledger import table_objects
from kseg.etl.ledger.events import BoundaryPinned
from kseg.etl.ledger.store import Ledger


@pytest.fixture
def leased(ledger, words):
    """The ledger, with a transition of `orders` in it."""
    ledger.transition("orders", lambda state: [words.lease()])
    return ledger


@pytest.fixture
def loads(leased, monkeypatch):
    """A list that grows by one for each table object that the ledger loads."""
    loaded = []
    load = leased._objects._load
    monkeypatch.setattr(leased._objects, "_load", lambda: (loaded.append(1), load())[1])
    return loaded


def boundary(words, number):
    return words.step(BoundaryPinned, "", time_ms=number, offsets={words.tp: number})


def pin(ledger, words, number, job="orders"):
    """A transition, with the job's lease in its first one."""
    pinned = boundary(words, number)
    return ledger.transition(job, lambda state: [pinned] if state.sequence else [words.lease(), pinned])


def test_what_this_process_wrote_is_read_without_loading_again(leased, words, loads):
    for number in range(5):
        assert pin(leased, words, number).sequence == number + 2
        assert leased.read("orders").sequence == number + 2
    assert loads == []
    assert Ledger.open(leased.path).read("orders") == leased.read("orders")


def test_what_others_wrote_is_seen_without_loading_again(leased, words, loads):
    other = Ledger.open(leased.path)
    for number in range(4):
        pin(other, words, number)
        pin(other, words, number, job="payments")
        assert leased.read("orders") == other.read("orders")
        assert leased.read("payments") == other.read("payments")
    assert loads == []
    assert pin(leased, words, 9).sequence == 6


def test_many_commits_of_others_are_loaded(leased, words, loads):
    other = Ledger.open(leased.path)
    for number in range(table_objects.MOST_NEW + 1):
        pin(other, words, number)
    assert leased.read("orders") == other.read("orders")
    assert loads == [1]


def test_an_object_is_loaded_again_before_it_knows_too_many_files(leased, words, loads, monkeypatch):
    monkeypatch.setattr(table_objects, "MOST_IN_ALL", 3)
    for number in range(12):
        pin(leased, words, number)
    assert len(loads) == 3


def test_a_commit_that_stepped_over_anothers_is_not_gone_on_from(leased, words, loads):
    """delta-rs commits behind the other job's transition, which this process has then not seen."""
    other = Ledger.open(leased.path)
    pin(leased, words, 0, job="payments")

    def decide(state):
        if other.read("payments").sequence == 1:
            pin(other, words, 1, job="payments")
        return [boundary(words, 2)]

    leased.transition("orders", decide)
    assert leased.read("payments").sequence == 2
    assert loads == [1]


def test_a_look_within_a_decision_does_not_refresh_the_object_that_was_decided_on(leased, words):
    """Else both commits would go through: delta-rs compares with what the object has seen."""
    other = Ledger.open(leased.path)
    seen = []

    def decide(state):
        seen.append(state.sequence)
        if len(seen) == 1:
            pin(other, words, 1)
            assert leased.read("orders").sequence == 2
        return [boundary(words, 2)]

    assert leased.transition("orders", decide).sequence == 3
    assert seen == [1, 2]


def test_threads_that_look_at_once_have_objects_of_their_own(leased, words):
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: pin(leased, words, number, job=f"job-{number % 4}"), range(24)))
    fresh = Ledger.open(leased.path)
    for number in range(4):
        assert fresh.read(f"job-{number}").sequence == 6
        assert leased.read(f"job-{number}") == fresh.read(f"job-{number}")


def test_a_change_by_another_writer_is_loaded(leased, words, loads):
    DeltaTable(leased.path).optimize.compact()
    DeltaTable(leased.path).delete("seq = 0")
    leased.read("orders")
    assert loads == []  # neither made a commit
    DeltaTable(leased.path).alter.set_table_properties({"delta.checkpointInterval": "20"})
    leased.read("orders")
    assert loads == [1]
    leased.read("orders")
    assert loads == [1, 1], "a commit without a name is loaded each time"
    pin(leased, words, 1)
    leased.read("orders")
    assert loads == [1, 1, 1, 1], "nor is an object that stood on one used again"
    leased.read("orders")
    pin(leased, words, 2)
    assert loads == [1, 1, 1, 1]


@pytest.mark.parametrize("versions", [1, 2, 3])
def test_a_copy_put_back_that_another_job_went_on_with_is_seen(leased, words, tmp_path, versions):
    """Its log may have as many versions as the one that was there, and more: counting alone would not show it."""
    shutil.copytree(leased.path, tmp_path / "copy")
    pin(leased, words, 1)
    pin(leased, words, 2)
    shutil.rmtree(leased.path)
    os.rename(tmp_path / "copy", leased.path)  # noqa: PTH104
    for number in range(versions):
        pin(Ledger.open(leased.path), words, number, job="payments")
    with pytest.raises(Refused) as refused:
        leased.read("orders")
    assert refused.value.code == "ledger-damaged"
    with pytest.raises(Refused) as refused:
        pin(leased, words, 3)
    assert refused.value.code == "ledger-damaged"


def test_a_copy_put_back_during_a_transition_is_seen_at_the_next_look(leased, words, tmp_path):
    """The transition's own commit is the newest there: the one below it is what tells."""
    shutil.copytree(leased.path, tmp_path / "copy")
    pin(leased, words, 1, job="payments")
    pin(Ledger.open(tmp_path / "copy"), words, 1, job="other")

    def decide(state):
        if (tmp_path / "copy").exists():
            shutil.rmtree(leased.path)
            os.rename(tmp_path / "copy", leased.path)  # noqa: PTH104
        return [boundary(words, 2)]

    leased.transition("orders", decide)
    with pytest.raises(Refused) as refused:
        pin(leased, words, 2, job="payments")
    assert refused.value.code == "ledger-damaged"
    assert leased.read("other").sequence == 1


def test_an_object_whose_checkpoint_is_gone_is_loaded(leased, words, loads):
    for number in range(12):
        pin(leased, words, number)
    pin(Ledger.open(leased.path), words, 1, job="payments")
    leased.read("orders")
    for checkpoint in Path(leased.path, "_delta_log").glob("*checkpoint*"):
        checkpoint.unlink()
    assert leased.read("payments").sequence == 1
    assert leased.read("orders").sequence == 13


def test_a_new_ledger_with_more_versions_is_seen(leased, words):
    shutil.rmtree(leased.path)
    new = Ledger.open(leased.path)
    for number in range(4):
        pin(new, words, number)
    with pytest.raises(Refused) as refused:
        leased.read("orders")
    assert refused.value.code == "ledger-foreign"


def test_commits_of_a_release_that_gave_them_no_names_are_loaded(leased, words, loads, monkeypatch):
    named = Ledger.commit_properties

    def nameless(self, *arguments, **options):
        properties = named(self, *arguments, **options)
        del properties.custom_metadata[table_objects.NAME]
        return properties

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit_properties", nameless)
        other = Ledger.open(leased.path)
        pin(other, words, 1)
    assert leased.read("orders") == other.read("orders")
    assert loads == [1]
    assert pin(leased, words, 2).sequence == 3
    assert leased.read("orders").sequence == 3


def test_a_link_that_leads_to_another_folder_is_followed(leased, words, tmp_path):
    link, copy = tmp_path / "link", tmp_path / "copy"
    link.symlink_to(leased.path)
    ledger = Ledger.open(str(link))
    pin(ledger, words, 1)
    shutil.copytree(leased.path, copy)
    link.unlink()
    link.symlink_to(copy)
    pin(ledger, words, 2)
    assert Ledger.open(str(copy)).read("orders").sequence == 3
    assert Ledger.open(leased.path).read("orders").sequence == 2


def test_in_an_object_store_a_look_takes_three_requests(memory_s3, words):
    ledger = Ledger.open("s3://logs/ledger", memory_s3.options)
    pin(ledger, words, 0)
    other = Ledger.open("s3://logs/ledger", memory_s3.options)
    pin(other, words, 1)
    assert ledger.read("orders") == other.read("orders")
    memory_s3.asked.clear()
    assert ledger.read("orders").sequence == 2
    assert [key.rpartition("/")[2] for _, key in memory_s3.asked] == ["", "_last_checkpoint", f"{2:020d}.json"]


def test_a_data_file_that_is_gone_from_a_store_is_damage(memory_s3, words):
    options = {**memory_s3.options, "max_retries": "0"}
    pin(Ledger.open("s3://logs/ledger", options), words, 0)
    for key in [key for key in memory_s3.objects if key.endswith(".parquet")]:
        del memory_s3.objects[key]
    with pytest.raises(Refused) as refused:
        Ledger.open("s3://logs/ledger", options).read("orders")
    assert refused.value.code == "ledger-damaged"


def test_without_the_store_nothing_is_read_from_what_was_loaded(memory_s3, words):
    ledger = Ledger.open("s3://logs/ledger", {**memory_s3.options, "max_retries": "0"})
    pin(ledger, words, 0)
    memory_s3.objects.clear()
    with pytest.raises(Refused) as refused:
        ledger.read("orders")
    assert refused.value.code == "ledger-missing"
