"""`spark.read.format("kseg")`: Kafka's records with the columns of Spark's own Kafka source.

    spark.read.format("kseg").option("kafka.bootstrap.servers", …).option("subscribe", "orders").load()
    spark.read.format("kseg").option("subscribe", "orders").load("/var/lib/kafka/data")           without a broker
    spark.readStream.format("kseg")…                                              see `etl.spark_format.stream`

Spark calls this in separate Python processes: once for the schema, once to plan (offsets are resolved at that moment),
and in a worker for each partition. If Spark does not find the source by itself (see `pyspark_kseg`), register it:
`spark.dataSource.register(KsegDataSource)`. Jobs do not use it: `etl.spark.dataframe` also returns what was read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kseg.etl.spark.remedies import RemediesTold
from kseg.etl.spark_format.partition import KsegPartition, read_partition

if TYPE_CHECKING:
    import pyarrow as pa

    from kseg.etl.kafka_writer.datasource import KsegWriter
    from kseg.etl.spark_format.options import ReadOptions
    from kseg.etl.spark_format.stream import KsegStreamReader

_COLUMNS = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]
_HEADERS = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)
_PROVENANCE = [
    StructField("leaderEpoch", IntegerType()),
    StructField("producerId", LongType()),
    StructField("producerEpoch", ShortType()),
    StructField("sequence", IntegerType()),
    StructField("transactional", BooleanType()),
    StructField("batchBaseOffset", LongType()),
    StructField("file", StringType()),
    StructField("position", LongType()),
]


class KsegDataSource(DataSource):
    """The data source. Its options: `etl.spark_format.options`."""

    @classmethod
    def name(cls) -> str:
        return "kseg"

    def schema(self) -> StructType:
        """The columns of the rows; with `value.format` or `key.format` those of the decoded rows.

        Spark calls this at `load()`, so invalid options are reported there, if they are invalid for both batch and
        streaming queries: Spark does not say at `load()` which kind the query is.

        Raises:
            ConfigurationError: invalid options, every fault at once.
        """
        from kseg.etl.spark_format.stream_options import check_either

        return _schema(check_either(self.options))

    def reader(self, schema: StructType) -> KsegReader:
        """Raises ConfigurationError: invalid options, or another schema than the source's."""
        from kseg.etl.spark_format.options import ReadOptions

        options = ReadOptions.parse(self.options)
        _check_schema(schema, options)
        return KsegReader(options)

    def streamReader(self, schema: StructType) -> KsegStreamReader:  # noqa: N802
        """Raises ConfigurationError: invalid options, or another schema than the source's."""
        from kseg.etl.spark_format.stream import KsegStreamReader
        from kseg.etl.spark_format.stream_options import StreamOptions

        options = StreamOptions.parse(self.options)
        _check_schema(schema, options.read)
        return KsegStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> KsegWriter:
        """`df.write.format("kseg")`; see `etl.kafka_writer.datasource`. Raises ConfigurationError."""
        from kseg.etl.kafka_writer.datasource import KsegWriter
        from kseg.etl.kafka_writer.options import WriteOptions

        return KsegWriter.of(WriteOptions.parse(self.options), schema, overwrite=overwrite)


def _schema(options: ReadOptions) -> StructType:
    if options.decode is not None:
        from pyspark.sql.pandas.types import from_arrow_schema

        from kseg.etl.spark_format.partition import typed_schema

        return from_arrow_schema(typed_schema(options))
    headers = [_HEADERS] if options.include_headers else []
    return StructType([*_COLUMNS, *headers, *(_PROVENANCE if options.include_provenance else [])])


def _check_schema(schema: StructType, options: ReadOptions) -> None:
    """schema: the columns that Spark expects. Raises ConfigurationError: the rows have others."""
    from kseg.etl.errors import ConfigurationError

    if schema == _schema(options):
        return
    if options.decode is not None and options.decode.by_registry:
        message = "the registry's schemas give other columns than at load()"
        raise ConfigurationError.of("schema", message, "call load() again, without schema(…)")
    raise ConfigurationError.of("schema", "the source has a fixed schema", "leave schema(…) out, select columns")


class KsegReader(DataSourceReader):
    """Plans in the driver's helper process, reads in the workers."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    @RemediesTold()
    def partitions(self) -> list[InputPartition]:
        """The current ranges, one Spark partition each; small ranges of log files share one.

        Raises:
            ConfigurationError: offsets that do not fit the partitions.
            OffsetsLost: offsets outside of the log, with failOnDataLoss.
            KafkaError: a request to the cluster failed.
        """
        from kseg.etl.source.files.tasks import pack
        from kseg.etl.spark_format.planning import plan_tasks

        packs = pack(plan_tasks(self._options), at_least=self._options.min_partitions or 1)
        return [KsegPartition(tasks) for tasks in packs]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a partition. If there are no partitions, Spark calls this with an empty one."""
        with RemediesTold():
            yield from read_partition(partition, self._options)
