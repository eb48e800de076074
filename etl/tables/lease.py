"""The lease of a table, for writers whose commits the table's store does not keep apart.

Spark's commits on a local disk, and on S3 with its default log store, exclude each other within one driver only. The
ledger's leases are those of chains, of which several run at once, and two ledgers may have one table: so such a table
has a lease of its own, beside its log. A run holds it while Spark commits, and while delta-rs commits to a table to
which Spark may, or once has (OPTIMIZE with Z-order), since Spark would overwrite that commit too.

    <table>/_kseg/lease/     a ledger (`etl.ledger.store`) of leases alone, which delta-rs commits put-if-absent

It is renewed, expires and is fenced by number as the leases of chains are. The next holder of the same chain, who has
that chain's lease already (it expired, or was taken over), takes it at once; others wait for its end. So does a
holder whose chain's lease was taken at once because the process before it is known to be dead: that process' JVM may
outlive it by seconds, in the middle of a commit.

What it cannot do: Spark's commit carries no fencing token. A driver that is suspended for longer than the lease between
the last check and Spark's commit can still overwrite a commit of the driver that came after it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Final

import pyarrow.fs as pafs

from kseg.etl.errors import AnotherRunActive, KsegError
from kseg.etl.ledger.holder_process import known_dead
from kseg.etl.ledger.lease import Lease, acquire, owner_name
from kseg.etl.ledger.maintenance import maintain
from kseg.etl.ledger.store import Ledger
from kseg.etl.tables.parquet.storage import TableLocation

FOLDER: Final = "_kseg/lease"
NAME: Final = "table"
"""The job and chain under which the lease is kept in its ledger."""

EXCLUSIVE_FOR_SPARK: Final = frozenset({"abfs", "abfss", "wasb", "wasbs", "adl", "gs", "hdfs", "viewfs"})
"""Schemes of stores in which Spark's commits are put-if-absent."""

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 15.0
"""Between two questions for the lease of another run, which may hold it for minutes: each reads the lease's ledger."""

_FOR: Final = " for "


def _may_take(before: str, chain: str, holder: Lease) -> bool:
    """Whether the live lease of this owner may be taken by the present holder of the chain."""
    process, _, its_chain = before.partition(_FOR)
    return its_chain == chain and (holder.taken_over or not known_dead(process))


def has_lease(location: TableLocation) -> bool:
    """Whether the table's lease has ever been taken: Spark has committed to the table then, and may again.

    Raises:
        RetriableFailure, ConfigurationError: the store cannot be read.
    """
    store = location.open()
    with store.asked("cannot search for the table's lease"):
        return bool(store.fs.get_file_info(store.path(f"{FOLDER}/_delta_log")).type != pafs.FileType.NotFound)


@contextmanager
def table_lease(location: TableLocation, holder: Lease, *, wait: timedelta) -> Iterator[Lease]:
    """Hold a table's lease; it is released at the end.

    holder: the lease of the chain that is at work, whose duration this one has. wait: how long to wait for another's.

    Raises:
        AnotherRunActive: another run has it.
        ConfigurationError: the store is not put-if-absent.
        RetriableFailure: the store does not answer.
    """
    options = location.storage_options
    ledger = Ledger.open(f"{location.uri}/{FOLDER}", options, setting="sink.single_driver")
    chain = f"{holder.job}/{holder.chain} of ledger {holder.ledger.id}"
    until, pause = time.monotonic() + wait.total_seconds(), FIRST_PAUSE
    while True:
        try:
            lease = acquire(
                ledger,
                NAME,
                NAME,
                owner=f"{owner_name()}{_FOR}{chain}",
                duration=timedelta(seconds=holder.duration),
                succeeds=lambda before: _may_take(before, chain, holder),
            )
            break
        except AnotherRunActive as active:
            if time.monotonic() >= until:
                raise AnotherRunActive(
                    "another run holds the lease of a table that Spark writes, with one driver at a time "
                    "(sink.single_driver)",
                    owner=active.owner,
                    until=active.until,
                    remedy="wait for the other run; the lease of a dead run expires",
                    table=str(location),
                ) from active
        holder.check()
        time.sleep(min(pause, max(0.0, until - time.monotonic())))
        pause = min(2 * pause, LONGEST_PAUSE)
    with lease:
        yield lease
        with suppress(KsegError):
            maintain(ledger, NAME)
