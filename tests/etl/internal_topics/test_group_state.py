"""Groups and transactional ids from files alone, against what the broker that wrote them says."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kseg.client import TopicPartition
from kseg.client.protocol.java_hash import coordinator_partition
from kseg.etl.errors import ConfigurationError
from kseg.etl.internal_topics.group_state import GroupState, committed_in_files, group_state
from kseg.etl.internal_topics.locations import LogDirs
from kseg.etl.internal_topics.transactional_state import transactional_id_state
from kseg.segment_reader.log.files.storage import LocalStorage

pytestmark = pytest.mark.broker

WEEK = 7 * 24 * 3_600_000


#: The groups that a release has: kinds of "4.3.1", and those of them that "3.9.2" knows.
KINDS = {"4.3.1": ["classic", "modern", "left", "simple", "deleted", "share"]}
KINDS["3.9.2"] = [kind for kind in KINDS["4.3.1"] if kind not in ("modern", "share")]


@pytest.fixture(params=list(KINDS))
def made(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue("groups" if request.param == "4.3.1" else "old_groups")


def of_each_release(*left_out: str) -> pytest.MarkDecorator:
    """A test of each kind of group on each release."""
    cases = [(release, kind) for release, kinds in KINDS.items() for kind in kinds if kind not in left_out]
    return pytest.mark.parametrize(("made", "kind"), cases, indirect=["made"])


def state_of(made: Any, kind: str, **more: Any) -> GroupState:
    return group_state(LogDirs([str(made.log_dir)]), made.names[kind], **more)


@of_each_release("share")
def test_a_group_s_offsets_are_those_that_the_broker_tells(made: Any, kind: str) -> None:
    told = state_of(made, kind)
    ours = {one.tp: (one.offset, one.leader_epoch, one.metadata) for one in told.offsets}
    assert ours == {tp: tuple(one) for tp, one in made.committed[kind].items() if one.offset >= 0}
    found = committed_in_files(LogDirs([str(made.log_dir)]), made.names[kind])
    assert {tp: tuple(one) for tp, one in found.items()} == ours
    assert (told.expired, told.notes) == ((), ())
    assert bool(ours) == (kind != "deleted")


@of_each_release()
def test_a_group_s_members_are_those_that_the_broker_tells(made: Any, kind: str) -> None:
    told, asked = state_of(made, kind).kind, made.described[kind]
    assert told.state == asked.state
    assert {
        (one.member_id, one.client_id, one.client_host, one.instance_id, frozenset(_partitions(one.assigned)))
        for one in told.members
    } == {(one.member_id, one.client_id, one.client_host, one.instance_id, one.assignment) for one in asked.members}
    assert bool(told.members) == (kind in ("classic", "modern"))
    if kind == "deleted":
        assert told.kind is None
    else:
        assert (told.kind, told.protocol_type or "") == (asked.type, asked.protocol_type or told.protocol_type or "")
    if kind in ("classic", "modern"):
        assert told.members[0].subscribed_topics == (made.topic,)
    if kind == "modern":
        assert (told.epoch, told.members[0].epoch) == (asked.epoch, asked.members[0].epoch)


def _partitions(assigned: dict[str, list[int]]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, numbers in assigned.items() for number in numbers]


def test_offsets_of_an_open_transaction_stand_apart(made: Any) -> None:
    told = state_of(made, "simple")
    (waiting,) = told.pending
    assert (waiting.tp, waiting.offset) == (TopicPartition(made.topic, 2), 9)
    assert waiting.producer_id == made.transactions["open"].producer_id
    # 3 was aborted, 4 deleted
    assert [one.tp.partition for one in told.offsets] == [0, 1]
    assert told.offsets[1].metadata == "mit Ümlaut"


@pytest.mark.parametrize("kind", ["committed", "aborted", "open"])
def test_a_transactional_id_is_what_the_broker_tells(made: Any, kind: str) -> None:
    told = transactional_id_state(LogDirs([str(made.log_dir)]), made.transactional_ids[kind])
    asked = made.transactions[kind]
    assert (told.state, told.producer_id, told.timeout_ms) == (asked.state, asked.producer_id, asked.timeout_ms)
    assert set(told.partitions) == asked.partitions
    if kind == "open":
        assert told.producer_epoch == asked.producer_epoch
        assert told.started == asked.start_ms
    assert told.last_update >= told.started > 0


def test_what_nobody_knows_is_dead(made: Any) -> None:
    log_dirs = LogDirs([str(made.log_dir)])
    assert (group_state(log_dirs, "nobody").kind.kind, group_state(log_dirs, "nobody").kind.state) == (None, "Dead")
    assert transactional_id_state(log_dirs, "nobody").state == "Dead"


def test_offsets_expire_as_a_broker_lets_them(groups: Any) -> None:
    simple = state_of(groups, "simple")
    first = simple.offsets[0]
    assert first.expires == first.committed + WEEK
    before = state_of(groups, "simple", at=first.expires - 1)
    assert first in before.offsets
    after = state_of(groups, "simple", at=first.expires)
    assert first in after.expired
    assert first not in after.offsets
    assert state_of(groups, "simple", retention_ms=60_000, at=first.committed + 60_000).expired
    # a classic group that is empty: counted from when it became so
    (left,) = state_of(groups, "left").offsets
    assert left.expires is not None
    assert left.expires >= left.committed + WEEK
    # members read the topic: its offsets stay
    for kind in ("classic", "modern"):
        far = state_of(groups, kind, at=first.expires * 2)
        assert far.offsets
        assert all(one.expires is None for one in far.offsets)


def test_only_the_key_s_partition_is_opened(groups: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    open_ = LocalStorage.open

    def watched(self: LocalStorage, path: str) -> Any:
        opened.append(path)
        return open_(self, path)

    monkeypatch.setattr(LocalStorage, "open", watched)
    told = state_of(groups, "classic")
    expected = coordinator_partition(groups.names["classic"], 3)
    assert told.place.partition == expected
    assert {Path(path).parent.name for path in opened} == {f"__consumer_offsets-{expected}"}


def test_of_two_copies_the_one_that_reaches_further_is_told(groups: Any, tmp_path: Path) -> None:
    place = state_of(groups, "simple").place
    folder = Path(place.replica.log.folder)
    for number in range(3):
        shutil.copytree(folder.parent / f"__consumer_offsets-{number}", tmp_path / f"__consumer_offsets-{number}")
    log = next((tmp_path / folder.name).glob("*.log"))
    log.write_bytes(log.read_bytes()[:200])
    both = LogDirs([str(tmp_path), str(groups.log_dir)])
    assert group_state(both, groups.names["simple"]).place.replica.log.folder == str(folder)
    assert group_state(both, groups.names["simple"]).offsets == state_of(groups, "simple").offsets


def test_missing_folders_are_told(groups: Any, tmp_path: Path) -> None:
    name = groups.names["simple"]
    place = state_of(groups, "simple").place
    others = sorted({0, 1, 2} - {place.partition})
    here = LogDirs([str(tmp_path)])
    with pytest.raises(ConfigurationError, match="lacks folders of __consumer_offsets"):
        group_state(here, name)
    shutil.copytree(place.replica.log.folder, tmp_path / f"__consumer_offsets-{place.partition}")
    here = LogDirs([str(tmp_path)])
    if place.partition:  # with folder 0 alone, one partition is what the folders tell
        with pytest.raises(ConfigurationError, match=f"such as __consumer_offsets-{others[0]}"):
            group_state(here, name)
    assert group_state(here, name, partitions=3).offsets == state_of(groups, "simple").offsets
    assert group_state(here, name, partitions=3).place.counted_by == "caller"
    elsewhere = next(f"g-{n}" for n in range(99) if coordinator_partition(f"g-{n}", 3) != place.partition)
    with pytest.raises(ConfigurationError, match=r"no folder __consumer_offsets-\d"):
        group_state(here, elsewhere, partitions=3)
    with pytest.raises(ConfigurationError, match="no such folder"):
        LogDirs([str(tmp_path / "gone")])


def test_a_document_has_all_of_it(groups: Any, as_read: Callable[[Any], Any]) -> None:
    told = as_read(state_of(groups, "simple").to_json())
    assert told["state"] == "Empty"
    assert {one["partition"]: one["offset"] for one in told["offsets"]} == {0: 7, 1: 5}
    assert told["pending"][0]["producer_id"] == groups.transactions["open"].producer_id
    member = as_read(state_of(groups, "classic").to_json())["members"][0]
    assert member["assigned"] == {groups.topic: [0, 1, 2, 3, 4]}
