"""One replica of a partition as its folder has it, and which of several is to be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

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
        """Of two replicas of one partition. In an older leader epoch a log may end in records that no later leader had,
        so the epoch counts before the length. A stray replica is one that its broker was no longer to have."""
        if self.stray != other.stray:
            return other.stray
        if self.last_epoch != other.last_epoch:
            return self.last_epoch > other.last_epoch
        return self.end > other.end

    @cached_property
    def end(self) -> int:
        return self.salvager.end() if self.salvager else self.ask(lambda log: log_end_offset(self.storage, log))

    def ask(self, question: Callable[[PartitionLog], T]) -> T:
        """What the log answers. Raises LogFileError."""
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
