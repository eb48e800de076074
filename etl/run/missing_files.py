"""What was committed must be there before the ledger says that it has landed."""

from __future__ import annotations

from collections.abc import Mapping

from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.run.context import JobContext
from kseg.etl.tables.parallel import parallel_map


def refuse_missing_files(context: JobContext, run_id: str, commits: Mapping[str, ev.TableCommit]) -> None:
    """A VACUUM by somebody else may have deleted a run's files between their writing and the commit.

    commits: those that the ledger does not have yet, by table.

    Raises:
        Refused: `files-missing`; such a table cannot be read.
    """

    def missing(table: str) -> tuple[str, ...]:
        access = context.targets.access(table)
        return () if access is None else access.missing_files(commits[table])

    for table, files in parallel_map(list(commits), missing).items():
        if files:
            values = {"count": len(files), "first": files[0]}
            raise Refused.of("files-missing", values, case="committed", table=table, run=run_id)
