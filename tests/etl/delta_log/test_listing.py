"""Which files make up a version."""

from __future__ import annotations

import random

import pytest

from delta_logs import UUID, checkpoint, entry
from kseg.etl.delta_log.errors import DamagedLog
from kseg.etl.delta_log.folder import LogFile
from kseg.etl.delta_log.listing import LogSegment, hinted, newest_checkpoint, segment


def part(version: int, number: int, of: int) -> str:
    return checkpoint(version, f"{number:010d}.{of:010d}.parquet")


def compacted(first: int, last: int) -> str:
    return f"{first:020d}.{last:020d}.compacted.json"


def made_of(*names: str, until: int | None = None) -> LogSegment | None:
    files = [LogFile(name, 1) for name in names]
    random.Random(str(names)).shuffle(files)
    return segment(files, table="t", until=until)


def shown(found: LogSegment | None) -> tuple[int, list[str], list[tuple[int, int]]]:
    """(version, files of the checkpoint, ranges of versions)"""
    assert found is not None
    files = () if found.checkpoint is None else found.checkpoint.files
    return found.version, [file.name for file in files], [(one.first, one.last) for one in found.commits]


def test_without_a_checkpoint_all_commits_count() -> None:
    assert shown(made_of(entry(0), entry(1), entry(2))) == (2, [], [(0, 0), (1, 1), (2, 2)])
    assert made_of() is None
    assert made_of("_last_checkpoint", f"{0:020d}.crc", "_commits", ".tmp", f"{1:019d}.json") is None


@pytest.mark.parametrize("name", [checkpoint(3), checkpoint(3, f"{UUID}.json"), checkpoint(3, f"{UUID}.parquet")])
def test_commits_after_the_newest_checkpoint_count(name: str) -> None:
    names = [checkpoint(1), name, entry(2), entry(3), entry(4), entry(5)]
    assert shown(made_of(*names)) == (5, [name], [(4, 4), (5, 5)])
    assert shown(made_of(*names, until=4)) == (4, [name], [(4, 4)])
    assert shown(made_of(*names, until=2)) == (2, [checkpoint(1)], [(2, 2)])


def test_a_checkpoint_in_parts_counts_if_it_is_complete() -> None:
    parts = [part(4, number, 3) for number in (1, 2, 3)]
    assert shown(made_of(checkpoint(2), entry(3), entry(4), *parts)) == (4, parts, [])
    for lost in range(3):
        rest = parts[:lost] + parts[lost + 1 :]
        assert shown(made_of(checkpoint(2), entry(3), entry(4), *rest)) == (4, [checkpoint(2)], [(3, 3), (4, 4)])
    # Two attempts with different numbers of parts: one of them is complete.
    assert shown(made_of(entry(4), *parts, part(4, 1, 2))) == (4, parts, [])
    assert shown(made_of(entry(4), *parts, checkpoint(4))) == (4, [checkpoint(4)], []), "one file rather than three"


def test_commits_before_the_checkpoint_do_not_matter() -> None:
    assert shown(made_of(entry(1), entry(3), checkpoint(4), entry(4), entry(5))) == (5, [checkpoint(4)], [(5, 5)])
    assert shown(made_of(checkpoint(4))) == (4, [checkpoint(4)], [])


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        ([entry(0), entry(2)], 1),
        ([entry(0), entry(1), entry(4)], 2),
        ([entry(0), checkpoint(1), entry(3)], 2),
        ([entry(0), checkpoint(1), entry(1), entry(2), entry(5)], 3),
        ([entry(0), entry(2), entry(3), compacted(0, 2), compacted(1, 3)], 1),
        ([checkpoint(2), entry(3), entry(5), compacted(3, 5)], 4),
    ],
)
def test_a_missing_commit_is_an_error_with_its_address(names: list[str], missing: int) -> None:
    """Also one that a log compaction file has: other readers miss it."""
    with pytest.raises(DamagedLog, match="missing between others") as caught:
        made_of(*names)
    assert caught.value.address == {"table": "t", "version": missing, "file": entry(missing)}


@pytest.mark.parametrize("names", [[entry(3), entry(4)], [entry(1)], [entry(3), entry(4), part(2, 1, 2)]])
def test_a_log_that_begins_in_the_middle_is_an_error(names: list[str]) -> None:
    with pytest.raises(DamagedLog, match=f"begins with {names[0]}") as caught:
        made_of(*names)
    assert caught.value.address == {"table": "t"}


def test_an_older_version_that_a_cleaned_log_no_longer_has_is_none() -> None:
    names = [checkpoint(2), entry(4), entry(5), checkpoint(5), entry(6)]
    assert made_of(*names, until=4) is None, "3 was deleted behind the checkpoint 5"
    assert made_of(*names, until=1) is None
    assert shown(made_of(*names, until=2)) == (2, [checkpoint(2)], [])
    with pytest.raises(DamagedLog, match=entry(3)[:20]):
        made_of(*(name for name in names if name != checkpoint(5)), until=4)
    with pytest.raises(DamagedLog):
        made_of(checkpoint(2), entry(4), part(5, 1, 2), until=4)


def test_a_checkpoint_that_cannot_be_read_is_left_out() -> None:
    files = [LogFile(name, 1) for name in (checkpoint(1), entry(2), entry(3), checkpoint(3), entry(4))]
    newest = segment(files, table="t")
    assert newest is not None
    assert newest.checkpoint is not None
    assert shown(segment(files, table="t", without=[newest.checkpoint])) == (
        4,
        [checkpoint(1)],
        [(2, 2), (3, 3), (4, 4)],
    )


def test_the_newest_complete_checkpoint_is_known() -> None:
    names = [checkpoint(1), *(part(4, number, 2) for number in (1, 2)), part(6, 1, 2), entry(7)]
    assert newest_checkpoint(LogFile(name, 1) for name in names) == 4
    assert newest_checkpoint([LogFile(entry(3), 1)]) is None


def test_a_log_compaction_file_stands_for_its_commits() -> None:
    names = [checkpoint(2), *(entry(version) for version in range(2, 9))]
    assert shown(made_of(*names, compacted(3, 5), compacted(3, 7), compacted(4, 8)))[2] == [(3, 7), (8, 8)]
    assert shown(made_of(*names, compacted(3, 9)))[2][0] == (3, 3), "it reaches beyond the newest version"
    assert shown(made_of(*names, compacted(3, 7), until=5))[2] == [(3, 3), (4, 4), (5, 5)]
    assert shown(made_of(*names, compacted(1, 4)))[2][0] == (3, 3), "it begins before the checkpoint"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"version": -1}', b'{"version": "3"}', b'{"version": 3', b"\xff", b"[" * 100_000],
)
def test_a_torn_hint_is_none(content: bytes) -> None:
    assert hinted(content) is None


def test_a_hint_has_a_version() -> None:
    assert hinted(b'{"version":12,"size":3,"checksum":"x"}') == 12
