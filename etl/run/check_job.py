"""What `kseg check`, `kseg plan` and a dry run check of a job besides its ranges, and what they leave unchecked.

    always        functions of the transform can be imported; without steps on the DataFrame, the rows can be landed
    with Spark    SQL and Python steps work on the rows' columns, and what they give can be landed
    connected     brokers, registry, ledger and tables answer, the group has no members, the account may read the
                  topics; without steps on the DataFrame, the rows fit the tables as they are (`etl.run.dry_run`)

What a run needs and none of this shows is listed by `not_checked`, so that no silence is taken for an approval.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kseg.client.admin.describe import describe_topics
from kseg.client.cluster.cluster import Cluster
from kseg.client.errors import AuthorizationFailed
from kseg.client.protocol.enums import AclOperation, ResourceType
from kseg.client.protocol.permissions import Permission
from kseg.etl.config.job import Job
from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.ledger.object_store import is_local
from kseg.etl.spark.catalogs import catalog_names
from kseg.etl.transform.transform import transform_of
from kseg.etl.transform.user_function import WHERE_MODULES_ARE, load_function


def import_faults(job: Job) -> tuple[Diagnostic, ...]:
    """Functions of the transform that cannot be imported here."""
    faults: list[Diagnostic] = []
    for step in transform_of(job):
        for reference in step.references:
            try:
                load_function(reference, step.place, remedy=WHERE_MODULES_ARE)
            except ConfigurationError as error:
                faults += error.faults
    return tuple(faults)


def check_steps(job: Job, *, with_spark: bool) -> tuple[str, ...]:
    """Warnings about the job's steps, which are applied to columns without rows.

    with_spark: also those on the DataFrame; without, a job that has any is left unchecked.

    Raises:
        ConfigurationError: a step does not work, or its rows cannot be landed.
        RetriableFailure: a Connect server is not available.
    """
    transform = transform_of(job)
    if not any(transform) or (transform.on_frame and not with_spark):
        return ()
    from kseg.etl.run.check_transform import check_transform  # a plan without steps loads no pyspark

    return check_transform(job)


def not_checked(job: Job, *, with_spark: bool, connected: bool) -> Iterator[str]:
    """The needs of a run that were not checked, one line each."""
    if not with_spark and (steps := [step.place for step in transform_of(job).on_frame]):
        yield f"not checked: {', '.join(steps)}, which --with-spark lets Spark analyse"
    if (names := catalog_names(job)) and not connected:
        yield f"not checked: whether the catalog of {', '.join(names)} keeps its tables, which --connect asks Spark"
    if not connected:
        return
    if job.commits_offsets:
        allowed = ["READ on the group"]
        if job.group_commit == "transactional":
            allowed.append("WRITE on the transactional id")
        yield f"not checked: whether the account has {' and '.join(allowed)}"
    ledger = "" if is_local(job.ledger) else ", and this account to the ledger's"  # local folders are checked
    yield f"not checked: whether tasks reach the brokers and may write to the tables' stores{ledger}"


def refuse_unreadable(cluster: Cluster, topics: Collection[str]) -> None:
    """Raises AuthorizationFailed for a topic that the account may describe and not read, as its tasks would.

    Brokers before 2.3 do not say, and none of their topics is found.
    """
    for topic, found in describe_topics(cluster, topics, operations=True).done().items():
        if found.operations is not None and AclOperation.READ not in found.operations:
            lacking = Permission(AclOperation.READ, ResourceType.TOPIC, str(topic))
            raise AuthorizationFailed(f"the account may not do {lacking}", lacking=lacking, topic=str(topic))
