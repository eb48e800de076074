"""Errors of reading a planned range. All are sent from a worker to the driver (`etl.tasks.error_transport`)."""

from __future__ import annotations

from typing import Final, Literal, Self

from kseg.etl.errors import AddressValue, ConfigurationError, KsegError, Refused, RetriableFailure

LossReason = Literal["retention", "truncation"]


class OffsetsLost(Refused):
    """Offsets of a range are not in the log any more: `[first, last)`, `last` exclusive.

    reason: `retention` where the log starts above them now, `truncation` where it ends, or was truncated, below them.
    """

    def __init__(self, topic: str, partition: int, first: int, last: int, reason: LossReason = "retention") -> None:
        self._say(
            "data-lost",
            {"first": first, "last": last - 1},
            case="retention" if reason == "retention" else "truncation",
            topic=topic,
            partition=partition,
            offset=first,
        )
        self.first = first
        self.last = last
        self.reason = reason


class OffsetsAbsent(Refused):
    """Offsets `[first, last)` of a topic that is not compacted are in no batch, and a later batch is there."""

    def __init__(self, topic: str, partition: int, first: int, last: int) -> None:
        self._say(
            "offsets-absent",
            {"first": first, "last": last - 1},
            case="query",
            topic=topic,
            partition=partition,
            offset=first,
        )
        self.first = first
        self.last = last


class TopicRecreated(Refused):
    """The topic was deleted and created again since the range was planned: its offsets are those of other records.

    found: the topic ids, as the fetch or the files say them.
    """

    def __init__(self, topic: str, partition: int, offset: int, found: str) -> None:
        self._say(
            "topic-recreated",
            {"found": found},
            case="while it is read",
            topic=topic,
            partition=partition,
            offset=offset,
        )


class NoProgress(RetriableFailure):
    """A broker kept answering without records although the range is not at its end.

    It may be slow (a read of tiered storage that expires), or have nothing more: only a later batch distinguishes the
    two.
    """

    def __init__(self, topic: str, partition: int, offset: int, end: int, seconds: float) -> None:
        super().__init__(
            f"no records for {seconds:.0f} s at offset {offset}, the range ends at {end}",
            remedy="check the partition's leader, its replicas and its tiered storage, and run the same command "
            "again. If compaction has emptied the end of the log, it succeeds once one more record is written to the "
            "partition",
            topic=topic,
            partition=partition,
            offset=offset,
        )


_MORE_MEMORY: Final = (
    "the same command fails again with the same memory: raise spark.executor.pyspark.memory where it is set, else the "
    "memory of the container (spark.executor.memoryOverhead) or of the process (`ulimit -v`); or run fewer tasks at "
    "once (spark.executor.cores)"
)
_BATCHES_PASSED_OVER: Final = (
    ". To do without compressed batches that need so much, lower source.max_batch_bytes and set "
    "source.on_corruption: quarantine"
)


class OutOfMemoryError(KsegError):
    """A worker could not allocate what it needed; the process itself goes on. Not retriable: what needed the memory
    needs it again.

    doing: what it needed the memory for. found: what the allocation raised.
    """

    def __init__(self, doing: str, found: BaseException, **address: AddressValue | None) -> None:
        detail = str(found).partition("\n")[0]
        message = f"out of memory {doing}" + (f": {detail}" if detail else "")
        super().__init__(message, remedy=_MORE_MEMORY, **address)

    @classmethod
    def of_reading(cls, found: BaseException, **address: AddressValue | None) -> Self:
        """An error of record batches, of which some need less memory where they are passed over."""
        error = cls("while records from this offset on were read", found, **address)
        error.remedy = _MORE_MEMORY + _BATCHES_PASSED_OVER
        return error


class ArrowStepError(KsegError):
    """An Arrow step of the transform raised, or gave something that is no RecordBatch of the declared schema.

    step: its place in the job file, and raised: what it raised, where a record may be the reason.
    """

    step: str | None = None
    raised: str | None = None


class PythonStepError(KsegError):
    """A function on the DataFrame (`transform[].python`) raised in the driver."""


class WorkersLost(RetriableFailure):
    """Worker processes of the local executor ended in the middle of a task, at each of its attempts."""


class RangeResultsIncomplete(RetriableFailure):
    """Not every task returned its range result, so the rows cannot be accounted for."""


class RangeResultsDisagree(RetriableFailure):
    """Two attempts of one task read different records, and it is not known which of them wrote the output."""


class WorkerError(KsegError):
    """A task failed in a way that has no type of its own here; the message is the worker's: `ValueError: …`."""

    @property
    def summary(self) -> str:
        return self.message.partition("\n")[0]


class TimeNotFoundError(ConfigurationError):
    """No record at or after the time that reading is to start at."""
