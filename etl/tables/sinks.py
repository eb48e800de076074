"""The sink port: one implementation of the table protocol with its capabilities. `etl.tables.targets` has the registry.

A sink does not say that it can do something, but why it cannot: the reasons are a part of messages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from kseg.etl.tables.delta.table import DeltaAccess
    from kseg.etl.tables.parquet.schema import SinkSchema
    from kseg.etl.tables.protocol import FileTarget, FrameTarget, Maintenance
    from kseg.etl.tables.removal import Removal


@dataclass(frozen=True, slots=True)
class Needs:
    """What is to be done with a table besides adding rows.

    removing: commits remove rows (True), or these rows, of which the table may have none. rows: their schema, if the
    table's types may have to be widened for it. maintaining: files are compacted and deleted; ordering: and rows are
    ordered while they are (Z-order). beside: tasks set something aside in it (damaged bytes, dead letters), so that
    they write its files, and the layout of the job's rows is not its own.
    """

    removing: bool | Removal = False
    rows: SinkSchema | None = None
    maintaining: bool = False
    ordering: bool = False
    beside: bool = False


class Sink(ABC):
    """One implementation of the table protocol, for the tables of one job."""

    by_spark: ClassVar[bool]
    """Whether Spark writes the rows and commits them."""

    routes: ClassVar[bool]
    """Whether rows of one range may go to several tables."""

    @abstractmethod
    def reasons_against(self, table: str, needs: Needs) -> tuple[str, ...]:
        """Why the sink cannot do this with the table; empty if it can.

        Raises:
            Refused: no sink may, because the table is append-only.
        """

    @abstractmethod
    def target(self, table: str) -> FileTarget | FrameTarget:
        """The table, to commit to it."""

    @abstractmethod
    def check_fit(self, table: str, rows: SinkSchema, run_id: str) -> bool:
        """Whether rows fit the table as it is now, or as their run would change it; False if only a commit shows it.

        Raises:
            IncompatibleSchema: they do not.
        """

    @abstractmethod
    def maintenance(self, table: str, access: DeltaAccess, *, because: str = "") -> Maintenance:
        """Maintenance of an existing table. because: why this sink does it in place of another one."""
