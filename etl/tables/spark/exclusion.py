"""One driver at a time for a table to which Spark commits in a store that does not keep two drivers apart."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from kseg.etl.tables.lease import table_lease
from kseg.etl.tables.parquet.storage import TableLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kseg.etl.ledger.lease import Lease


CANCEL_EVERY: Final = 0.5


@dataclass(slots=True)
class _Claim:
    """What `exclusively` was called with, and the table's lease once it is held."""

    of_chain: Lease
    wait: timedelta
    held: contextlib.ExitStack
    of_table: Lease | None = None
    settled: bool = False

    @property
    def leases(self) -> list[Lease]:
        return [self.of_chain] if self.of_table is None else [self.of_chain, self.of_table]


class Exclusion:
    """The table's lease, taken once there is a table.

    location: whether there is a table yet, and where it is, if it needs a lease.
    """

    def __init__(
        self, location: Callable[[], tuple[bool, TableLocation | None]], open_spark: Callable[[], SparkSession]
    ) -> None:
        self._location, self._open_spark = location, open_spark
        self._claim: _Claim | None = None

    @contextlib.contextmanager
    def exclusively(self, lease: Lease, *, wait: timedelta) -> Iterator[None]:
        """Implements `etl.tables.protocol.Target.exclusively`."""
        with contextlib.ExitStack() as held:
            self._claim = _Claim(lease, wait, held)
            try:
                self.check()
                yield
            finally:
                self._claim = None

    def check(self) -> None:
        """Return if no other run can have the table; to be called right before Spark commits.

        Raises:
            LeaseLost: the chain's lease, or the table's.
            AnotherRunActive: another run has the table's.
        """
        claim = self._claim
        if claim is None:
            return  # outside a run: the caller excludes others
        if not claim.settled:
            claim.settled, location = self._location()
            if location is not None:
                claim.of_table = claim.held.enter_context(table_lease(location, claim.of_chain, wait=claim.wait))
        for lease in claim.leases:
            lease.check()

    @contextlib.contextmanager
    def committing(self) -> Iterator[None]:
        """Around an action of Spark's that commits: only with the lease, and cancelled when it is lost."""
        self.check()
        claim = self._claim
        if claim is None:
            yield
            return
        tags, tag, ended = _tags(self._open_spark()), f"kseg-{uuid.uuid4().hex}", threading.Event()

        def cancel() -> None:
            # Again and again: a job that begins after a cancellation is not cancelled by it.
            while not ended.is_set():
                with contextlib.suppress(Exception):
                    tags.cancel(tag)
                ended.wait(CANCEL_EVERY)

        def stop() -> None:
            threading.Thread(target=cancel, name="kseg-cancel", daemon=True).start()

        tags.add(tag)
        try:
            with contextlib.ExitStack() as watched:
                for lease in claim.leases:
                    watched.enter_context(lease.on_loss(stop))
                self.check()  # a lease that was lost before calls no callback
                yield
        except Exception:
            for lease in claim.leases:
                lease.check()  # the reason why it was cancelled
            raise
        finally:
            ended.set()
            tags.remove(tag)


class _Tags(NamedTuple):
    """How Spark's jobs are marked with a tag (those of the thread that adds it), and cancelled by it."""

    add: Callable[[str], object]
    cancel: Callable[[str], object]
    remove: Callable[[str], object]


def _tags(spark: SparkSession) -> _Tags:
    if not hasattr(spark, "_jvm"):  # Connect: the server cancels the operations of this session
        return _Tags(spark.addTag, spark.interruptTag, spark.removeTag)
    context = spark.sparkContext
    return _Tags(context.addJobTag, context.cancelJobsWithTag, context.removeJobTag)
