"""Deletes the data files that attempts of a run have left, where the lease is held."""

from __future__ import annotations

from collections.abc import Collection

from kseg.etl.ledger import events as ev
from kseg.etl.ledger.lease import Lease
from kseg.etl.tables.file_names import FileOwner
from kseg.etl.tables.protocol import TableAccess


def delete_leftovers(
    lease: Lease, access: TableAccess, plan: ev.RunPlan, table: str, commits: Collection[ev.TableCommit] | None = None
) -> None:
    """Delete files of this plan that no commit of the table has. commits: as of `TableAccess.clean_up`.

    Since this process last read the ledger, another one may have ended the run and planned the same backfill again,
    under the same run id. So the lease is read in the ledger, and files without an app version in their names are
    deleted only if this plan is the run's last.

    Raises:
        LeaseLost: nothing was deleted.
        RetriableFailure, ConfigurationError: the table's folder cannot be listed.
    """
    latest = lease.read().runs[plan.run_id].plan.app_version
    owner = FileOwner(plan.run_id, plan.app_version)
    access.clean_up(owner, commits, after=plan.tables.get(table), unversioned=latest == plan.app_version)
