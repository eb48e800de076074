"""A table's log on a local disk and in an S3 server: the same files, and the requests that reading takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kseg.etl.delta_log.folder import LogFile
from kseg.etl.delta_log.table_log import DeltaLog
from kseg.etl.errors import ConfigurationError, RetriableFailure
from kseg.etl.ledger.log_files import StoredLog, log_folder
from memory_s3 import MemoryS3, serve_memory_s3


@pytest.fixture(scope="module")
def server() -> Iterator[MemoryS3]:
    with serve_memory_s3() as running:
        yield running


def table(path: Path, versions: int = 5, checkpoint_at: int | None = 2) -> None:
    for version in range(versions):
        write_deltalake(path, pa.table({"n": [version]}), mode="append")
        if version == checkpoint_at:
            DeltaTable(path).create_checkpoint()


def uploaded(server: MemoryS3, path: Path, name: str) -> StoredLog:
    for file in path.rglob("*"):
        if file.is_file():
            server.put(f"{name}/{file.relative_to(path)}", file.read_bytes(), only_if_absent=False)
    return opened(f"s3://logs/{name}", server.options)


def opened(location: str, options: dict[str, str] | None = None) -> StoredLog:
    found = log_folder(location, options)
    assert found is not None
    return found


def asked(server: MemoryS3) -> Counter[str]:
    """Requests since the last call by their kind."""
    found = Counter("list" if key.startswith("?") else method.lower() for method, key in server.asked)
    server.asked.clear()
    return found


def test_a_log_is_the_same_in_every_store(tmp_path: Path, server: MemoryS3) -> None:
    table(tmp_path)
    local, remote = opened(str(tmp_path)), uploaded(server, tmp_path, "same")
    there = {file.name: file.stat().st_size for file in (tmp_path / "_delta_log").iterdir() if file.name[0] == "0"}
    assert len(there) == 5 + 1
    for first in (0, 1, 3, 9):
        expected = sorted(item for item in there.items() if int(item[0][:20]) >= first)
        assert [*map(tuple, local.list_from(first))] == [*map(tuple, remote.list_from(first))] == expected
    name = f"{3:020d}.json"
    for folder in (local, remote):
        assert folder.read(name, 2, 5) == local.read(name)[2:7]
        assert folder.read(name, 4) == local.read(name)[4:]
        assert folder.read_all([name, "_last_checkpoint"]) == [local.read(name), local.read("_last_checkpoint")]
        with pytest.raises(FileNotFoundError):
            folder.read("nothing")
    assert local.list_from() == opened(f"file://{tmp_path}").list_from()


def test_each_operation_takes_few_requests(tmp_path: Path, server: MemoryS3) -> None:
    """The requests of each operation: they are what a run waits for."""
    table(tmp_path)
    log = DeltaLog(uploaded(server, tmp_path, "counted"))
    server.asked.clear()
    costs = {}

    def cost(what: str) -> None:
        costs[what] = dict(asked(server))

    newest = log.newest()
    assert newest is not None
    cost("opened: the hint, a listing, the checkpoint, two commits")
    assert newest.files.rows() == 5
    cost("its files: they are in the small checkpoint that is held")
    assert len(log.commits(3, 4) or ()) == 2
    cost("two commits")
    assert len(list(log.back(4, 2))) == 3
    cost("three commits back")
    assert list(costs.values()) == [{"get": 4, "list": 1}, {}, {"get": 2}, {"get": 3}]


def test_the_files_of_folders_in_the_log_are_not_listed(tmp_path: Path, server: MemoryS3) -> None:
    """A store lists them too, behind the versions."""
    table(tmp_path, 3, None)
    folder = uploaded(server, tmp_path, "sidecars")
    for number in range(3_500):
        server.put(f"sidecars/_delta_log/_sidecars/{number:08d}.parquet", b"x", only_if_absent=False)
    server.asked.clear()
    assert [file.name for file in folder.list_from()] == [f"{version:020d}.json" for version in range(3)]
    assert asked(server) == {"list": 1}


def test_a_log_of_several_pages_is_listed_whole(
    tmp_path: Path, server: MemoryS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(tmp_path, 7, None)
    folder = uploaded(server, tmp_path, "pages")
    server.put("pages/_delta_log/_sidecars/s.parquet", b"x", only_if_absent=False)
    monkeypatch.setattr(server, "page", 2)
    server.asked.clear()
    assert len(folder.list_from()) == 7
    assert asked(server) == {"list": 4}


def test_a_store_without_an_order_is_listed_whole(server: MemoryS3, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3's directory buckets list in any order."""

    def listed(*_: object, **__: object) -> Iterator[list[dict[str, object]]]:
        for name in ("_sidecars/s.parquet", f"{0:020d}.json"):
            yield [{"path": f"_delta_log/{name}", "size": 1}]

    monkeypatch.setattr("obstore.list", listed)
    folder = opened("s3://logs/order", server.options)
    assert folder.list_from() == []
    folder.table = "s3://logs--usw2-az1--x-s3/order"
    assert folder.list_from() == [LogFile(f"{0:020d}.json", 1)]


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path, server: MemoryS3) -> None:
    assert opened(str(tmp_path / "none")).list_from() == []
    assert opened("s3://logs/none", server.options).list_from() == []


def test_a_store_that_does_not_answer_is_a_typed_error(server: MemoryS3) -> None:
    dead = {**server.options, "aws_endpoint_url": "http://127.0.0.1:9", "max_retries": "0", "timeout": "2s"}
    with pytest.raises(RetriableFailure, match="cannot read the table's log"):
        opened("s3://logs/dead", dead).list_from()
    with pytest.raises(RetriableFailure, match="cannot read the table's log"):
        opened("s3://logs/dead", dead).read("a")


def test_a_store_is_opened_again_after_a_failure(
    tmp_path: Path, server: MemoryS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment may have other credentials, or another address, by then."""
    table(tmp_path, 1, None)
    uploaded(server, tmp_path, "moved")
    endpoint = "aws_endpoint_url"
    monkeypatch.setenv(endpoint.upper(), "http://127.0.0.1:9")
    others = {key: value for key, value in server.options.items() if key != endpoint} | {"max_retries": "0"}
    folder = opened("s3://logs/moved", others)
    with pytest.raises(RetriableFailure):
        folder.list_from()
    monkeypatch.setenv(endpoint.upper(), server.options[endpoint])
    assert len(folder.list_from()) == 1
    monkeypatch.setenv(endpoint.upper(), "http://127.0.0.1:9")
    assert folder.read(f"{0:020d}.json"), "while it works the store stays open"


def test_a_log_that_may_not_be_read_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").write_text("a file")
    with pytest.raises(ConfigurationError):
        opened(str(tmp_path)).list_from()


def test_a_store_that_obstore_does_not_open_as_delta_rs_does_has_no_folder() -> None:
    assert log_folder("hdfs://host/table") is None
    assert log_folder("s3://bucket/table", {"AWS_S3_LOCKING_PROVIDER": "dynamodb"}) is None
