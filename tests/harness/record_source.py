"""Twelve records as a DataFrame, in the way in which tasks give them, and queries over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.spark.narrowing import Crossing
from kseg.etl.transform.sql import SqlStep

SCHEMA = DecodeOptions(addresses=True).schema
HEADERS = [
    [{"key": "trace", "value": b"1"}, {"key": "trace", "value": b"1"}, {"key": "none", "value": None}],
    None,
    [],
    [{"key": "b", "value": b"\x00\xff"}],
]


def records() -> pa.RecordBatch:
    rows = [
        {
            "key": None if number % 3 == 0 else f"k{number}".encode(),
            "value": None if number == 5 else b"\xff\x80" if number == 4 else f'{{"n": {number}}}'.encode(),
            "topic": "orders",
            "partition": number % 2,
            "offset": number,
            "timestamp": None if number == 7 else datetime(2026, 1, 1, 0, 0, number, number, tzinfo=UTC),
            "timestampType": 0,
            "headers": HEADERS[number % 4],
            "_kseg_topic": "orders",
            "_kseg_partition": number % 2,
            "_kseg_offset": number,
        }
        for number in range(12)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


@dataclass
class Source:
    """The records above, in the way in which tasks give them. crossed: what was asked for."""

    spark: Any
    schema: pa.Schema = SCHEMA
    crossed: list[Crossing] = field(default_factory=list)

    def frame(self, crossing: Crossing | None = None) -> DataFrame:
        batches = [records().slice(0, 5), records().slice(5)]
        if crossing is not None:
            self.crossed.append(crossing)
            batches = [crossing.apply(batch) for batch in batches]
        data = pa.Table.from_batches(batches)
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, data.schema) as writer:
            writer.write_table(data)
        content = stream.getvalue().to_pybytes()

        def kseg_read_ranges(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from pa.ipc.open_stream(content)

        frame: DataFrame = self.spark.range(0, 1, 1, 1).mapInArrow(kseg_read_ranges, from_arrow_schema(data.schema))
        return frame


def landed(frame: DataFrame) -> list[dict[str, Any]]:
    """What a last step in a worker gets."""
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=repr)


def sql(query: str) -> Callable[[DataFrame], DataFrame]:
    return SqlStep(query, "transform[0].sql").apply
