"""The rules of decoding in the properties of tables whose rows a run has replaced."""

from __future__ import annotations

from kseg.etl.decoding.rules import COLUMNS_PROPERTY, FIRST
from kseg.etl.dispositions.registry import disposition_of
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.lease import Lease
from kseg.etl.run.context import JobContext
from kseg.etl.tables.values import RunCommit, TableDescription


def record_rules(context: JobContext, lease: Lease, plan: ev.RunPlan) -> None:
    """Write the rules of decoding of a replacement's rows into its tables' properties, where `kseg repair
    --rebuild-ledger` finds them: a replacement of all rows may have changed them. Call it before the run is accounted,
    so that a continuation repeats what a killed attempt has left undone.
    """
    if not disposition_of(plan).removes or not plan.rules.properties:
        return
    for table in sorted(plan.tables.keys() - plan.beside):
        if (access := context.targets.access(table)) is None or (now := access.describe()).state is None:
            continue  # a route without a row
        lease.check()
        target = context.targets.target(table, removing=True)
        with target.exclusively(lease, wait=context.deadline.left()):
            properties = {**plan.rules.properties, **_of_columns(plan, now)}
            target.set_properties(properties, RunCommit(plan.run_id, plan.app_id, plan.app_version))


def _of_columns(plan: ev.RunPlan, now: TableDescription) -> dict[str, str]:
    """Columns by schemas of a registry stay as the rules before the replacement have made them."""
    made_by = now.column_rules or now.decoding_rules or FIRST.version
    return {COLUMNS_PROPERTY: str(made_by)} if plan.schemas and made_by < plan.decoding_rules else {}
