"""In the tasks: the rows of a table's data files, read through pyarrow as the files were written.

Spark's own reader needs a file system for the table's store in the JVM; writing and committing do without. Files
without deletion vectors and column mapping are plain Parquet, whose rows are read here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kseg.etl.tables.parquet.storage import Opened, TableLocation

BATCH_ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file. path: relative to the table, decoded. values: its partition's, typed as in the table."""

    path: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FileRows:
    """Gives the rows of some of these files: called in a task with batches whose first column has their numbers.

    schema: of the rows, a part of the table's. Columns that a file lacks were added to the table later: they are null.
    """

    location: TableLocation
    files: tuple[TableFile, ...]
    schema: pa.Schema

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = self.location.open()
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self._rows(store, self.files[number])

    def _rows(self, store: Opened, file: TableFile) -> Iterator[pa.RecordBatch]:
        with store.asked("cannot read a data file"), store.fs.open_input_file(store.path(file.path)) as source:
            # Spark may have rewritten the file with its old 96-bit timestamps; in nanoseconds they could overflow.
            parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
            there = [name for name in self.schema.names if name in parquet.schema_arrow.names]
            for rows in parquet.iter_batches(batch_size=BATCH_ROWS, columns=there):
                columns = [self._column(rows, file, field) for field in self.schema]
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, rows: pa.RecordBatch, file: TableFile, field: pa.Field) -> pa.Array:
        if field.name in rows.schema.names:
            column = rows.column(field.name)
            return column if column.type == field.type else column.cast(field.type)
        return pa.repeat(pa.scalar(file.values.get(field.name), field.type), rows.num_rows)
