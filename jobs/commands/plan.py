"""`kseg plan`: shows what a run would read."""

from __future__ import annotations

import click

from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.job import load_job
from kseg.jobs.invocation.options import command_config_option, common_options, job_argument, with_spark_option
from kseg.jobs.invocation.result import Result, planned_result


@click.command(cls=KsegCommand, epilog="Example:  kseg plan orders.yaml --with-spark")
@job_argument
@with_spark_option
@command_config_option
@common_options
def plan(invocation: Invocation, job_file: str, with_spark: bool) -> Result:
    """Show the ranges that the next run would read, and check what the run needs.

    Checks brokers, registry, ledger, tables, the group, the right to read the topics, and whether the transform's
    functions can be imported. Lists what was not checked. Writes nothing. Starts no JVM without --with-spark, unless a
    table has a name in a catalog, whose state only Spark knows.
    """

    job = load_job(invocation, job_file, starts_spark=with_spark, decodes=True)
    from kseg.etl.run.dry_run import plan_only

    return planned_result(plan_only(job, with_spark=with_spark).to_json())
