"""Checkpoints of every form, column by column."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from delta_logs import (
    COLUMNS,
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
from kseg.etl.delta_log.actions import Action, AddFile, parse_line
from kseg.etl.delta_log.checkpoint import CheckpointReader
from kseg.etl.delta_log.errors import DamagedLog, LogChanged
from kseg.etl.delta_log.listing import Checkpoint, segment
from kseg.etl.delta_log.pieces import WHOLE

FILES = [
    add("a%20b", 3, partitionValues={"p": "1", "q": None}, tags=None, future="kept"),
    add("c", 5, vector=vector("x", 2)),
    add("d", 0, partitionValues={}),
    remove("old", vector=vector("y", 1)),
]
OTHERS = [
    protocol("domainMetadata", reader=["deletionVectors", "v2Checkpoint"]),
    metadata(properties={"delta.appendOnly": "false"}, partitionColumns=["p"]),
    txn("app", 3, lastUpdated=4),
    txn("other", 7),
    {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
]
V2 = {"checkpointMetadata": {"version": 4, "tags": {}}}


Form = Callable[[MemoryLog, Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], None]


def sidecar(path: str, content: bytes) -> dict[str, Any]:
    return {"sidecar": {"path": path, "sizeInBytes": len(content), "modificationTime": 1, "tags": {}}}


def classic(log: MemoryLog, others: Sequence[Mapping[str, Any]], files: Sequence[Mapping[str, Any]]) -> None:
    log.write(checkpoint(4), parquet([*others, *files]))


def row_groups(log: MemoryLog, others: Sequence[Mapping[str, Any]], files: Sequence[Mapping[str, Any]]) -> None:
    log.write(checkpoint(4), parquet([*files, *others], row_group_size=2))


def in_parts(log: MemoryLog, others: Sequence[Mapping[str, Any]], files: Sequence[Mapping[str, Any]]) -> None:
    every = [*files, *others]
    for number in (1, 2, 3):
        log.write(checkpoint(4, f"{number:010d}.{3:010d}.parquet"), parquet(every[number - 1 :: 3]))


def v2_json(log: MemoryLog, others: Sequence[Mapping[str, Any]], files: Sequence[Mapping[str, Any]]) -> None:
    log.write(checkpoint(4, f"{UUID}.json"), lines([V2, *others, *files]))


def v2_parquet(log: MemoryLog, others: Sequence[Mapping[str, Any]], files: Sequence[Mapping[str, Any]]) -> None:
    log.write(checkpoint(4, f"{UUID}.parquet"), parquet([V2, *others, *files]))


def with_sidecars(log: MemoryLog, others: Sequence[Mapping[str, Any]], files: Sequence[Mapping[str, Any]]) -> None:
    top = [V2, *others]
    for name, some in (("s1.parquet", files[:2]), ("s%202.parquet", files[2:])):
        content = parquet(some, ["add", "remove"])
        log.write(f"_sidecars/{name.replace('%20', ' ')}", content)
        top.append(sidecar(name, content))
    log.write(checkpoint(4, f"{UUID}.json"), lines(top))


def classic_with_sidecars(
    log: MemoryLog, others: Sequence[Mapping[str, Any]], files: Sequence[Mapping[str, Any]]
) -> None:
    content = parquet(files, ["add", "remove"])
    log.write("_sidecars/s.parquet", content)
    log.write(checkpoint(4), parquet([V2, *others, sidecar("s.parquet", content)]))


def some_in_sidecars(end: str) -> Form:
    def written(log: MemoryLog, others: Sequence[Mapping[str, Any]], files: Sequence[Mapping[str, Any]]) -> None:
        content = parquet(files[1:], ["add", "remove"])
        log.write("_sidecars/s.parquet", content)
        top = [V2, *others, files[0], sidecar("s.parquet", content)]
        log.write(checkpoint(4, f"{UUID}.{end}"), lines(top) if end == "json" else parquet(top))

    written.__name__ = f"some in sidecars, others in {end}"
    return written


FORMS: list[Form] = [
    classic,
    row_groups,
    in_parts,
    v2_json,
    v2_parquet,
    with_sidecars,
    classic_with_sidecars,
    some_in_sidecars("json"),
    some_in_sidecars("parquet"),
]


def reader_of(log: MemoryLog) -> CheckpointReader:
    found = segment(log.list_from(), table="t")
    assert found is not None
    assert found.checkpoint is not None
    return CheckpointReader(log, found.checkpoint)


def rows_of(reader: CheckpointReader) -> int:
    return sum(batch.rows() or 0 for batch in reader.files())


def files_of(reader: CheckpointReader) -> list[AddFile]:
    return [action for batch in reader.files() for action in batch]


def parsed(actions: Sequence[Mapping[str, Any]]) -> list[Action]:
    """The same actions out of JSON, in an order of their own."""
    return in_order(read for action in actions for read in parse_line(json.dumps(action)))


def in_order(actions: Iterable[Action]) -> list[Action]:
    return sorted(actions, key=repr)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_checkpoint_is_read(form: Form) -> None:
    log = MemoryLog()
    form(log, OTHERS, FILES)
    reader = reader_of(log)
    others = [action for action in reader.others if action.KIND not in ("sidecar", "checkpointMetadata")]
    assert in_order(others) == parsed(OTHERS)
    assert in_order(files_of(reader)) == parsed(FILES[:3])
    assert rows_of(reader) == 8 - 2


@pytest.mark.parametrize("form", FORMS)
def test_files_are_left_out_by_path_and_vector(form: Form) -> None:
    log = MemoryLog()
    form(log, OTHERS, FILES)
    gone: dict[tuple[str, str | None], bool] = {("c", "ux@1"): True, ("d", "ux@1"): True, ("e", None): True}
    kept = [batch.without(gone.keys(), {"c", "d", "e"}) for batch in reader_of(log).files()]
    assert sorted(action.path for batch in kept for action in batch) == ["a%20b", "d"]
    assert sum(batch.rows() or 0 for batch in kept) == 3


def test_columns_that_are_missing_count_as_null() -> None:
    log = MemoryLog()
    log.write(checkpoint(4), parquet([OTHERS[0], OTHERS[1], FILES[0]], ["protocol", "metaData", "add"]))
    reader = reader_of(log)
    assert [action.KIND for action in reader.others] == ["protocol", "metaData"]
    assert [file.path for file in files_of(reader)] == ["a%20b"]


@pytest.mark.parametrize("stats", [None, '{"minValues":{"numRecords":9},"numRecords":7}', "{", '{ "numRecords" : 7 }'])
def test_rows_are_counted_whatever_form_the_statistics_have(stats: str | None) -> None:
    log = MemoryLog()
    classic(log, OTHERS, [add("a", 4), {"add": {**add("b")["add"], "stats": stats}}])
    (batch,) = reader_of(log).files()
    assert batch.rows() == (11 if stats and "7" in stats else None)


def test_typed_statistics_are_read_where_there_are_no_others() -> None:
    log = MemoryLog()
    parsed = {"numRecords": 6, "minValues": {"n": 1}}
    classic(log, OTHERS, [add("a", None, stats_parsed=parsed), add("b", 2, stats_parsed=parsed)])
    reader = reader_of(log)
    assert [file.stored_rows for file in files_of(reader)] == [6, 2]
    assert [batch.rows() for batch in reader.files()] == [8]


def test_a_struct_of_nulls_is_no_deletion_vector() -> None:
    log = MemoryLog()
    classic(log, OTHERS, [add("a", 4, deletionVector={})])
    (file,) = files_of(reader_of(log))
    assert file.deletion_vector is None
    assert file.key == ("a", None)


def test_a_small_checkpoint_is_read_with_one_request() -> None:
    log = MemoryLog()
    classic(log, OTHERS, FILES)
    reader = reader_of(log)
    assert (len(reader.others), len(files_of(reader)), len(files_of(reader))) == (5, 3, 3)
    assert log.requests == {"list": 1, "get": 1}


def test_of_a_large_checkpoint_only_what_is_wanted_is_read() -> None:
    """What is no file is in the first row group; the others are passed over for it."""
    log = MemoryLog()
    files = [add(f"part-{n}", n, future=f"{n:0800d}") for n in range(4_000)]
    plain = {"compression": "none", "use_dictionary": False}
    log.write(checkpoint(4), parquet([*OTHERS, *files], row_group_size=1_000, **plain))
    size = len(log.files[checkpoint(4)])
    assert size > 2 * WHOLE
    reader, read = reader_of(log), Reads(log)
    assert len(reader.others) == 5
    assert read.requests == 2, "the footer, and the first row group's columns"
    assert read.bytes < size / 3
    assert rows_of(reader) == sum(range(4_000))
    assert read.requests < 2 + 5 * 3
    assert len(files_of(reader)) == 4_000


class Reads:
    """Requests and bytes of a log from now on."""

    def __init__(self, log: MemoryLog) -> None:
        self.requests = self.bytes = 0
        real = log._read

        def counted(name: str, first: int, length: int | None) -> bytes:
            content = real(name, first, length)
            self.requests, self.bytes = self.requests + 1, self.bytes + len(content)
            return content

        log._read = counted  # type: ignore[method-assign]


def damaged(log: MemoryLog) -> DamagedLog:
    with pytest.raises(DamagedLog) as caught:
        files_of(reader_of(log))
    return caught.value


@pytest.mark.parametrize("lost", [0, 1])
def test_a_checkpoint_without_protocol_or_metadata_is_an_error(lost: int) -> None:
    log = MemoryLog("t")
    classic(log, [other for n, other in enumerate(OTHERS) if n != lost], FILES)
    assert damaged(log).address == {"table": "t", "version": 4, "file": checkpoint(4)}


def test_a_checkpoint_of_another_version_is_an_error() -> None:
    log = MemoryLog()
    log.write(checkpoint(5, f"{UUID}.json"), lines([V2, *OTHERS]))
    assert "version 4" in damaged(log).message


def test_a_column_of_another_type_is_an_error() -> None:
    log = MemoryLog()
    types = {**COLUMNS, "txn": pa.struct({"appId": pa.string(), "version": pa.float64()})}
    table = pa.table({name: pa.array([action.get(name) for action in OTHERS[2:4]], types[name]) for name in ["txn"]})
    log.write(checkpoint(4), _written(table))
    assert "txn.version" in damaged(log).message


def _written(table: pa.Table) -> bytes:
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("form", [classic, with_sidecars, v2_json, in_parts])
def test_a_missing_file_is_a_change_only_behind_a_newer_checkpoint(form: Form) -> None:
    log = MemoryLog("t")
    form(log, OTHERS, FILES)
    for name in list(log.files):
        for newer in (False, True):
            log.write(entry(4), b"")
            reader, content = reader_of(log), log.files.pop(name)
            if newer:
                log.write(checkpoint(5), b"")
            with pytest.raises(LogChanged if newer else DamagedLog) as caught:
                files_of(reader)
            assert newer or caught.value.address == {"table": "t", "version": 4, "file": name}
            assert caught.value.retriable == newer
            log.files.pop(checkpoint(5), None)
            log.write(name, content)


@pytest.mark.parametrize(
    ("column", "broken"),
    [
        ("path", pa.string()),
        ("stats", pa.string()),
        ("stats", pa.int32()),
        ("deletionVector", pa.string()),
    ],
)
def test_values_that_are_not_what_their_column_says_are_an_error_with_an_address(
    column: str, broken: pa.DataType
) -> None:
    """Text that is no UTF-8, and columns of other types: Arrow notices either when values are used."""
    log = MemoryLog("t")
    value = pa.array([3], broken) if broken == pa.int32() else pa.array([b"\xff\xfe"]).view(pa.string())
    add_of = {"path": pa.array(["a"]), column: value}
    log.write(checkpoint(4), _written(pa.table({"add": pa.StructArray.from_arrays(add_of.values(), list(add_of))})))
    (batch,) = CheckpointReaderOfFiles(log, Checkpoint(4, tuple(log.list_from()))).files()
    gone = {("a", None): True}
    uses = [lambda: list(batch), lambda: batch.rows() if column != "path" else list(batch)]
    if column == "path":
        uses.append(lambda: list(batch.without(gone.keys(), {"a"})))
    for use in uses:
        with pytest.raises(DamagedLog) as caught:
            use()
        assert caught.value.address == {"table": "t", "version": 4, "file": checkpoint(4)}


class CheckpointReaderOfFiles(CheckpointReader):
    """Of a checkpoint without protocol and metadata."""

    others = ()


def test_sums_of_rows_do_not_overflow() -> None:
    log = MemoryLog()
    classic(log, OTHERS, [add(f"f{number}", 10**18 - 1) for number in range(10)])
    assert rows_of(reader_of(log)) == 10 * (10**18 - 1)


def test_a_large_row_group_is_read_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its statistics may be gigabytes."""
    monkeypatch.setattr("kseg.etl.delta_log.checkpoint._BATCH_ROWS", 10)
    log = MemoryLog()
    files = [add(f"f{number}", 1) for number in range(35)]
    classic(log, OTHERS, files)
    reader = reader_of(log)
    assert [batch.rows() for batch in reader.files()] == [5, 10, 10, 10]  # behind the five other actions
    assert len({action.path for action in files_of(reader)}) == 35
