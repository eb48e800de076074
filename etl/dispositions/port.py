"""The disposition port: the relation between the rows that a run lands and the rows that its tables have already.

A run's steps do not assume how many rows an offset has in a table. They ask the disposition:

    asked by                    question
    --------------------------  ------------------------------------------------------------------------------------
    planning                    may a job have such runs (`check_job`)?
    choice of a table's sink    do commits remove rows (`removes`)?
    landing, before any commit  what do the commits remove (`decide`)?
    the second equation         how many rows has a commit, if this many were landed (`rows_due`)?
    verify                      which run's rows should be at which offsets afterwards (`claim`)?
    ledger summaries            may an offset have rows of several runs (`adds_copies`)?

`etl.ledger.modes` names the disposition of each mode. Tables of damaged bytes and of dead letters only ever grow,
whatever the disposition of the run's rows is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.ranges import OffsetRange, OffsetSet
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.rows.names import AddressColumns

if TYPE_CHECKING:
    from kseg.etl.config.job import Job
    from kseg.etl.tables.protocol import TableAccess
    from kseg.etl.tables.removal import Removal

ByPartition = dict[TopicPartition, OffsetSet]


class Unread(Protocol):
    """The planned offsets at which an attempt has read no record. complete: whether the lists have all of them."""

    @property
    def lost(self) -> Sequence[OffsetRange]:
        """Offsets that retention has deleted."""

    @property
    def damaged(self) -> Sequence[OffsetRange]:
        """Offsets of damaged bytes."""

    @property
    def damage_complete(self) -> bool:
        """Whether `damaged` has all of them."""

    @property
    def gaps(self) -> Sequence[OffsetRange]:
        """Absent offsets of topics that are not compacted."""

    @property
    def compacted(self) -> Sequence[OffsetRange]:
        """Absent offsets of compacted topics."""

    @property
    def gaps_complete(self) -> bool:
        """Whether `gaps` and `compacted` have all of them."""


@dataclass(frozen=True, slots=True)
class Records:
    """Reads what a removal depends on besides the run: the ledger's jobs, and the tables.

    ours: the state of the run's job. of_job: the state of another job of the same ledger. access: see
    `Targets.access`.
    """

    ours: Callable[[], JobState]
    of_job: Callable[[str], JobState]
    access: Callable[[str], TableAccess | None]


class Removals(Protocol):
    """The rows that one attempt's commits remove."""

    @property
    def kept(self) -> Mapping[TopicPartition, OffsetSet] | None:
        """Planned offsets whose rows stay in the tables; None if no rows are removed."""

    def events(self) -> tuple[ev.Event, ...]:
        """Events that the ledger needs before the first commit that removes rows."""

    def of(self, table: str, address: AddressColumns, *, by_sql: bool = False) -> Removal | None:
        """The rows that the commit to a table removes. by_sql: they are removed by a predicate of Spark's SQL.

        Raises:
            Refused: it cannot be expressed, or the owner of some rows is not known.
        """


class NoRemovals:
    """No rows are removed."""

    kept: Mapping[TopicPartition, OffsetSet] | None = None

    def events(self) -> tuple[ev.Event, ...]:
        """See `Removals.events`."""
        return ()

    def of(self, table: str, address: AddressColumns, *, by_sql: bool = False) -> Removal | None:
        """See `Removals.of`."""
        return None


class Claims(Protocol):
    """The rows of one table by the ledger (`etl.operations.landings.TableLandings`), as runs are applied in order."""

    def land(self, run_id: str, offsets: Mapping[TopicPartition, OffsetSet]) -> None:
        """The run has a row at each record of these offsets."""

    def replace(self, offsets: Mapping[TopicPartition, OffsetSet]) -> None:
        """Rows that earlier runs in the ledger had at these offsets are gone."""

    def remove(self, offsets: Mapping[TopicPartition, OffsetSet]) -> None:
        """Does the same as `replace`; rows of runs whose details the ledger has dropped may be gone as well."""

    def keep(self, offsets: Mapping[TopicPartition, OffsetSet]) -> None:
        """Rows of earlier runs stay, though Kafka may have no record at these offsets any more."""


class Disposition(ABC):
    """The relation between a run's rows and the rows that its tables have. Stateless; one object for all runs."""

    removes: ClassVar[bool] = False
    """Whether commits may remove rows of earlier runs. A commit then has files with the remaining rows, too."""

    adds_copies: ClassVar[bool] = False
    """Whether the run may land an offset that has a row of another run already, which stays."""

    def check_job(self, job: Job) -> None:
        """Check the job file before a backfill is planned.

        Raises:
            ConfigurationError: rows of such a job do not have what the disposition needs.
        """
        return

    def decide(self, plan: ev.RunPlan, unread: Unread, records: Records) -> Removals:
        """Decide what the attempt's commits remove, after it has read its ranges and before its first commit.

        Raises:
            Refused: the attempt does not know all that it could not read.
        """
        return NoRemovals()

    def rows_due(self, landed: int) -> tuple[int, int]:
        """The minimum and maximum number of rows that a commit adds, if its ranges have this many rows to land."""
        return landed, landed

    @abstractmethod
    def claim(self, claims: Claims, run: RunState, here: ByPartition, *, in_table: bool) -> None:
        """Apply a run to the rows that one table should have.

        here: the run's offsets in this table, of the current generation. in_table: whether the table has a commit of
        the run. The run has been accounted or abandoned.
        """
