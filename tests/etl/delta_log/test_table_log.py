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
from kseg.etl.delta_log.errors import DamagedLog, LogChanged, UnsupportedTable
from kseg.etl.delta_log.replay import Snapshot
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


def newest(log: MemoryLog) -> Snapshot:
    found = DeltaLog(log).newest()
    assert found is not None
    return found


def version_of(snapshot: Snapshot, app: str) -> int | None:
    found = snapshot.transactions.get(app)
    return None if found is None else found.version


def paths(snapshot: Snapshot) -> list[str]:
    return sorted(file.path for file in snapshot.files)


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
    assert found.files.totals().rows == 7
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


@pytest.mark.parametrize(
    ("feature", "known"), [("deletionVectors", True), ("v2Checkpoint", True), ("catalogManaged", False), ("x", False)]
)
def test_unknown_reader_features_are_refused_by_name(feature: str, known: bool) -> None:
    log = MemoryLog("t")
    log.commit(0, protocol(reader=[feature]), metadata())
    if known:
        assert newest(log).protocol.reader_features == (feature,)
        return
    with pytest.raises(UnsupportedTable, match=f"table feature {feature}") as caught:
        newest(log)
    assert caught.value.address == {"table": "t", "version": 0}


def test_a_file_is_replaced_by_the_same_file_with_another_vector() -> None:
    """("Add File and Remove File": a path occurs in an add and in a remove, with different vectors.)"""
    log = MemoryLog()
    first, second = vector("one", 1), vector("two", 3)
    log.commit(0, protocol("deletionVectors", reader=["deletionVectors"]), metadata(), add("a", 10), add("b", 10))
    log.commit(1, remove("a"), add("a", 10, vector=first))
    with_vector = newest(log)
    assert {file.key for file in with_vector.files} == {("a", "uone@1"), ("b", None)}
    assert with_vector.files.totals().rows == 19
    log.write(
        checkpoint(1),
        parquet([protocol(reader=["deletionVectors"]), metadata(), add("a", 10, vector=first), add("b", 10)]),
    )
    log.commit(2, remove("a", vector=first), add("a", 10, vector=second))
    replaced = newest(log)
    assert {file.key for file in replaced.files} == {("a", "utwo@1"), ("b", None)}
    assert (replaced.files.totals().rows, replaced.files.totals().deleted_rows) == (17, 3)
    log.commit(3, remove("a", vector=second))
    assert [file.key for file in newest(log).files] == [("b", None)]
    log.commit(4, add("a", 10))
    assert newest(log).files.totals().rows == 20


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
