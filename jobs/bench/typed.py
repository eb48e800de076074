"""Kafka to Delta with typed columns: a job's `decode:` section compared with Spark's connector with `from_json`,
`from_avro` and `from_protobuf`, and with a job that lands the same topic as bytes.

There is a topic for each format, of records with 8 flat fields (those of the payload benchmark). All typed tables have
these columns and the record's address. Each run's row count and the sum of one column are compared with those of the
other runs, because `from_json` returns null for what it cannot decode.

Spark's side of Protobuf runs if KSEG_SPARK_PROTOBUF names a jar with spark-protobuf (`kseg.jobs.bench.session`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from kseg.jobs.bench import avro_payloads, json_payloads, protobuf_payloads
from kseg.jobs.bench.contenders import TUNING, Contender, WrongCount, connector, ours_to_delta
from kseg.jobs.bench.figures import OURS, RAW, SPARK, MeasuredRun
from kseg.jobs.bench.session import PROTOBUF_JAR
from kseg.jobs.bench.workload import FIRST_TIMESTAMP, BenchTopic
from kseg.segment_reader.encode.batches import Record

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_JSON, _AVRO, _PROTOBUF = json_payloads.SHAPES[0], avro_payloads.SHAPES[0], protobuf_payloads.SHAPES[0]
_ADDRESS: Final = ("topic", "partition", "offset")
_SUMMED: Final = "id"


@dataclass(frozen=True)
class BenchmarkFormat:
    """make: makes a payload. decode: our job's section for values. files: those that it names. peer: Spark's column.
    jar: the environment variable that names the jar that Spark's side needs; None: it needs none."""

    name: str
    make: Callable[[Random], bytes]
    decode: str
    files: Mapping[str, bytes]
    peer: Callable[[], Column]
    jar: str | None = None

    def records(self, first: int, count: int) -> list[Record]:
        """Records number `first` and on."""
        random = Random(first)
        return [
            Record(f"{number % 65_536:010d}".encode(), self.make(random), (), FIRST_TIMESTAMP + number)
            for number in range(first, first + count)
        ]


def formats() -> tuple[BenchmarkFormat, ...]:
    """All formats; without Protobuf if the extra `protobuf` is not installed."""
    columns = ", ".join(f"{name}: {kind}" for name, kind in _JSON.columns.items())
    made = [
        BenchmarkFormat("json", _JSON.make, f"{{format: json, schema: {{columns: {{{columns}}}}}}}", {}, _from_json),
        BenchmarkFormat(
            "avro",
            _AVRO.make,
            "{format: avro, schema: {file: order.avsc}}",
            {"order.avsc": _AVRO.schema.encode()},
            _from_avro,
        ),
    ]
    if protobuf_payloads.shapes():
        decode = "{format: protobuf, schema: {file: order.desc}, message: shop.Order}"
        files = {"order.desc": _PROTOBUF.descriptors}
        made.append(BenchmarkFormat("protobuf", _PROTOBUF.make, decode, files, _from_protobuf, PROTOBUF_JAR))
    return tuple(made)


def measure(
    spark: SparkSession,
    topics: Sequence[tuple[BenchmarkFormat, BenchTopic]],
    rounds: Callable[[Sequence[Contender], BenchTopic], list[MeasuredRun]],
) -> dict[str, Any]:
    """rounds: runs contenders in turn, several times each. Spark's side of Protobuf is missing without its jar."""
    runs = [run for form, topic in topics for run in rounds(list(_contenders(spark, form, topic)), topic)]
    return {
        "runs": [run.to_json() for run in runs],
        "medians_krows_per_second": {form.name: _medians(runs, form.name) for form, _ in topics},
        "ratios": {form.name: _ratios(runs, form.name) for form, _ in topics},
    }


def _medians(runs: Sequence[MeasuredRun], form: str) -> dict[str, float]:
    """Thousand rows per second by way."""
    seconds = _seconds(runs, form)
    rows = next(run.rows for run in runs if run.sink == form)
    return {way: round(rows / taken / 1000, 1) for way, taken in seconds.items()}


def _ratios(runs: Sequence[MeasuredRun], form: str) -> dict[str, float]:
    """Our speed as a multiple of each other way to land typed rows: its median time divided by ours."""
    seconds = _seconds(runs, form)
    return {f"typed_vs_{way}": round(taken / seconds[OURS], 2) for way, taken in seconds.items() if way != OURS}


def _seconds(runs: Sequence[MeasuredRun], form: str) -> dict[str, float]:
    by_way: dict[str, list[float]] = {}
    for run in runs:
        if run.sink == form:
            by_way.setdefault(run.way, []).append(run.seconds)
    return {way: median(taken) for way, taken in by_way.items()}


def _contenders(spark: SparkSession, form: BenchmarkFormat, topic: BenchTopic) -> Iterator[Contender]:
    sums = ColumnSums((_SUMMED,))
    typed = f"decode: {{value: {form.decode}}}\n"
    yield Contender(OURS, form.name, lambda folder: _ours(form, topic, folder, typed), sums.check)
    yield Contender(RAW, form.name, lambda folder: ours_to_delta(topic, None, folder))
    if form.jar is None or os.environ.get(form.jar):
        yield Contender(SPARK, form.name, lambda folder: _spark(spark, form, topic, folder), sums.check)


def _ours(form: BenchmarkFormat, topic: BenchTopic, folder: Path, decode: str) -> tuple[int, dict[str, float]]:
    for name, content in form.files.items():
        (folder / name).write_bytes(content)
    return ours_to_delta(topic, None, folder, decode)


def _spark(spark: SparkSession, form: BenchmarkFormat, topic: BenchTopic, folder: Path) -> tuple[int, dict[str, float]]:
    frame: DataFrame = connector(spark, topic, TUNING).select(form.peer().alias("decoded"), *_ADDRESS)
    frame.select("decoded.*", *_ADDRESS).write.format("delta").mode("append").save(str(folder / "table"))
    return topic.rows, {}


def _from_json() -> Column:
    from pyspark.sql.functions import col, from_json

    ddl = ", ".join(f"{name} {kind}" for name, kind in _JSON.columns.items())
    return from_json(col("value").cast("string"), ddl)


def _from_avro() -> Column:
    from pyspark.sql.avro.functions import from_avro

    return from_avro("value", _AVRO.schema)


def _from_protobuf() -> Column:
    from pyspark.sql.protobuf.functions import from_protobuf

    return from_protobuf("value", "shop.Order", binaryDescriptorSet=_PROTOBUF.descriptors)


@dataclass
class ColumnSums:
    """Checks that all tables of a topic have the same sums of these columns; for columns that are not integers or
    decimals, the same number of distinct values.
    """

    columns: tuple[str, ...]
    first: list[tuple[Any, ...]] = field(default_factory=list)

    def check(self, table: Path) -> None:
        """Raises WrongCount."""
        import pyarrow.compute as pc
        import pyarrow.types as pt
        from deltalake import DeltaTable
        from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

        files = SubTreeFileSystem(str(table), LocalFileSystem())  # delta-rs' own, in Python, can abort at exit
        rows = DeltaTable(str(table)).to_pyarrow_table(columns=list(self.columns), filesystem=files)
        found = tuple(
            (pc.sum if pt.is_integer(kind) or pt.is_decimal(kind) else pc.count_distinct)(column).as_py()
            for column, kind in zip(rows.columns, rows.schema.types, strict=True)
        )
        self.first = self.first or [found]
        if None in found or found != self.first[0]:
            raise WrongCount(
                f"the columns {', '.join(self.columns)} of {table} add up to {found}, those of another run to "
                f"{self.first[0]}"
            )
