"""For an Airflow whose database is a SQLite file: whoever finds it locked waits, rather than being refused.

Airflow imports a module of this name from its folder `config`.

SQLite lets one process write at a time. A process that wants to write waits for the others (`timeout` of the database's
address), but for one case: where its transaction has read before, and another process has written since, it is refused
at once, "database is locked", however long the timeout is (https://sqlite.org/rescode.html#busy_snapshot). With
Python's driver a transaction reads first when it begins with a savepoint, as those do that make the runs of a backfill.
So a savepoint that begins a transaction asks for the right to write before it reads.
"""

from __future__ import annotations

from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

__all__: list[str] = []  # Airflow would take the names here for settings of its own


@event.listens_for(Engine, "savepoint")
def write_from_the_beginning(connection: Connection, name: str) -> None:
    if connection.dialect.name == "sqlite" and not connection.connection.driver_connection.in_transaction:  # type: ignore[union-attr]
        connection.exec_driver_sql("BEGIN IMMEDIATE")
