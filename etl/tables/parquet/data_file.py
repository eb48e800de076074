"""One Parquet data file: rows are collected into row groups, written column by column, described by a WrittenFile."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kseg.etl.tables.parquet.encoding import encodings
from kseg.etl.tables.parquet.statistics import StatsCollector
from kseg.etl.tables.parquet.storage import Opened
from kseg.etl.tables.parquet.task_output import WrittenFile

BATCH_BYTES, COLUMN_BYTES = 512, 512
"""Memory of a batch and of each of its columns besides their values: objects, and buffers that are rounded up. Measured
with batches of one row and of 2 to 30 columns."""
_WRITING: Final = "cannot write a data file"


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """compression: what Parquet calls it (`snappy`, `zstd`, `lz4`, `none`), level: None for the codec's default.

    row_group_rows, row_group_bytes: a row group is written when its rows reach one of them (bytes of Arrow data).
    file_bytes: a file that has grown this large is finished and another one begun.
    buffered_bytes: Arrow data that a task may hold over all its files of a table. open_files: how many of them may be
    begun at once.
    """

    compression: str = "snappy"
    compression_level: int | None = None
    row_group_rows: int = 1 << 20
    row_group_bytes: int = 128 << 20
    file_bytes: int = 768 << 20
    buffered_bytes: int = 256 << 20
    open_files: int = 64


class DataFile:
    """One Parquet file: rows are collected until a row group is full. The file appears with its first row group."""

    def __init__(
        self, store: Opened, path: str, schema: pa.Schema, stats: StatsCollector, options: WriterOptions
    ) -> None:
        self.path = path
        self.buffered = 0
        self.buffered_rows = 0
        self.size = 0
        self._store, self._schema, self._stats, self._options = store, schema, stats, options
        self._batches: list[pa.RecordBatch] = []
        self._sink: Any = None
        self._writer: pq.ParquetWriter | None = None

    def append(self, rows: pa.RecordBatch) -> int:
        """Take rows; returns the bytes that they hold, with what a batch of few rows holds besides."""
        self._batches.append(rows)
        size = int(rows.nbytes + BATCH_BYTES + COLUMN_BYTES * rows.num_columns)
        self.buffered += size
        self.buffered_rows += rows.num_rows
        return size

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows, and write a row group once it is full."""
        self.append(rows)
        if self.buffered >= self._options.row_group_bytes or self.buffered_rows >= self._options.row_group_rows:
            self.flush()

    def flush(self) -> int:
        """Write what is collected as a row group; returns the bytes that were held."""
        if not self._batches:
            return 0
        rows = pa.Table.from_batches(self._batches, schema=self._schema)
        self._batches = []
        self._stats.add(rows)
        with self._store.asked(_WRITING):
            self._begin(rows).write_table(rows, row_group_size=self._options.row_group_rows)
            self.size = self._sink.tell()
        held, self.buffered, self.buffered_rows = self.buffered, 0, 0
        return held

    def close(self, table: str, partition_values: Mapping[str, str | None]) -> WrittenFile:
        """Finish the file and return its description, from the footer that the store gives back."""
        self.flush()
        with self._store.asked(_WRITING):
            self._begin(pa.Table.from_batches([], self._schema)).close()
            self.size = self._sink.tell()
            self._sink.close()
            with self._store.fs.open_input_file(self._store.path(self.path)) as written:
                footer = pq.read_metadata(written)
        return WrittenFile(
            table=table,
            path=self.path,
            size=self.size,
            rows=footer.num_rows,
            partition_values=partition_values,
            stats=self._stats.result(footer),
            modified_ms=time.time_ns() // 1_000_000,
        )

    def delete(self) -> None:
        """Remove the file, whole or not. A file that cannot be removed is left for the clean-up after the commit."""
        self._batches = []
        if self._sink is None:
            return
        with contextlib.suppress(Exception):
            self._begin(pa.Table.from_batches([], self._schema)).close()
        with contextlib.suppress(Exception):
            self._sink.close()
        delete(self._store, self.path)

    def _begin(self, rows: pa.Table) -> pq.ParquetWriter:
        """rows: the first row group."""
        if self._writer is None:
            parent = self.path.rpartition("/")[0]
            if parent and self._store.has_folders:
                self._store.fs.create_dir(self._store.path(parent), recursive=True)
            self._sink = self._store.fs.open_output_stream(self._store.path(self.path))
            self._writer = pq.ParquetWriter(
                self._sink,
                self._schema,
                compression=self._options.compression,
                compression_level=self._options.compression_level,
                store_schema=False,
                **encodings(rows),
            )
        return self._writer


def delete(store: Opened, path: str) -> None:
    """Remove a file, whole or not. path: relative to the table. It stays if it cannot be removed."""
    with contextlib.suppress(Exception):
        store.fs.delete_file(store.path(path))
