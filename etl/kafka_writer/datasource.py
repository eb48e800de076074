"""`df.write.format("kseg")`: writes rows to Kafka, at least once.

    df.write.format("kseg").option("kafka.bootstrap.servers", …).option("topic", "orders").mode("append").save()

Every task has its own idempotent producer; a task that Spark runs again writes its rows again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from kseg.etl.errors import ConfigurationError
from kseg.etl.kafka_writer.columns import RowColumns, row_columns
from kseg.etl.kafka_writer.options import WriteOptions
from kseg.etl.spark.remedies import RemediesTold

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class TaskWritten(WriterCommitMessage):
    """The result of a task: rows by topic and partition."""

    rows: dict[tuple[str, int], int]


class KsegWriter(DataSourceArrowWriter):
    """Created and checked when `save()` is called; writes in the workers."""

    def __init__(self, options: WriteOptions, columns: RowColumns) -> None:
        self._options = options
        self._columns = columns

    @classmethod
    def of(cls, options: WriteOptions, schema: StructType, *, overwrite: bool) -> KsegWriter:
        """Raises ConfigurationError: invalid columns, or another mode than append."""
        if overwrite:
            raise ConfigurationError.of("mode", "a topic cannot be overwritten", 'use mode("append")')
        return cls(options, row_columns(schema, options.topic))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        """Write one task's rows.

        Raises:
            BadRow: a row that cannot become a record.
            KafkaError: a batch could not be delivered; the task's other rows may be in the topic.
        """
        from kseg.client.producer import KafkaProducer
        from kseg.etl.kafka_writer.rows import RowWriter

        with RemediesTold(), KafkaProducer(self._options.config) as producer:
            writer = RowWriter(producer, self._columns, self._options.topic)
            writer.write(iterator)
            written = writer.finish()
        return TaskWritten({(tp.topic, tp.partition): part.rows for tp, part in written.items()})
