"""A Spark partition of `format("kseg")`, batch or stream: planned in the driver's helper process, read in a worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from kseg.etl.source.tasks import RangeTask
    from kseg.etl.spark_format.options import ReadOptions


@dataclass
class KsegPartition(InputPartition):
    """One Spark partition: a range of one Kafka partition, or several small ones of files."""

    tasks: tuple[RangeTask, ...]


def read_partition(partition: Any, read: ReadOptions) -> Iterator[pa.RecordBatch]:
    """In a worker: the rows of one Spark partition; none where it is not one of ours."""
    from kseg.etl.source.reader import DecodeOptions, read_range

    if not isinstance(partition, KsegPartition):
        return
    options = DecodeOptions(
        isolation_level=read.isolation_level,
        headers=read.include_headers,
        provenance=read.include_provenance,
        # What Spark's source gives for a record without a timestamp: one millisecond before 1970.
        null_timestamps=False,
        check_crcs=read.check_crcs,
        on_data_loss="fail" if read.fail_on_data_loss else "record",
    )
    for task in partition.tasks:
        yield from read_range(task, read.origin, options)
