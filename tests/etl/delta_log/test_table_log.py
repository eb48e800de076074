"""A table's newest snapshot and what it costs; logs with gaps, torn hints, and logs that change while they are read."""

from __future__ import annotations

import pytest

from delta_logs import (
    UUID,
    MemoryLog,
    add,
    checkpoint,
    entry,
    lines,
    metadata,
    parquet,
    protocol,
    remove,
    txn,
    vector,
)
from kseg.etl.delta_log.errors import DamagedLog, LogChanged
from kseg.etl.delta_log.replay import LogSnapshot
from kseg.etl.delta_log.table_log import DeltaLog


def log_of(versions: int, *, checkpoint_at: int | None = None) -> MemoryLog:
    """Version n adds the file n and sets the transaction of `app` to n."""
    log = MemoryLog("t")
    log.commit(0, protocol(), metadata(), add("f0"), txn("app", 0))
    for version in range(1, versions):
        log.commit(version, add(f"f{version}"), txn("app", version))
    if checkpoint_at is not None:
        add_checkpoint(log, checkpoint_at)
    return log


def add_checkpoint(log: MemoryLog, version: int) -> None:
    state = [protocol(), metadata(), txn("app", version), *(add(f"f{n}") for n in range(version + 1))]
    log.write(checkpoint(version), parquet(state))
    log.write("_last_checkpoint", b'{"version":%d,"size":3}' % version)


def newest(log: MemoryLog) -> LogSnapshot:
    found = DeltaLog(log).newest()
    assert found is not None
    return found


def version_of(snapshot: LogSnapshot, app: str) -> int | None:
    found = snapshot.transactions.get(app)
    return None if found is None else found.version


def paths(snapshot: LogSnapshot) -> list[str]:
    return sorted(path for path, _ in keys(snapshot))


def keys(snapshot: LogSnapshot) -> set[tuple[str, str | None]]:
    found = [file.key for batch in snapshot.files.batches() for file in batch]
    assert len(set(found)) == len(found)
    return set(found)


def requests(log: MemoryLog) -> dict[str, int]:
    """Since the last call."""
    asked = dict(log.requests)
    log.requests.clear()
    return asked


def test_where_there_is_no_log_there_is_no_table() -> None:
    assert DeltaLog(MemoryLog()).newest() is None
    assert DeltaLog(MemoryLog()).at(0) is None


def test_a_table_is_read_from_its_checkpoint_and_the_commits_after_it() -> None:
    log = log_of(7, checkpoint_at=4)
    for version in range(5):
        del log.files[entry(version)]
    found = newest(log)
    assert (found.version, version_of(found, "app"), version_of(found, "other")) == (6, 6, None)
    assert requests(log) == {"get": 4, "list": 1}, "the hint, the checkpoint, two commits"
    assert paths(found) == [f"f{n}" for n in range(7)]
    assert found.files.rows() == 7
    assert requests(log) == {}, "a small checkpoint is held"


@pytest.mark.parametrize("hint", [b"", b'{"version', b'{"version":2}', b'{"version":99}', b'{"version":5}', None])
def test_a_torn_or_wrong_hint_does_no_harm(hint: bytes | None) -> None:
    log = log_of(7, checkpoint_at=4)
    if hint is None:
        del log.files["_last_checkpoint"]
    else:
        log.write("_last_checkpoint", hint)
    found = newest(log)
    assert (found.version, len(paths(found))) == (6, 7)


def test_a_log_compaction_file_takes_the_place_of_its_commits() -> None:
    log = log_of(3)
    log.commit(3, add("f3"), remove("f1"), txn("app", 3))
    log.commit(4, remove("f3"), add("f4"), txn("app", 4))
    expected = paths(newest(log))
    requests(log)
    log.write(
        f"{1:020d}.{4:020d}.compacted.json", lines([add("f2"), add("f4"), remove("f1"), remove("f3"), txn("app", 4)])
    )
    found = newest(log)
    assert (found.version, version_of(found, "app"), paths(found)) == (4, 4, expected)
    assert requests(log) == {"list": 1, "get": 3}, "the hint, version 0, the four others"


@pytest.mark.parametrize("gone", [0, 2])
def test_a_gap_is_an_error_with_its_address(gone: int) -> None:
    log = log_of(5)
    del log.files[entry(gone)]
    with pytest.raises(DamagedLog) as caught:
        newest(log)
    assert caught.value.address["table"] == "t"
    assert (entry(gone) in str(caught.value)) == bool(gone)


def test_a_listing_that_lacks_a_commit_for_a_moment_is_made_again() -> None:
    """As of a local folder that is listed while others commit."""
    log = log_of(5)
    lost = {entry(2): log.files.pop(entry(2))}
    real = log._list

    def listed(first: str) -> list[object]:
        found = real(first)
        for name in list(lost):
            log.write(name, lost.pop(name))
        return found  # type: ignore[return-value]

    log._list = listed  # type: ignore[method-assign,assignment]
    assert newest(log).version == 4


def test_a_log_that_is_cleaned_while_it_is_read_is_read_again() -> None:
    log = log_of(5)
    real, cleaned = log._read, False

    def read(name: str, first: int, length: int | None) -> bytes:
        nonlocal cleaned
        if name == entry(1) and not cleaned:
            cleaned = True
            add_checkpoint(log, 3)
            for version in range(3):
                del log.files[entry(version)]
        return real(name, first, length)

    log._read = read  # type: ignore[method-assign]
    assert (newest(log).version, len(paths(newest(log)))) == (4, 5)


def test_a_log_that_never_stays_can_be_tried_later() -> None:
    log = log_of(3)
    log._read = lambda name, first, length: (_ for _ in ()).throw(FileNotFoundError(name))  # type: ignore[method-assign]
    with pytest.raises(LogChanged):
        newest(log)


def sidecars(log: MemoryLog, version: int) -> str:
    """A V2 checkpoint whose files are in a sidecar, which is returned."""
    name = f"s{version}.parquet"
    content = parquet([add(f"f{n}") for n in range(version + 1)], ["add", "remove"])
    log.write(f"_sidecars/{name}", content)
    sidecar = {"sidecar": {"path": name, "sizeInBytes": len(content), "modificationTime": 1}}
    others = [protocol(reader=["v2Checkpoint"]), metadata(), txn("app", version)]
    log.write(
        checkpoint(version, f"{UUID}.json"), lines([{"checkpointMetadata": {"version": version}}, *others, sidecar])
    )
    log.write("_last_checkpoint", b'{"version":%d}' % version)
    return f"_sidecars/{name}"


DAMAGE = [b"", b"PAR1", b'{"add":', None]


@pytest.mark.parametrize("content", DAMAGE)
@pytest.mark.parametrize("older", [2, None])
def test_where_the_newest_checkpoint_is_damaged_an_older_one_is_read(content: bytes | None, older: int | None) -> None:
    """Or all commits. `None`: it is listed, and gone when it is read."""
    log = log_of(7)
    for version in {older, 4} - {None}:
        add_checkpoint(log, version or 0)
    for version in range(older or 0):
        del log.files[entry(version)]
    expected = (6, [f"f{n}" for n in range(7)], 7)
    damage(log, checkpoint(4), content)
    found = newest(log)
    assert (found.version, paths(found), found.files.rows()) == expected
    at = DeltaLog(log).at(5)
    assert at is not None
    assert (at.version, at.files.rows()) == (5, 6)


@pytest.mark.parametrize("content", DAMAGE[:2])
def test_where_a_sidecar_is_damaged_rows_are_counted_without_it(content: bytes) -> None:
    log = log_of(7)
    damage(log, sidecars(log, 4), content)
    assert newest(log).files.rows() == 7
    for version in range(3):
        del log.files[entry(version)]
    with pytest.raises(DamagedLog, match=r"s4\.parquet"):
        newest(log).files.rows()
    add_checkpoint(log, 3)
    assert newest(log).files.rows() == 7


@pytest.mark.parametrize("content", DAMAGE)
def test_a_damaged_checkpoint_that_nothing_replaces_is_an_error_with_its_name(content: bytes | None) -> None:
    log = log_of(7, checkpoint_at=4)
    del log.files[entry(3)]
    damage(log, checkpoint(4), content)
    for read in (DeltaLog(log).newest, lambda: DeltaLog(log).at(5), lambda: DeltaLog(log).at(4)):
        with pytest.raises(DamagedLog) as caught:
            read()
        assert caught.value.address == {"table": "t", "version": 4, "file": checkpoint(4)}
    for version in (0, 1, 2):
        found = DeltaLog(log).at(version)
        assert found is not None
        assert found.version == version


def test_a_damaged_checkpoint_does_not_hide_its_own_version() -> None:
    """Its commit is cleaned away, so that what is before it makes up an older version only."""
    log = log_of(5)
    add_checkpoint(log, 2)
    add_checkpoint(log, 4)
    del log.files[entry(4)], log.files[entry(3)]
    log.write(checkpoint(4), b"PAR1")
    with pytest.raises(DamagedLog):
        newest(log)


def test_a_sidecar_that_was_deleted_behind_a_newer_checkpoint_can_be_tried_again() -> None:
    log = log_of(7)
    name = sidecars(log, 4)
    del log.files[entry(0)]
    found = newest(log)
    add_checkpoint(log, 6)
    del log.files[name], log.files[checkpoint(4, f"{UUID}.json")]
    with pytest.raises(LogChanged):
        found.files.rows()
    assert newest(log).files.rows() == 7


def damage(log: MemoryLog, name: str, content: bytes | None) -> None:
    """Replace a file's content; None: whoever reads it does not find it."""
    if content is not None:
        log.write(name, content)
        return
    real = log._read

    def read(asked: str, first: int, length: int | None) -> bytes:
        if asked == name:
            raise FileNotFoundError(asked)
        return real(asked, first, length)

    log._read = read  # type: ignore[method-assign]


def test_an_older_version_is_read_as_long_as_the_log_has_it() -> None:
    log = log_of(7, checkpoint_at=4)
    for version in range(7):
        found = DeltaLog(log).at(version)
        assert found is not None
        assert (found.version, paths(found)) == (version, [f"f{n}" for n in range(version + 1)])
    assert DeltaLog(log).at(7) is None
    for version in range(3):
        del log.files[entry(version)]
    assert DeltaLog(log).at(3) is None
    assert DeltaLog(log).at(4) is not None


@pytest.mark.parametrize("lost", ["protocol", "metaData"])
def test_a_log_without_protocol_or_metadata_is_an_error(lost: str) -> None:
    log = MemoryLog()
    log.commit(0, *(action for action in (protocol(), metadata()) if lost not in action), add("a"))
    with pytest.raises(DamagedLog, match=lost):
        newest(log)


def test_a_file_is_replaced_by_the_same_file_with_another_vector() -> None:
    """("Add File and Remove File": a path occurs in an add and in a remove, with different vectors.)"""
    log = MemoryLog()
    first, second = vector("one", 1), vector("two", 3)
    log.commit(0, protocol("deletionVectors", reader=["deletionVectors"]), metadata(), add("a", 10), add("b", 10))
    log.commit(1, remove("a"), add("a", 10, vector=first))
    with_vector = newest(log)
    assert keys(with_vector) == {("a", "uone@1"), ("b", None)}
    assert with_vector.files.rows() == 19
    log.write(
        checkpoint(1),
        parquet([protocol(reader=["deletionVectors"]), metadata(), add("a", 10, vector=first), add("b", 10)]),
    )
    log.commit(2, remove("a", vector=first), add("a", 10, vector=second))
    replaced = newest(log)
    assert keys(replaced) == {("a", "utwo@1"), ("b", None)}
    assert replaced.files.rows() == 10 - 3 + 10
    log.commit(3, remove("a", vector=second))
    assert keys(newest(log)) == {("b", None)}
    log.commit(4, add("a", 10))
    assert newest(log).files.rows() == 20


def test_domains_are_kept_until_they_are_removed() -> None:
    log = MemoryLog()
    log.commit(0, protocol("domainMetadata"), metadata(), {"domainMetadata": {"domain": "a", "configuration": "1"}})
    log.commit(1, {"domainMetadata": {"domain": "b", "configuration": "2", "removed": False}})
    log.commit(2, {"domainMetadata": {"domain": "a", "configuration": "1", "removed": True}})
    assert {name: one.configuration for name, one in newest(log).domains.items()} == {"b": "2"}
    before = DeltaLog(log).at(1)
    assert before is not None
    assert {name: one.configuration for name, one in before.domains.items()} == {"a": "1", "b": "2"}


def test_a_v2_checkpoint_with_sidecars_is_read_without_them_until_files_are_asked_for() -> None:
    log = log_of(4)
    content = parquet([add(f"f{n}") for n in range(4)], ["add", "remove"])
    log.write("_sidecars/s.parquet", content)
    sidecar = {"sidecar": {"path": "s.parquet", "sizeInBytes": len(content), "modificationTime": 1}}
    top = [
        {"checkpointMetadata": {"version": 3}},
        protocol(reader=["v2Checkpoint"]),
        metadata(),
        txn("app", 3),
        sidecar,
    ]
    log.write(checkpoint(3, f"{UUID}.json"), lines(top))
    log.commit(4, add("f4"), remove("f1"))
    found = newest(log)
    assert (found.version, version_of(found, "app")) == (4, 3)
    assert requests(log) == {"list": 1, "get": 3}, "the hint, the checkpoint, a commit"
    assert paths(found) == ["f0", "f2", "f3", "f4"]
    assert requests(log) == {"get": 1}, "the sidecar"


@pytest.mark.parametrize(("newest", "oldest"), [(9, 0), (9, 9), (9, 3), (3, 5), (20, 0)])
def test_commits_are_read_back_from_a_version(newest: int, oldest: int) -> None:
    log = log_of(10)
    found = list(DeltaLog(log).back(newest, oldest))
    expected = list(range(newest, oldest - 1, -1)) if newest < 10 else []
    assert [entry.version for entry in found] == expected
    assert found == [(DeltaLog(log).commits(version, version) or [])[0] for version in expected]
    assert log.requests["list"] == 0


@pytest.mark.parametrize("needed", [1, 2, 3, 8, 20, 60])
def test_who_looks_back_asks_for_at_most_twice_as_many_commits(needed: int) -> None:
    log = log_of(100)
    back = DeltaLog(log).back(99)
    assert [next(back).version for _ in range(needed)] == list(range(99, 99 - needed, -1))
    assert needed <= log.requests["get"] < 2 * needed + 1


@pytest.mark.parametrize("oldest", [0, 1, 5, 12, 19, 20])
def test_looking_back_ends_where_the_log_was_cleaned(oldest: int) -> None:
    log = log_of(20, checkpoint_at=19)
    for version in range(oldest):
        del log.files[entry(version)]
    assert [one.version for one in DeltaLog(log).back(19)] == list(range(19, oldest - 1, -1))


def test_a_damaged_commit_is_an_error_when_it_is_reached() -> None:
    log = log_of(10)
    log.write(entry(7), b"{")
    back = DeltaLog(log).back(9)
    assert [next(back).version, next(back).version] == [9, 8]
    with pytest.raises(DamagedLog) as caught:
        next(back)
    assert caught.value.address == {"table": "t", "version": 7, "file": entry(7), "line": 1}
