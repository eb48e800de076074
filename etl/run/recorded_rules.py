"""The rules of decoding in the properties of tables whose rows a run has replaced."""

from __future__ import annotations

from kseg.etl.dispositions.registry import disposition_of
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.lease import Lease
from kseg.etl.run.context import JobContext
from kseg.etl.tables.values import RunCommit


def record_rules(context: JobContext, lease: Lease, plan: ev.RunPlan) -> None:
    """Write the rules of decoding of a replacement's rows into its tables' properties, where `kseg repair
    --rebuild-ledger` finds them: a replacement of all rows may have changed them. Call it before the run is accounted,
    so that a continuation repeats what a killed attempt has left undone.
    """
    if not disposition_of(plan).removes or not plan.rules.properties:
        return
    for table in sorted(plan.tables.keys() - plan.beside):
        if (access := context.targets.access(table)) is None or access.state() is None:
            continue  # a route without a row
        lease.check()
        target = context.targets.target(table, removing=True)
        with target.exclusively(lease, wait=context.deadline.left()):
            target.set_properties(plan.rules.properties, RunCommit(plan.run_id, plan.app_id, plan.app_version))
