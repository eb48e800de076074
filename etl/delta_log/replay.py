"""A snapshot: what a table is at one version, by replaying its log ("Action Reconciliation").

    checkpoint ──► head: protocol, metadata, transactions, domains        a few columns of the checkpoint
        │             + commits after it, the oldest first                the last action of each kind counts
        └────────► files: commits, the newest first, then the checkpoint  the first mention of a logical file counts

The head is made when a snapshot is read. Files are read from the checkpoint when they are asked for: most questions
need none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kseg.etl.delta_log.actions import (
    Action,
    AddFile,
    AppTransaction,
    DomainMetadata,
    FileAction,
    TableMetadata,
    TableProtocol,
)
from kseg.etl.delta_log.batches import ActionBatch, FileBatch, Key
from kseg.etl.delta_log.checkpoint import CheckpointReader
from kseg.etl.delta_log.entries import LogEntry
from kseg.etl.delta_log.errors import DamagedLog
from kseg.etl.delta_log.listing import entry_name


@dataclass
class Head:
    """All of a table's state but its files. domains: without deleted ones."""

    protocol: TableProtocol | None = None
    metadata: TableMetadata | None = None
    transactions: dict[str, AppTransaction] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)

    def apply(self, actions: Iterable[Action]) -> None:
        """Go on by what one more file of the log has."""
        for action in actions:
            if isinstance(action, TableProtocol):
                self.protocol = action
            elif isinstance(action, TableMetadata):
                self.metadata = action
            elif isinstance(action, AppTransaction):
                self.transactions[action.app_id] = action
            elif isinstance(action, DomainMetadata):
                self.domains.pop(action.domain, None)
                if not action.removed:
                    self.domains[action.domain] = action


@dataclass(frozen=True)
class LiveFiles:
    """The logical files of a snapshot. tail: commits after the checkpoint.

    otherwise: the same files without this checkpoint, which turned out to be damaged; None: the log has no others.
    Every method may raise what `CheckpointReader` raises.
    """

    checkpoint: CheckpointReader | None
    tail: tuple[LogEntry, ...] = ()
    otherwise: Callable[[], LiveFiles | None] = lambda: None

    def rows(self) -> int | None:
        """The number of rows by the files' statistics, without an object for each file of the checkpoint; None: a file
        lacks them."""
        try:
            rows = [batch.rows() for batch in self.batches()]
        except DamagedLog:
            if (others := self.otherwise()) is None:
                raise
            return others.rows()
        return None if None in rows else sum(filter(None, rows))

    def batches(self) -> Iterator[FileBatch]:
        """The files in batches, in no order that means anything."""
        seen: dict[Key, FileAction] = {}
        for entry in reversed(self.tail):
            # Of one logical file a commit has one action; a remove and an add of the same path differ in the vector.
            for action in entry.actions:
                if isinstance(action, FileAction):
                    seen.setdefault(action.key, action)
        yield ActionBatch([action for action in seen.values() if isinstance(action, AddFile)])
        if self.checkpoint is not None:
            paths = {path for path, _ in seen}
            for batch in self.checkpoint.files():
                yield batch.without(seen.keys(), paths)


@dataclass(frozen=True)
class LogSnapshot:
    """A table at one version.

    transactions: the last one of each application that the log has; what `delta.setTransactionRetentionDuration` lets
    expire is in it until a checkpoint leaves it out. domains: without deleted ones.
    """

    version: int
    protocol: TableProtocol
    metadata: TableMetadata
    transactions: Mapping[str, AppTransaction]
    domains: Mapping[str, DomainMetadata]
    files: LiveFiles


def snapshot(table: str, version: int, files: LiveFiles) -> LogSnapshot:
    """A snapshot of a checkpoint and the commits after it. table: its name in messages.

    Raises:
        DamagedLog: there is no protocol or no metadata in them; what `CheckpointReader` raises.
    """
    head = Head()
    if files.checkpoint is not None:
        head.apply(files.checkpoint.others)
    for one in files.tail:
        head.apply(one.actions)
    if head.protocol is None or head.metadata is None:
        lost = TableProtocol.KIND if head.protocol is None else TableMetadata.KIND
        raise DamagedLog(f"no commit has an action {lost}", table=table, version=version, file=entry_name(0))
    return LogSnapshot(version, head.protocol, head.metadata, head.transactions, head.domains, files)
