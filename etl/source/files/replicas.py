"""One replica of a partition as its folder has it, and which of several is to be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar
from uuid import UUID

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ConfigurationError
from kseg.segment_reader.log.damage.salvage import Salvager
from kseg.segment_reader.log.files.segments import PartitionLog, retry_while_files_change
from kseg.segment_reader.log.files.storage import Storage
from kseg.segment_reader.log.scan.bounds import last_stable_offset, log_end_offset

T = TypeVar("T")


@dataclass
class Replica:
    """One partition's folder. salvager: where damage does not end the log.

    It may be in use: what is asked of it is asked again where its files have changed meanwhile, and its end is what it
    was when it was first asked for.
    """

    storage: Storage
    log: PartitionLog
    log_dir: str
    salvager: Salvager | None = None
    stray: bool = False

    @property
    def last_epoch(self) -> int:
        """The leader epoch that it was written in last; -1 where the files do not have it."""
        return self.log.leader_epochs[-1].epoch if self.log.leader_epochs else -1

    def is_better_than(self, other: Replica) -> bool:
        """Whether it is the better one of two replicas of a partition. In an older leader epoch a log may end in
        records that no later leader had, so the epoch counts before the length. A stray replica is one that its broker
        was no longer to have."""
        if self.stray != other.stray:
            return other.stray
        if self.last_epoch != other.last_epoch:
            return self.last_epoch > other.last_epoch
        return self.end > other.end

    @cached_property
    def end(self) -> int:
        return self.salvager.end() if self.salvager else self.ask(lambda log: log_end_offset(self.storage, log))

    def ask(self, question: Callable[[PartitionLog], T]) -> T:
        """The log's answer. Raises LogFileError."""
        self.log, answer = retry_while_files_change(self.storage, self.log, question)
        return answer

    def last_stable(self, end: int | None = None) -> int:
        """The first offset of the oldest transaction that is open at `end`, or at the log's end."""
        if self.salvager is None:
            return self.ask(lambda log: last_stable_offset(self.storage, log, end))
        last = self.end if end is None else min(self.end, end)
        return min((opened.first_offset for opened in self.salvager.open_transactions(end)), default=last)

    @cached_property
    def stable_end(self) -> int:
        return self.last_stable(self.end)


def best_replicas(replicas: Sequence[tuple[TopicPartition, Replica]]) -> dict[TopicPartition, Replica]:
    """The replica of each partition that is to be read.

    A broker that was away while a topic was deleted and created again keeps the old topic's replicas as stray ones,
    beside those of the new topic: they do not count.

    Raises ConfigurationError if replicas are of several topics of one name; and LogFileError.
    """
    current = {(tp.topic, found.log.topic_id) for tp, found in replicas if not found.stray and found.log.topic_id}
    known = {topic for topic, _ in current}
    ids: dict[str, dict[UUID, str]] = {}
    best: dict[TopicPartition, Replica] = {}
    for tp, found in replicas:
        topic_id = found.log.topic_id
        if topic_id is not None:
            if found.stray and tp.topic in known and (tp.topic, topic_id) not in current:
                continue
            ids.setdefault(tp.topic, {}).setdefault(topic_id, found.log.folder)
        if tp not in best or found.is_better_than(best[tp]):
            best[tp] = found
    for topic, folders in ids.items():
        if len(folders) > 1:
            problem = ", ".join(f"{folder} has id {topic_id}" for topic_id, folder in folders.items())
            raise ConfigurationError.of(
                "log.dirs",
                f"there are several topics called {topic}: {problem}",
                "one was deleted and created again: name only directories of one of them, or move the folders of the "
                "other one elsewhere",
            )
    return best
