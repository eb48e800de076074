"""Logs in log directories: the methods of `etl.source.logs.Logs`, answered from files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal
from uuid import UUID

from kseg.client.cluster.metadata import TopicMetadata
from kseg.client.offsets import IsolationLevel
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.source.files.log_directories import LogCatalog
from kseg.etl.source.log_size import LogSize
from kseg.etl.source.origin import LogFiles
from kseg.etl.source.resolve import LogBounds, OffsetSpec
from kseg.etl.source.tasks import RangeTask, SupportsRange
from kseg.segment_reader.decode.batch import FrameFault
from kseg.segment_reader.log.scan.positions import TimedOffset


class FileLogs:
    """See `etl.source.logs.Logs`. Directories are listed by `topics`, and stay as listed until it is asked again.

    copy: named topics and partitions may be missing, as long as there is one of them: one broker's directory rarely
    holds all that a job reads.
    """

    def __init__(self, files: LogFiles, *, copy: bool = False) -> None:
        self._files = files
        self._copy = copy
        self._listed: LogCatalog | None = None

    @property
    def origin(self) -> LogFiles:
        return self._files

    @property
    def _catalog(self) -> LogCatalog:
        if self._listed is None:
            self._listed = LogCatalog(self._files)
        return self._listed

    def topics(
        self,
        *,
        topics: Collection[str] | None = None,
        pattern: str | None = None,
        assign: Mapping[str, Collection[int]] | None = None,
    ) -> dict[TopicPartition, TopicMetadata]:
        """None of the three means all topics but internal ones."""
        self._listed = None
        if self._copy:
            topics, assign = self._there(topics, assign)
        return self._catalog.topics(topics=topics, pattern=pattern, assign=assign)

    def _there(
        self, topics: Collection[str] | None, assign: Mapping[str, Collection[int]] | None
    ) -> tuple[Collection[str] | None, Mapping[str, Collection[int]] | None]:
        """Those of these partitions that the files have; all of them if there is none, for the error."""
        held = self._catalog.partitions_of([*(topics or ()), *(assign or ())])
        if topics is not None:
            topics = [name for name in topics if any(tp.topic == name for tp in held)] or topics
        if assign is not None:
            assign = {
                name: there
                for name, numbers in assign.items()
                if (there := [number for number in numbers if TopicPartition(name, number) in held])
            } or assign
        return topics, assign

    def cluster_id(self, topics: Collection[str]) -> str | None:
        return self._catalog.cluster_id

    def bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogBounds]:
        return {tp: self._catalog.bounds(tp) for tp in sorted(partitions)}

    def offsets(
        self,
        spec: OffsetSpec,
        partitions: Collection[TopicPartition],
        *,
        isolation_level: IsolationLevel,
        group: str | None = None,
        unnamed: Literal["earliest", "latest", "refuse"] = "refuse",
        fail_on_data_loss: bool = False,
    ) -> dict[TopicPartition, int]:
        return self._catalog.offsets(
            spec,
            partitions,
            isolation_level=isolation_level,
            group=group,
            unnamed=unnamed,
            fail_on_data_loss=fail_on_data_loss,
        )

    def first_at(
        self, millis: int, partitions: Collection[TopicPartition], *, ends: bool = False
    ) -> dict[TopicPartition, TimedOffset | None]:
        return {tp: self._catalog.first_at(tp, millis, ends=ends) for tp in sorted(partitions)}

    def ends_of_epochs(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {tp: self._catalog.end_of_epoch(tp, epoch) for tp, epoch in epochs.items()}

    def compacted(self, topics: Collection[str]) -> frozenset[str]:
        """Those that a log cleaner has been at: topics' configurations are not in these files."""
        return frozenset(topics) & self._catalog.cleaned_topics

    def batch_time(self, tp: TopicPartition, offset: int) -> int | None:
        try:
            return self._catalog.batch_time(tp, offset)
        except FrameFault as fault:
            raise fault.error(*tp) from None

    def sizes(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogSize]:
        return {tp: self._catalog.size(tp) for tp in sorted(partitions)}

    def tasks(
        self,
        ranges: Iterable[SupportsRange],
        *,
        max_records: int | None = None,
        min_tasks: int = 1,
        topics: Mapping[str, UUID | None],
        leaders: Mapping[TopicPartition, int] | None = None,
    ) -> tuple[RangeTask, ...]:
        return self._catalog.tasks(ranges, max_records=max_records, min_tasks=min_tasks, topic_ids=topics)
