"""A table's log through Arrow's file systems."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kseg.etl.delta_log.table_log import DeltaLog
from kseg.etl.errors import ConfigurationError, RetriableFailure
from kseg.etl.ledger.log_files import LocalLog
from kseg.etl.tables.delta.arrow_log import ArrowLog, log_of
from kseg.etl.tables.parquet.storage import TableLocation


def test_a_log_is_read_as_without_arrow(tmp_path: Path) -> None:
    for number in range(4):
        write_deltalake(tmp_path, pa.table({"n": [number]}), mode="append")
        if number == 1:
            DeltaTable(tmp_path).create_checkpoint()
    folder = ArrowLog(TableLocation.of(tmp_path).open())
    assert folder.list_from(1) == LocalLog(str(tmp_path)).list_from(1)
    log = DeltaLog(folder)
    found = log.newest()
    assert found is not None
    assert (found.version, found.files.rows()) == (3, 4)


def test_what_is_not_there_is_empty_or_an_error(tmp_path: Path) -> None:
    folder = ArrowLog(TableLocation.of(tmp_path).open())
    assert folder.list_from() == []
    with pytest.raises(FileNotFoundError):
        folder.read("a")
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "a").mkdir()
    with pytest.raises((ConfigurationError, RetriableFailure)):
        folder.read("a")


def test_stores_that_obstore_opens_are_read_with_it(tmp_path: Path) -> None:
    assert isinstance(log_of(TableLocation.of(tmp_path)), LocalLog)
