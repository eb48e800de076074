"""One Parquet data file: rows are collected into row groups, written column by column, and described by a WrittenFile.

Keys, values and other high-cardinality columns are written plain, offsets and timestamps as deltas (a few bits a row),
what repeats through a dictionary.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kseg.etl.tables.parquet.statistics import StatsCollector
from kseg.etl.tables.parquet.storage import Opened
from kseg.etl.tables.parquet.task_output import WrittenFile

# Written as deltas: they rise steadily within a batch. Dictionaries of them would be as large as they are.
_DELTA_ENCODED = frozenset({"offset", "_kseg_offset", "batchBaseOffset", "sequence"})


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """compression: what Parquet calls it (`snappy`, `zstd`, `lz4`, `none`), level: None for the codec's default.

    row_group_rows, row_group_bytes: a row group is written when its rows reach one of them (bytes of Arrow data).
    file_bytes: a file that has grown this large is finished and another one begun.
    buffered_bytes: Arrow data that a task may hold over all its files. open_files: how many may be begun at once.
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
        """Take rows; returns the bytes that they hold."""
        self._batches.append(rows)
        size = int(rows.nbytes)
        self.buffered += size
        self.buffered_rows += rows.num_rows
        return size

    def flush(self) -> int:
        """Write what is collected as a row group; returns the bytes that were held."""
        if not self._batches:
            return 0
        rows = pa.Table.from_batches(self._batches, schema=self._schema)
        self._batches = []
        writer = self._begin()
        self._stats.add(rows)
        writer.write_table(rows, row_group_size=self._options.row_group_rows)
        self.size = self._sink.tell()
        held, self.buffered, self.buffered_rows = self.buffered, 0, 0
        return held

    def close(self, table: str, partition_values: Mapping[str, str | None]) -> WrittenFile:
        """Finish the file and return its description, from the footer that the store gives back."""
        self.flush()
        writer = self._begin()
        writer.close()
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
            self._begin().close()
        with contextlib.suppress(Exception):
            self._sink.close()
        with contextlib.suppress(Exception):
            self._store.fs.delete_file(self._store.path(self.path))

    def _begin(self) -> pq.ParquetWriter:
        if self._writer is None:
            parent = self.path.rpartition("/")[0]
            if parent:
                self._store.fs.create_dir(self._store.path(parent), recursive=True)
            self._sink = self._store.fs.open_output_stream(self._store.path(self.path))
            self._writer = pq.ParquetWriter(self._sink, self._schema, **_settings(self._schema, self._options))
        return self._writer


def _settings(schema: pa.Schema, options: WriterOptions) -> dict[str, Any]:
    dictionary: list[str] = []
    bounded: list[str] = []
    deltas: dict[str, str] = {}
    for column in schema:
        if column.name in _DELTA_ENCODED or pa.types.is_timestamp(column.type):
            deltas[column.name] = "DELTA_BINARY_PACKED"
            bounded.append(column.name)
            continue
        for path, kind in _leaves([column]):
            if not pa.types.is_binary(kind) and not pa.types.is_boolean(kind):
                dictionary.append(path)
                bounded.append(path)
    return {
        "compression": options.compression,
        "compression_level": options.compression_level,
        "use_dictionary": dictionary or False,
        "write_statistics": bounded or False,
        "column_encoding": deltas or None,
        "store_schema": False,
    }


def _leaves(fields: Sequence[pa.Field], parent: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """Parquet's dotted paths of all leaves."""
    for child in fields:
        path, kind = f"{parent}{child.name}", child.type
        if pa.types.is_struct(kind):
            yield from _leaves(list(kind), f"{path}.")
        elif pa.types.is_list(kind):
            yield from _leaves([pa.field("element", kind.value_type)], f"{path}.list.")
        elif pa.types.is_map(kind):
            entries = [pa.field("key", kind.key_type), pa.field("value", kind.item_type)]
            yield from _leaves(entries, f"{path}.key_value.")
        else:
            yield path, kind
