"""A Spark partition of `format("kseg")`, batch or stream: planned in the driver's helper process, read in a worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from kseg.etl.source.decode_options import DecodeOptions
    from kseg.etl.source.range_result import RangeResult
    from kseg.etl.source.tasks import RangeTask
    from kseg.etl.spark_format.options import ReadOptions
    from kseg.etl.transform.step import BatchStep


@dataclass
class KsegPartition(InputPartition):
    """One Spark partition: a range of one Kafka partition, or several small ranges of log files."""

    tasks: tuple[RangeTask, ...]


def read_partition(partition: Any, read: ReadOptions) -> Iterator[pa.RecordBatch]:
    """In a worker: the rows of one Spark partition; none if it is not a `KsegPartition`.

    Raises as `etl.source.reader.RangeReader`, and Refused if not all offsets are accounted for.
    """
    from kseg.etl.decoding.payload import in_parts
    from kseg.etl.source.reader import readers

    if not isinstance(partition, KsegPartition):
        return
    with readers(partition.tasks, read.origin, _decode_options(read)) as reader_of:
        for task in partition.tasks:
            reader = reader_of(task, None)
            for batch in reader:
                if read.decode is None:
                    yield batch
                elif batch.num_rows:
                    yield from in_parts(batch, partial(_decoded, read.decode, task))
            _check_counts(reader.result, read)


def _decoded(step: BatchStep, task: RangeTask, batch: pa.RecordBatch) -> pa.RecordBatch:
    offset = batch.column("offset")[0].as_py()
    return step.apply(batch, {"topic": task.topic, "partition": task.partition, "offset": offset})


def typed_schema(read: ReadOptions) -> pa.Schema:
    """The columns of a read with decoded keys or values. Raises ConfigurationError if a schema is invalid."""
    assert read.decode is not None
    return read.decode.output_schema(_decode_options(read).schema)


def _decode_options(read: ReadOptions) -> DecodeOptions:
    from kseg.etl.source.decode_options import DecodeOptions

    return DecodeOptions(
        isolation_level=read.isolation_level,
        # A record's header may name the schema of its payload.
        headers=read.include_headers
        or (read.decode is not None and ("headers" in read.decode.keep or read.decode.by_registry)),
        provenance=read.include_provenance,
        # With typed columns, Kafka's own columns have names that cannot be those of payload fields.
        addresses=read.decode is not None,
        # What Spark's source gives for a record without a timestamp: one millisecond before 1970.
        null_timestamps=False,
        check_crcs=read.check_crcs,
        on_data_loss="fail" if read.fail_on_data_loss else "record",
    )


def _check_counts(found: RangeResult, read: ReadOptions) -> None:
    """Check the counts of one range as jobs do, so that no offset is missing without an error.

    Raises:
        Refused: `account-failed` if its counts do not agree; `offsets-absent` with failOnDataLoss.
    """
    from kseg.etl.errors import Refused
    from kseg.etl.source.errors import OffsetsAbsent
    from kseg.etl.source.logs import open_logs

    if found.mismatch is not None:
        raise Refused.of(
            "account-failed",
            {"mismatch": found.mismatch},
            case="query",
            topic=found.topic,
            partition=found.partition,
            offset=found.start,
        )
    if not found.gaps or not read.fail_on_data_loss:
        return
    with open_logs(read.origin) as logs:
        if found.topic not in logs.compacted({found.topic}):
            raise OffsetsAbsent(found.topic, found.partition, *found.gaps[0])
