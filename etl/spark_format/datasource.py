"""`spark.read.format("kseg")`: Kafka's records with the columns of Spark's own Kafka source.

    spark.read.format("kseg").option("kafka.bootstrap.servers", …).option("subscribe", "orders").load()
    spark.read.format("kseg").option("subscribe", "orders").load("/var/lib/kafka/data")           with no broker
    spark.readStream.format("kseg")…                                                         see
    `etl.spark_format.stream`

Spark calls this in Python processes of its own: once to learn the columns, once to plan (offsets are resolved there and
then), and in a worker for each partition. Where Spark does not find the source by itself (see `pyspark_kseg`), register
it: `spark.dataSource.register(KsegDataSource)`. A job does not use it: `etl.spark.dataframe` also returns what was
read.
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

from kseg.etl.spark_format.partition import KsegPartition, read_partition
from kseg.etl.spark_format.remedies import RemediesTold

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
    """The source. Options: `etl.spark_format.options`."""

    @classmethod
    def name(cls) -> str:
        return "kseg"

    def schema(self) -> StructType:
        """The columns; `load()` asks for them, so invalid options are reported at once, as far as they are invalid for
        both a batch and a stream: at this point Spark does not say whether the query is streaming. With
        `value.format` or `key.format` they are those of the decoded rows.

        Raises:
            ConfigurationError: the options, every fault at once.
        """
        from kseg.etl.spark_format.stream_options import check_either

        options = check_either(self.options)
        if options.decode is not None:
            from pyspark.sql.pandas.types import from_arrow_schema

            from kseg.etl.spark_format.partition import typed_schema

            return from_arrow_schema(typed_schema(options))
        headers = [_HEADERS] if options.include_headers else []
        return StructType([*_COLUMNS, *headers, *(_PROVENANCE if options.include_provenance else [])])

    def reader(self, schema: StructType) -> KsegReader:
        """Raises ConfigurationError for bad options, or a schema that is not the source's own."""
        from kseg.etl.spark_format.options import ReadOptions

        self._refuse_other(schema)
        return KsegReader(ReadOptions.parse(self.options))

    def streamReader(self, schema: StructType) -> KsegStreamReader:  # noqa: N802
        """Raises ConfigurationError for bad options, or a schema that is not the source's own."""
        from kseg.etl.spark_format.stream import KsegStreamReader
        from kseg.etl.spark_format.stream_options import StreamOptions

        self._refuse_other(schema)
        return KsegStreamReader(StreamOptions.parse(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> KsegWriter:
        """`df.write.format("kseg")`; see `etl.kafka_writer.datasource`. Raises ConfigurationError."""
        from kseg.etl.kafka_writer.datasource import KsegWriter
        from kseg.etl.kafka_writer.options import WriteOptions

        return KsegWriter.of(WriteOptions.parse(self.options), schema, overwrite=overwrite)

    def _refuse_other(self, schema: StructType) -> None:
        from kseg.etl.errors import ConfigurationError

        if schema != self.schema():
            raise ConfigurationError.of(
                "schema", "the source has a fixed schema", "leave schema(…) out, select columns"
            )


class KsegReader(DataSourceReader):
    """Plans in the driver's helper process, reads in the workers."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    @RemediesTold()
    def partitions(self) -> list[InputPartition]:
        """The ranges as of now, one Spark partition each; small ones of files share one.

        Raises:
            ConfigurationError: offsets that do not fit the partitions.
            OffsetsLost: offsets outside of the log, with failOnDataLoss.
            KafkaError: the cluster cannot be asked.
        """
        from kseg.etl.source.files.tasks import pack
        from kseg.etl.spark_format.planning import plan_tasks

        packs = pack(plan_tasks(self._options), at_least=self._options.min_partitions or 1)
        return [KsegPartition(tasks) for tasks in packs]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The ranges' rows. Spark calls it with an empty partition where there is none."""
        with RemediesTold():
            yield from read_partition(partition, self._options)
