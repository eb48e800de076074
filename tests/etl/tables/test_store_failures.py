"""A store that cannot be reached, or refuses, under what reads and writes files beside delta-rs: a typed error that
names the table and says whether to try again. In a task it crosses to the driver, which then tries again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from obstore.exceptions import BaseError

from kseg.etl.delta_log.table_log import DeltaLog
from kseg.etl.errors import ConfigurationError, ExitCode, KsegError, RetriableFailure
from kseg.etl.tables.delta.arrow_log import log_of
from kseg.etl.tables.delta.cleanup import clean_up
from kseg.etl.tables.delta.log import read_commit
from kseg.etl.tables.delta.table import DeltaAccess
from kseg.etl.tables.delta.transactions import transactions_of
from kseg.etl.tables.file_names import FileOwner
from kseg.etl.tables.parquet.data_file import DataFile, WriterOptions
from kseg.etl.tables.parquet.read import FileRows, TableFile
from kseg.etl.tables.parquet.statistics import StatsCollector, StatsSpec
from kseg.etl.tables.parquet.storage import Opened, TableLocation
from tcp_proxy import BEHIND, FRONT, TcpProxy, Trouble

SCHEMA = pa.schema([("value", pa.int64())])
ROWS = pa.record_batch([pa.array([1, 2, 3])], schema=SCHEMA)


@pytest.fixture
def proxy(memory_s3: Any) -> Iterator[TcpProxy]:
    with TcpProxy([memory_s3.port]) as started:
        yield started


@pytest.fixture
def location(memory_s3: Any, proxy: TcpProxy) -> TableLocation:
    """A table behind the proxy."""
    endpoint = memory_s3.options["aws_endpoint_url"].replace(BEHIND, FRONT)
    return TableLocation.of("s3://logs/lake/orders", memory_s3.options | {"aws_endpoint_url": endpoint})


def data_file(store: Opened) -> DataFile:
    return DataFile(
        store, "part-0.parquet", SCHEMA, StatsCollector(StatsSpec.of(SCHEMA, (), {}), SCHEMA), WriterOptions()
    )


def begin(location: TableLocation) -> object:
    file = data_file(location.open())
    file.append(ROWS)
    return file.flush()


def finish(location: TableLocation) -> object:
    return data_file(location.open()).close("orders", {})


def read(location: TableLocation) -> object:
    file = TableFile("part-0.parquet", {})
    numbers = pa.record_batch([pa.array([0])], names=["number"])
    return list(FileRows(location, (file,), SCHEMA)(iter([numbers])))


ASKING: tuple[Callable[[TableLocation], object], ...] = (
    begin,
    finish,
    read,
    lambda location: read_commit(DeltaLog(log_of(location)), 3),
    lambda location: transactions_of(DeltaLog(log_of(location)), "app", 3),
)


def test_a_store_out_of_reach_is_asked_again_later(location: TableLocation, proxy: TcpProxy) -> None:
    write_deltalake(location.uri, pa.table({"value": [1]}), storage_options=location.storage_options)
    table = DeltaTable(location.uri, storage_options=location.storage_options)
    proxy.hold(Trouble(refused=True))

    def error_of(asking: Callable[[TableLocation], object]) -> KsegError:
        with pytest.raises(RetriableFailure) as caught:
            asking(location)
        return caught.value

    def swept(location: TableLocation) -> object:
        return clean_up(table, DeltaLog(log_of(location)), location.open(), FileOwner("run", 1), [0])

    every = [*ASKING, swept]
    with ThreadPoolExecutor(len(every)) as pool:  # Arrow's own tries take two seconds
        for error in pool.map(error_of, every):
            assert error.exit_code == ExitCode.RETRIABLE
            assert error.address == {"table": location.uri}
            assert isinstance(error.__cause__, OSError | BaseError)


def test_a_store_that_goes_away_after_a_snapshot_was_loaded(
    location: TableLocation, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """delta-rs reads the log again for an app's transaction."""
    write_deltalake(location.uri, pa.table({"value": [1]}), storage_options=location.storage_options)
    access = DeltaAccess(location.uri, dict(location.options))
    load = DeltaAccess.load

    def load_and_lose(of: DeltaAccess) -> DeltaTable | None:
        table = load(of)
        proxy.hold(Trouble(reset_after=0))
        return table

    monkeypatch.setattr(DeltaAccess, "load", load_and_lose)
    with pytest.raises(RetriableFailure, match="cannot read the table"):
        access.transaction_version("app")


def test_a_commit_is_tried_again_while_the_log_cannot_be_read(tmp_path: Path) -> None:
    answers = iter([OSError("Kernel error -> Generic S3 error: connection reset"), None])

    def attempt() -> str:
        if error := next(answers):
            raise error
        return "committed"

    assert DeltaAccess(str(tmp_path), None).until_deadline(attempt) == "committed"
    with pytest.raises(ConfigurationError):
        DeltaAccess(str(tmp_path), None).until_deadline(refused)


def refused() -> None:
    raise OSError("status code: 403 Forbidden")


@pytest.mark.parametrize(
    ("fault", "kind", "remedy"),
    [
        (OSError(28, "No space left on device"), RetriableFailure, "free space"),
        (PermissionError(13, "Permission denied"), ConfigurationError, "may read, list, write and delete"),
        (OSError(30, "Read-only file system"), ConfigurationError, "may read, list, write and delete"),
        (OSError("When initiating multiple part upload: AWS Error ACCESS_DENIED"), ConfigurationError, "credentials"),
        (OSError("AWS Error INVALID_ACCESS_KEY_ID during PutObject"), ConfigurationError, "credentials"),
        (OSError("AWS Error NO_SUCH_BUCKET during CreateMultipartUpload"), ConfigurationError, "name of the bucket"),
        (OSError("AWS Error NETWORK_CONNECTION during CreateMultipartUpload"), RetriableFailure, None),
        (OSError("AWS Error SLOW_DOWN during CompleteMultipartUpload"), RetriableFailure, None),
        (OSError(5, "Input/output error"), RetriableFailure, None),
    ],
)
def test_what_a_store_says_decides_whether_to_try_again(
    fault: OSError, kind: type[KsegError], remedy: str | None, tmp_path: Path
) -> None:
    with pytest.raises(kind) as caught, TableLocation.of(tmp_path).open().asked("cannot write"):
        raise fault
    remedies = caught.value.faults[0].remedy if isinstance(caught.value, ConfigurationError) else caught.value.remedy
    assert (remedies is None) if remedy is None else (remedy in (remedies or ""))


def test_what_is_not_there_is_not_the_store_s_failure(location: TableLocation) -> None:
    assert read_commit(DeltaLog(log_of(location)), 3) is None
    with pytest.raises(FileNotFoundError):
        read(location)


def test_a_commit_that_is_gone_once_it_is_read_may_be_there_when_the_log_is_listed_again(s3: Any) -> None:
    """A clean-up of the log by another program, between the list and the file: this was an error for good."""
    access = DeltaAccess("s3://logs/lake/orders", s3.options | {"aws_allow_http": "true"})
    for number in range(3):
        write_deltalake(access.location.uri, ROWS, mode="append", storage_options=access.location.storage_options)
        assert number < 2 or access.load() is not None
    s3.trouble.append(("00000000000000000002.json", 404))
    with pytest.raises(RetriableFailure, match=r"File not found: .*2\.json") as caught:
        access.load()
    assert "removed while it was read" in (caught.value.remedy or "")
    assert caught.value.address["table"] == "s3://logs/lake/orders"
    loaded = access.load()
    assert loaded is not None
    assert loaded.version() == 2
