"""Logs with bytes cut off, changed and added: a table is read, or the error is typed and has its address."""

from __future__ import annotations

import random
from collections.abc import Callable

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
from kseg.etl.delta_log.table_log import DeltaLog
from kseg.etl.errors import KsegError

STATE = [
    protocol("domainMetadata", reader=["deletionVectors", "v2Checkpoint"]),
    metadata(properties={"delta.appendOnly": "false"}),
    txn("app", 3),
    {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
]
FILES = [add("a", 3), add("b", 5, vector=vector("x", 2)), remove("c")]


def base() -> MemoryLog:
    log = MemoryLog("t")
    log.commit(0, *STATE, *FILES)
    log.commit(1, add("d"), remove("a"), txn("app", 4))
    return log


def classic() -> MemoryLog:
    log = base()
    log.write(checkpoint(1), parquet([*STATE, *FILES]))
    log.commit(2, add("e"))
    return log


def sidecars() -> MemoryLog:
    log = base()
    content = parquet(FILES, ["add", "remove"])
    log.write("_sidecars/s.parquet", content)
    sidecar = {"sidecar": {"path": "s.parquet", "sizeInBytes": len(content), "modificationTime": 1}}
    log.write(checkpoint(1, f"{UUID}.json"), lines([{"checkpointMetadata": {"version": 1}}, *STATE, sidecar]))
    return log


def use(log: MemoryLog) -> None:
    """Everything that reads the log."""
    table = DeltaLog(log)
    found = table.newest()
    if found is None:
        return
    for batch in found.files.batches():
        for file in batch:
            _ = file.key, file.rows
    found.files.rows()
    table.commits(0, found.version)


def mutated(content: bytes, choice: random.Random) -> bytes:
    kind, at = choice.randrange(5), choice.randrange(len(content) + 1)
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + choice.randbytes(choice.randrange(1, 9)) + content[at + choice.randrange(9) :]
    if kind == 2:
        return content[:at] + content[at:][choice.randrange(1, 40) :]
    if kind == 3:
        return content + content[at:]
    return content.replace(b"1", str(choice.choice([-1, 2**70, '"x"', "null", "[]", "1e3"])).encode(), 1 + at % 3)


@pytest.mark.parametrize("make", [base, classic, sidecars])
def test_damage_is_a_typed_error_with_its_address(
    make: Callable[[], MemoryLog], scale: Callable[[int, int], int]
) -> None:
    choice, unharmed = random.Random(make.__name__), 0
    errors: list[tuple[str, KsegError]] = []
    whole = make()
    use(whole)
    for _ in range(scale(60, 5_000)):
        log = MemoryLog("t")
        damaged = choice.choice(sorted(whole.files))
        for name, content in whole.files.items():
            log.write(name, mutated(content, choice) if name == damaged else content)
        try:
            use(log)
            unharmed += 1
        except (DamagedLog, UnsupportedTable, LogChanged) as error:
            errors.append((damaged, error))
    others = {checkpoint(1), checkpoint(1, f"{UUID}.json"), entry(0), "_sidecars/s.parquet"}
    for damaged, error in errors:
        assert error.address["table"] == "t"
        if isinstance(error, DamagedLog):
            assert error.file in others | {damaged}, "what is missing in one file is missed where another is read"
    assert unharmed
    assert len(errors) > 20


@pytest.mark.parametrize("line", [0, 3])
def test_a_torn_line_has_its_number(line: int) -> None:
    log = base()
    every = log.files[entry(0)].split(b"\n")
    every[line] = every[line][:-3]
    log.write(entry(0), b"\n".join(every))
    with pytest.raises(DamagedLog) as caught:
        DeltaLog(log).newest()
    assert caught.value.address == {"table": "t", "version": 0, "file": entry(0), "line": line + 1}
    assert not caught.value.retriable


def test_an_empty_commit_has_no_actions() -> None:
    """As of a version that a writer took to keep others from it."""
    log = base()
    log.write(entry(2), b"\n")
    found = DeltaLog(log).newest()
    assert found is not None
    paths = sorted(file.path for batch in found.files.batches() for file in batch)
    assert (found.version, paths) == (2, ["b", "d"])
