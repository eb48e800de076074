"""Kafka to a typical table: 40 typed columns, partitioned by day, compared with Spark's connector.

There is a topic for each format (JSON, Avro), of orders with 10 integers, 14 texts, 6 doubles, 4 decimals, 3 timestamps
and 3 booleans; 6 of the columns are nullable. `created_at` is within 30 days, in random order, so that every task has
rows of every day. All tables have these columns and the record's address.

    ours                 a job with `decode:` and `partition_by: [{day: created_at}]`
    spark_decoded        the tuned connector, `from_json` or `from_avro` with the same columns, `to_date(created_at)`,
                         `partitionBy`
    ours_unpartitioned   our job without `partition_by`, which shows the cost of partitions

Each run's row count, the sums of an integer and of a decimal, and for partitioned tables the number of days, are
compared with those of the other runs, because `from_json` returns null for what it cannot decode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from kseg.jobs.bench import avro_payloads, json_payloads
from kseg.jobs.bench.contenders import TUNING, Contender, connector, ours_to_delta
from kseg.jobs.bench.figures import OURS, SPARK, MeasuredRun
from kseg.jobs.bench.typed import BenchmarkFormat, ColumnSums
from kseg.jobs.bench.workload import FIRST_TIMESTAMP, BenchTopic

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

FLAT: Final = "ours_unpartitioned"
DAYS: Final = 30

DAY_MS: Final = 86_400_000
PARTITION: Final = "created_at_day"
_ADDRESS: Final = ("topic", "partition", "offset")

_INTEGERS: Final = (
    "id",
    "customer_id",
    "shop_id",
    "session_id",
    "basket_id",
    "campaign_id",
    "quantity",
    "weight_grams",
    "revision",
    "source_offset",
)
_TEXTS: Final = (
    "customer",
    "email",
    "currency",
    "country",
    "city",
    "street",
    "zip",
    "status",
    "channel",
    "device",
    "browser",
    "sku",
    "category",
    "note",
)
_DOUBLES: Final = ("latitude", "longitude", "score", "discount_rate", "exchange_rate", "distance_km")
_DECIMALS: Final = ("net", "tax", "shipping", "total")
_TIMES: Final = ("created_at", "updated_at", "paid_at")
_FLAGS: Final = ("paid", "gift", "returning")
_NULLABLE: Final = frozenset({"campaign_id", "browser", "note", "score", "shipping", "paid_at"})

COLUMNS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_INTEGERS, "bigint"),
    **dict.fromkeys(_TEXTS, "string"),
    **dict.fromkeys(_DOUBLES, "double"),
    **dict.fromkeys(_DECIMALS, "decimal(12,2)"),
    **dict.fromkeys(_TIMES, "timestamp"),
    **dict.fromkeys(_FLAGS, "boolean"),
}
"""Name and DDL type."""

_STREETS: Final = ("Lange Straße", "Rue de la Paix", "High Street", "Via Roma", "Calle Mayor")
_CITIES: Final = ("Berlin", "Paris", "London", "Roma", "Madrid", "Wien", "Lisboa", "Praha")
_STATUS: Final = ("placed", "paid", "shipped", "delivered", "returned")


def row(random: Random) -> dict[str, Any]:
    """One order: decimals in cents, times in ms since 1970."""
    number = random.getrandbits(40)
    created = FIRST_TIMESTAMP + random.randrange(DAYS * DAY_MS)
    net = random.randrange(100, 10_000_000)
    made: dict[str, Any] = {name: (number >> place) % 1_000_003 for place, name in enumerate(_INTEGERS)}
    made |= {
        "id": number,
        "customer": f"customer {number % 99_991}",
        "email": f"{number % 99_991:06d}@example.org",
        "currency": "EUR",
        "country": ("DE", "FR", "GB", "IT", "ES")[number % 5],
        "city": _CITIES[number % 8],
        "street": f"{_STREETS[number % 5]} {number % 300}",
        "zip": f"{number % 100_000:05d}",
        "status": _STATUS[number % 5],
        "channel": ("web", "app", "shop")[number % 3],
        "device": f"device-{number % 65_536:04x}",
        "browser": "Firefox/128.0",
        "sku": f"sku-{number:011x}",
        "category": f"category {number % 40}",
        "note": "to the front door, no signature"[: number % 32],
    }
    made |= {name: random.random() for name in _DOUBLES}
    made |= {"net": net, "tax": net // 5, "shipping": 490, "total": net + net // 5 + 490}
    made |= {"created_at": created, "updated_at": created + number % 9_999_999, "paid_at": created + number % 999_999}
    made |= {"paid": number % 2 == 0, "gift": number % 16 == 0, "returning": number % 3 == 0}
    return made | {name: None for place, name in enumerate(sorted(_NULLABLE)) if number >> place & 7 == 0}


def as_json(made: dict[str, Any]) -> dict[str, Any]:
    """The order with the values of its JSON document; `made` is changed in place."""
    for name in _DECIMALS:
        made[name] = None if made[name] is None else made[name] / 100
    for name in _TIMES:
        made[name] = None if made[name] is None else _iso(made[name])
    return made


def _iso(millis: int) -> str:
    return f"{datetime.fromtimestamp(millis // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{millis % 1000:03d}Z"


def _avro_row(random: Random) -> dict[str, Any]:
    made = row(random)
    for name in _DECIMALS:
        made[name] = None if made[name] is None else made[name].to_bytes(6, "big", signed=True).decode("latin-1")
    return made


_AVRO_TYPES: Final[Mapping[str, Any]] = {
    "bigint": "long",
    "decimal(12,2)": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
    "timestamp": {"type": "long", "logicalType": "timestamp-millis"},
}


def _avro_type(name: str, kind: str) -> Any:
    plain = _AVRO_TYPES.get(kind, kind)
    return ["null", plain] if name in _NULLABLE else plain


JSON: Final = json_payloads.JsonShape("40 columns", COLUMNS, lambda random: as_json(row(random)))
AVRO: Final = avro_payloads.AvroShape(
    "40 columns", [{"name": name, "type": _avro_type(name, kind)} for name, kind in COLUMNS.items()], _avro_row
)


def formats() -> tuple[BenchmarkFormat, ...]:
    columns = ", ".join(f'{name}: "{kind}"' for name, kind in COLUMNS.items())
    return (
        BenchmarkFormat("json", JSON.make, f"{{format: json, schema: {{columns: {{{columns}}}}}}}", {}, _from_json),
        BenchmarkFormat(
            "avro",
            AVRO.make,
            "{format: avro, schema: {file: order.avsc}}",
            {"order.avsc": AVRO.schema.encode()},
            _from_avro,
        ),
    )


def measure(
    spark: SparkSession,
    topics: Sequence[tuple[BenchmarkFormat, BenchTopic]],
    rounds: Callable[[Sequence[Contender], BenchTopic], list[MeasuredRun]],
) -> dict[str, Any]:
    """rounds: runs contenders in turn, several times each. Raises WrongCount."""
    cases, runs = [], []
    for form, topic in topics:
        written: dict[str, WrittenFiles] = {way: WrittenFiles() for way in (OURS, SPARK, FLAT)}
        of_form = rounds(list(_contenders(spark, form, topic, written)), topic)
        cases.append(figures(form.name, of_form, written))
        runs += of_form
    return {"columns": len(COLUMNS), "days": DAYS, "cases": cases, "runs": [run.to_json() for run in runs]}


@dataclass
class WrittenFiles:
    """Number and bytes of the Parquet files that the last run of a way has written."""

    files: int = 0
    size: int = 0

    def note(self, table: Path) -> None:
        sizes = [file.stat().st_size for file in table.rglob("*.parquet") if "_delta_log" not in file.parts]
        self.files, self.size = len(sizes), sum(sizes)


def figures(form: str, runs: Sequence[MeasuredRun], written: Mapping[str, WrittenFiles]) -> dict[str, Any]:
    """The figures of one format: rates, ratios of median times, and each way's files."""
    seconds = {way: median(run.seconds for run in runs if run.way == way) for way in written}
    return {
        "case": form,
        "rows": runs[0].rows,
        "krows_per_second": {way: round(runs[0].rows / taken / 1000, 1) for way, taken in seconds.items()},
        "ratios": {
            "vs_spark_decoded": round(seconds[SPARK] / seconds[OURS], 2),
            "vs_unpartitioned": round(seconds[FLAT] / seconds[OURS], 2),
        },
        "files": {way: table.files for way, table in written.items()},
        "mib": {way: round(table.size / (1 << 20), 1) for way, table in written.items()},
    }


def _contenders(
    spark: SparkSession, form: BenchmarkFormat, topic: BenchTopic, written: Mapping[str, WrittenFiles]
) -> Iterator[Contender]:
    sums, partitioned = ColumnSums(("id", "net")), ColumnSums((PARTITION,))

    def check(way: str) -> Callable[[Path], None]:
        def checked(table: Path) -> None:
            written[way].note(table)
            sums.check(table)
            if way != FLAT:
                partitioned.check(table)

        return checked

    yield Contender(OURS, form.name, lambda folder: _ours(form, topic, folder, "[{day: created_at}]"), check(OURS))
    yield Contender(SPARK, form.name, lambda folder: _spark(spark, form, topic, folder), check(SPARK))
    yield Contender(FLAT, form.name, lambda folder: _ours(form, topic, folder, ""), check(FLAT))


def _ours(form: BenchmarkFormat, topic: BenchTopic, folder: Path, partition_by: str) -> tuple[int, dict[str, float]]:
    for name, content in form.files.items():
        (folder / name).write_bytes(content)
    return ours_to_delta(topic, None, folder, f"decode: {{value: {form.decode}}}\n", partition_by)


def _spark(spark: SparkSession, form: BenchmarkFormat, topic: BenchTopic, folder: Path) -> tuple[int, dict[str, float]]:
    from pyspark.sql.functions import to_date

    frame = connector(spark, topic, TUNING).select(form.peer().alias("decoded"), *_ADDRESS)
    frame = frame.select("decoded.*", *_ADDRESS).withColumn(PARTITION, to_date("created_at"))
    frame.write.format("delta").mode("append").partitionBy(PARTITION).save(str(folder / "table"))
    return topic.rows, {}


def _from_json() -> Column:
    from pyspark.sql.functions import col, from_json

    ddl = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    return from_json(col("value").cast("string"), ddl)


def _from_avro() -> Column:
    from pyspark.sql.avro.functions import from_avro

    return from_avro("value", AVRO.schema)
