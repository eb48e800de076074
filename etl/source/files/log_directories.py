"""Log directories as a source, without a broker: their partitions, offsets and records.

The counterpart of `resolve` for files. A partition may be in several directories (copies from several brokers, a
replica that is moved to another disk): the copy with the latest leader epoch is read, and of several the longest.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from typing import Literal
from uuid import UUID

from kseg.client.cluster.metadata import NO_LEADER, PartitionMetadata, TopicMetadata
from kseg.client.errors import UnknownTopic, error_from_code
from kseg.client.groups.offsets import CommittedOffset
from kseg.client.offsets import EARLIEST, IsolationLevel
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ConfigurationError
from kseg.etl.internal_topics.group_state import committed_in_files
from kseg.etl.internal_topics.locations import LogDirs
from kseg.etl.source.errors import TimeNotFoundError
from kseg.etl.source.files.replicas import Replica, best_replicas
from kseg.etl.source.files.tasks import FilesOf, split_files
from kseg.etl.source.log_size import LogSize
from kseg.etl.source.origin import LogFiles
from kseg.etl.source.resolve import (
    AtTime,
    EndName,
    LogBounds,
    OffsetSpec,
    named_offsets,
    named_times,
    unread,
)
from kseg.etl.source.tasks import RangeTask, SupportsRange
from kseg.segment_reader.decode.batch import frames
from kseg.segment_reader.log.damage.damage import Torn
from kseg.segment_reader.log.damage.salvage import Salvager
from kseg.segment_reader.log.errors import CorruptCheckpoint, SegmentGone
from kseg.segment_reader.log.files.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START,
    META_PROPERTIES,
    meta_properties,
    partition_offsets,
)
from kseg.segment_reader.log.files.locations import child
from kseg.segment_reader.log.files.names import PartitionFolder
from kseg.segment_reader.log.files.segments import open_logs, partition_folders
from kseg.segment_reader.log.files.storage import Storage
from kseg.segment_reader.log.scan.positions import TimedOffset
from kseg.segment_reader.log.scan.record_sets import record_sets
from kseg.segment_reader.log.scan.timestamps import NoTimestamps, offset_for_time

_ENOUGH_FOR_A_HEADER = 4096
_INTERNAL = {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}


class LogCatalog:
    """The content of the log directories at one moment.

    Raises:
        ConfigurationError: a directory does not exist; from its methods: directories belong to different clusters.
        LogFileError: a log cannot be read.
    """

    def __init__(self, files: LogFiles) -> None:
        self._files = files
        self._folders: dict[str, Mapping[str, PartitionFolder]] = {}
        self._checkpoints: dict[str, dict[str, Mapping[tuple[str, int], int]]] = {}
        self._opened: dict[str, dict[TopicPartition, Replica]] = {}  # by topic
        for log_dir in files.log_dirs:
            self._list(log_dir)

    @property
    def cluster_id(self) -> str | None:
        """The cluster id in `meta.properties`; None if there is none. Raises ConfigurationError if ids differ."""
        found: dict[str, str] = {}
        for log_dir in self._files.log_dirs:
            storage, path = self._files.open(log_dir)
            try:
                properties = meta_properties(storage.read_all(f"{path}/{META_PROPERTIES}"), path)
            except (SegmentGone, CorruptCheckpoint):
                continue
            if "cluster.id" in properties:
                found.setdefault(properties["cluster.id"], log_dir)
        if len(found) > 1:
            problem = ", ".join(f"{log_dir} is of cluster {cluster_id}" for cluster_id, log_dir in found.items())
            raise ConfigurationError.of("log.dirs", problem, "read the directories of one cluster at a time")
        return next(iter(found), None)

    def topics(
        self,
        *,
        topics: Collection[str] | None = None,
        pattern: str | None = None,
        assign: Mapping[str, Collection[int]] | None = None,
    ) -> dict[TopicPartition, TopicMetadata]:
        """The selected partitions (without a selection: all except internal topics), like `resolve.resolve_topics`.

        Raises:
            UnknownTopic: a named topic or partition does not exist.
        """
        if assign is not None:
            self._open(assign)
            chosen = [TopicPartition(topic, number) for topic, numbers in assign.items() for number in numbers]
            for tp in chosen:
                self._place(tp)
        elif topics is not None:
            chosen = [*self.partitions_of(topics)]
            for name in topics:
                if not self._opened[name]:
                    raise UnknownTopic("no log directory has it", topic=name)
        else:
            expression = re.compile(pattern or "")
            named = {found.topic for of_dir in self._folders.values() for found in of_dir.values()} - _INTERNAL
            chosen = [*self.partitions_of([name for name in named if expression.search(name)])]
        metadata = {topic: self._metadata(topic) for topic in {tp.topic for tp in chosen}}
        return {tp: metadata[tp.topic] for tp in sorted(chosen)}

    def partitions_of(self, topics: Collection[str]) -> set[TopicPartition]:
        """The partitions of these topics that the directories have; none of a topic that they do not have."""
        self._open(topics)
        return {tp for topic in topics for tp in self._opened[topic]}

    def bounds(self, tp: TopicPartition) -> LogBounds:
        """Log start (from the checkpoint, else the first segment), last stable offset, and log end offset.

        The files do not have the high watermark, only a checkpoint of it that may be old (`confirmed`). The log's end
        is used instead.
        """
        place, start = self._place(tp), self._start(tp)
        confirmed = self._confirmed(tp)
        return LogBounds(
            start,
            max(start, place.stable_end),
            max(start, place.end),
            confirmed=-1 if confirmed is None else min(max(start, confirmed), max(start, place.end)),
            leader_epoch=place.last_epoch,
        )

    def _start(self, tp: TopicPartition) -> int:
        segments = self._place(tp).log.segments
        return max(segments[0].base_offset if segments else 0, self._checkpointed(LOG_START, tp) or 0)

    def torn(self, tp: TopicPartition) -> Torn | None:
        """The batch that an unclean shutdown left incomplete at a log's end; only searched for after damage."""
        place = self._place(tp)
        return place.salvager.torn if place.salvager is not None and place.end >= 0 else None

    def _place(self, tp: TopicPartition) -> Replica:
        self._open([tp.topic])
        place = self._opened[tp.topic].get(tp)
        if place is None:
            raise UnknownTopic("no log directory has it", topic=tp.topic, partition=tp.partition)
        return place

    @property
    def cleaned_topics(self) -> frozenset[str]:
        """Topics that the log cleaner has compacted, by its checkpoint."""
        return frozenset(topic for of_dir in self._checkpoints.values() for topic, _ in of_dir.get(CLEANER_OFFSETS, {}))

    def end_of_epoch(self, tp: TopicPartition, epoch: int) -> int:
        """Like OffsetForLeaderEpoch: the first offset of a later epoch, or the log's end for the newest epoch.

        -1 if the files do not have the epoch.
        """
        place = self._place(tp)
        epochs = place.log.leader_epochs
        if not epochs or epoch > epochs[-1].epoch:
            return -1
        return next((later.start_offset for later in epochs if later.epoch > epoch), place.end)

    def size(self, tp: TopicPartition) -> LogSize:
        """The bytes and the number of offsets of the listed segments; each segment begins at its base offset."""
        place = self._place(tp)
        segments = place.log.segments
        return LogSize(sum(one.size for one in segments), place.end - segments[0].base_offset if segments else 0)

    def batch_time(self, tp: TopicPartition, offset: int) -> int | None:
        """The largest timestamp (ms) of the batch of an offset; None if there is none."""
        place = self._place(tp)
        found = record_sets(
            place.storage, place.log, offset, offset + 1, read_committed=False, window_bytes=_ENOUGH_FOR_A_HEADER
        )
        with closing(found):
            first = next(frames(next(found).records), None)
        return first.max_timestamp if first is not None and first.max_timestamp >= 0 else None

    def folder(self, tp: TopicPartition) -> str:
        """The folder of a partition's files: a path or URI."""
        place = self._place(tp)
        return child(place.log_dir, place.log.folder.rsplit("/", 1)[-1])

    def tasks(
        self,
        ranges: Iterable[SupportsRange],
        *,
        max_records: int | None = None,
        min_tasks: int = 1,
        topic_ids: Mapping[str, UUID | None] | None = None,
    ) -> tuple[RangeTask, ...]:
        """Split the ranges into tasks by bytes; see `tasks.split_files`."""
        ranges = list(ranges)
        places = {tp: self._place(tp) for tp in (TopicPartition(r.topic, r.partition) for r in ranges)}
        files = {tp: FilesOf(place.storage, place.log, self.folder(tp)) for tp, place in places.items()}
        return split_files(ranges, files, max_records=max_records, min_tasks=min_tasks, topic_ids=topic_ids)

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
        """A concrete offset for every partition, like `resolve.resolve_offsets`.

        `committed` uses the group's partition of `__consumer_offsets` in these directories; commits in open
        transactions are ignored, and offsets do not expire.

        Raises:
            ConfigurationError: `committed` without a group, or the folder with the group's offsets is missing; a map
                with other partitions than these.
            TimeNotFoundError: there is no record at or after the time of `AtTime(otherwise="error")`.
            OffsetsLost: as `resolve.unread`.
            KafkaError: UNSUPPORTED_FOR_MESSAGE_FORMAT (43): records have no timestamps.
            UndecodableRecord: one of the group's records is damaged, or newer than this release knows.
        """
        wanted = sorted(partitions)
        if spec == "committed":
            return self._committed(group, wanted, fail_on_data_loss)
        if isinstance(spec, AtTime):
            times = named_times(spec, wanted)
            return {tp: self._at_time(tp, millis, spec, isolation_level) for tp, millis in times.items()}
        if spec == "earliest" or spec == "latest":
            return {tp: self._edge(tp, spec == "earliest", isolation_level) for tp in wanted}
        if isinstance(spec, str):
            return {tp: self._end(tp, spec, isolation_level) for tp in wanted}
        marks = named_offsets(spec.offsets, wanted, unnamed)
        return {
            tp: mark if isinstance(mark, int) else self._edge(tp, mark is EARLIEST, isolation_level)
            for tp, mark in marks.items()
        }

    def _committed(
        self, group: str | None, wanted: list[TopicPartition], fail_on_data_loss: bool
    ) -> dict[TopicPartition, int]:
        if not group:
            raise ConfigurationError("committed offsets need a group")
        found = committed_in_files(LogDirs(self._files.log_dirs, self._files.open), group)
        committed = {tp: found.get(tp, CommittedOffset(-1)) for tp in wanted}
        # The newest epoch of the files has not ended: files that are older than the commit are no truncated log.
        ends = {
            tp: self.end_of_epoch(tp, one.leader_epoch)
            for tp, one in committed.items()
            if 0 <= one.leader_epoch < self.bounds(tp).leader_epoch
        }
        marks = unread(committed, ends, fail_on_data_loss=fail_on_data_loss)
        return {tp: mark if mark >= 0 else self.bounds(tp).start for tp, mark in marks.items()}

    def _end(self, tp: TopicPartition, name: EndName, isolation_level: IsolationLevel) -> int:
        bounds, place = self.bounds(tp), self._place(tp)
        if name == "log_end":
            return bounds.high_watermark
        if name == "last_stable":
            return bounds.last_stable
        if bounds.confirmed is None or bounds.confirmed < 0:
            raise ConfigurationError.of(
                "source.ending_offsets",
                f"no {HIGH_WATERMARKS} has the high watermark of {tp}",
                "end at log_end or last_stable, or put that file beside the partitions' folders",
            )
        if isolation_level == "read_uncommitted":
            return bounds.confirmed
        # A marker above the high watermark has decided nothing yet.
        return max(bounds.start, place.last_stable(bounds.confirmed))

    def _edge(self, tp: TopicPartition, earliest: bool, isolation_level: IsolationLevel) -> int:
        bounds = self.bounds(tp)
        if earliest:
            return bounds.start
        return bounds.last_stable if isolation_level == "read_committed" else bounds.high_watermark

    def first_at(self, tp: TopicPartition, millis: int, *, ends: bool) -> TimedOffset | None:
        """The first record at or after a time (ms), with its timestamp, if it is below the last stable offset.

        Raises KafkaError: UNSUPPORTED_FOR_MESSAGE_FORMAT (43).
        """
        return self._timed(tp, millis, ends=ends, below=self.bounds(tp).last_stable)

    def _timed(self, tp: TopicPartition, millis: int, *, ends: bool, below: int) -> TimedOffset | None:
        """The first record at or after a time, if its offset is below that one."""
        place, start = self._place(tp), self._start(tp)
        if millis < 0 and not ends:  # as `resolve.first_records`
            return TimedOffset(start, -1) if start < below else None
        untimed: Literal["refuse", "begin", "pass"] = "pass" if ends else "begin"
        if self._files.untimed == "refuse":
            untimed = "refuse"
        try:
            found = place.ask(lambda log: offset_for_time(place.storage, log, millis, start=start, untimed=untimed))
        except NoTimestamps as error:
            raise error_from_code(
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                "a range by time",
                detail=f"{error}; name offsets instead of a time, or set untimed to include and take them all",
                topic=tp.topic,
                partition=tp.partition,
            ) from error
        return found if found is not None and found.offset < below else None

    def _at_time(self, tp: TopicPartition, millis: int, spec: AtTime, isolation_level: IsolationLevel) -> int:
        end = self._edge(tp, False, isolation_level)
        found = self._timed(tp, millis, ends=spec.ends, below=end)
        if found is None and spec.otherwise == "error":
            raise TimeNotFoundError(
                f"no record at or after {millis} (milliseconds since 1970)",
                remedy='start earlier, or set startingOffsetsByTimestampStrategy to "latest"',
                topic=tp.topic,
                partition=tp.partition,
            )
        return end if found is None else found.offset

    def _metadata(self, topic: str) -> TopicMetadata:
        places = self._opened[topic]
        topic_id = next((place.log.topic_id for place in places.values() if place.log.topic_id is not None), None)
        partitions = {
            tp.partition: PartitionMetadata(tp.partition, NO_LEADER, place.last_epoch, (), ())
            for tp, place in sorted(places.items())
        }
        return TopicMetadata(topic, topic_id, topic in _INTERNAL, partitions=partitions)

    def _list(self, log_dir: str) -> None:
        storage, path = self._files.open(log_dir)
        try:
            folders = partition_folders(storage, path)
        except SegmentGone as error:
            if error.file != path:  # one below it, which a layout has listed: gone meanwhile
                raise
            raise ConfigurationError.of(
                "log.dirs", f"{log_dir}: {error.reason}", "name a folder of log.dirs"
            ) from error
        self._folders[log_dir] = {name: found for name, found in folders.items() if found.replica != "delete"}
        self._checkpoints[log_dir] = {
            name: _checkpoint(storage, f"{path}/{name}") for name in (LOG_START, HIGH_WATERMARKS, CLEANER_OFFSETS)
        }

    def _open(self, topics: Collection[str]) -> None:
        """Open the logs of these topics: the directories may have thousands of others, in a store that is slow."""
        wanted = {topic for topic in topics if topic not in self._opened}
        if not wanted:
            return
        replicas = []
        for log_dir, folders in self._folders.items():
            storage, path = self._files.open(log_dir)
            of_topics = {name: found for name, found in folders.items() if found.topic in wanted}
            for found, log in open_logs(storage, path, of_topics):
                salvager = Salvager(storage, log) if self._files.past_damage else None
                place = Replica(storage, log, log_dir, salvager, found.replica == "stray")
                replicas.append((TopicPartition(found.topic, found.partition), place))
        best = best_replicas(replicas)
        self._opened |= {topic: {} for topic in wanted}
        for tp, place in best.items():
            self._opened[tp.topic][tp] = place

    def _confirmed(self, tp: TopicPartition) -> int | None:
        """The highest checkpointed high watermark of all copies, because each of them was valid once."""
        marks = [of_dir[HIGH_WATERMARKS].get((tp.topic, tp.partition)) for of_dir in self._checkpoints.values()]
        return max((mark for mark in marks if mark is not None), default=None)

    def _checkpointed(self, name: str, tp: TopicPartition) -> int | None:
        """The partition's offset in a checkpoint file next to the partition's folder."""
        return self._checkpoints[self._place(tp).log_dir][name].get((tp.topic, tp.partition))


def _checkpoint(storage: Storage, file: str) -> Mapping[tuple[str, int], int]:
    try:
        return partition_offsets(storage.read_all(file), file)
    except (SegmentGone, CorruptCheckpoint):
        return {}
