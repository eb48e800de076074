"""Everything whose place differs between Airflow 2 and 3, in one module.

`common.compat` of the Apache providers knows most of it; what is left has to do with behaviour.
"""

from __future__ import annotations

import os
from datetime import UTC
from typing import Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    Asset,
    AssetAlias,
    BaseHook,
    BaseOperator,
    BaseOperatorLink,
    BaseSensorOperator,
    XCom,
    conf,
    mask_secret,
)
from airflow.providers.common.compat.version_compat import AIRFLOW_V_3_0_PLUS

try:
    from airflow.triggers.base import BaseTrigger, TriggerEvent
except ImportError:  # a worker of Airflow 3 may have the task SDK alone
    from airflow.sdk.bases.trigger import BaseTrigger, TriggerEvent  # type: ignore[import-not-found,no-redef]

__all__ = [
    "AIRFLOW_V_3_0_PLUS",
    "AirflowException",
    "AirflowFailException",
    "AirflowSkipException",
    "Asset",
    "AssetAlias",
    "BaseHook",
    "BaseOperator",
    "BaseOperatorLink",
    "BaseSensorOperator",
    "BaseTrigger",
    "TriggerEvent",
    "XCom",
    "clear_of",
    "conf",
    "in_pod_of_its_own",
    "is_mapped",
    "logical_identity",
    "mask_secret",
    "this_try",
    "triggers_tell_kills",
]


def triggers_tell_kills() -> bool:
    """Whether a trigger's `on_kill` is called when a person acts on the deferred task, and only then."""
    return hasattr(BaseTrigger, "on_kill")


def this_try(context: Any) -> str:
    """The id of one try of a task instance: Airflow 3 gives each an id."""
    ti = context["ti"]
    return f"{getattr(ti, 'id', None) or ''}/{getattr(ti, 'try_number', 0)}"


def clear_of(context: Any) -> str:
    """A value that changes when this task is cleared, or its DAG run is deleted and made again under its id; its
    retries do not change it.

    It is the number of its last retry, which a clear sets to the tries so far and `retries`, and the time at which the
    DAG run was started: all that a task knows of a run in Airflow 2 and 3 that a new run of the same id does not have.
    A run is started again only after it has ended, and so have its tasks. Its `clear_number` does not serve: Airflow
    2.11 counts clears of ended runs alone, 3.3 also those of other tasks, and none with `reset_dag_runs: false`.
    """
    last_retry = int(getattr(context["ti"], "max_tries", 0) or 0)
    began = getattr(context.get("dag_run"), "start_date", None)
    return f"{last_retry} {began.astimezone(UTC).isoformat()}" if began else str(last_retry)


def in_pod_of_its_own() -> bool:
    """Whether this task has a pod that ends with it (KubernetesExecutor), and whatever it has started."""
    return os.environ.get("AIRFLOW_IS_K8S_EXECUTOR_POD", "").lower() == "true"


def is_mapped(operator: Any) -> bool:
    """Whether an operator is one of a mapped task's, as it is made when it runs. Airflow has no public way to ask."""
    return bool(getattr(operator, "_BaseOperator__from_mapped", False))


def logical_identity(context: Any) -> dict[str, Any]:
    """The identity of a task instance through all of its tries: no try number, and no id that a clearing replaces."""
    ti = context["ti"]
    return {
        "dag_id": ti.dag_id,
        "task_id": ti.task_id,
        "run_id": ti.run_id,
        "map_index": getattr(ti, "map_index", -1),
    }
