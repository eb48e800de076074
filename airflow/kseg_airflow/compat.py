"""Everything whose place differs between Airflow 2 and 3, in one module.

`common.compat` of the Apache providers knows most of it; what is left has to do with behaviour.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
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
    "Asset",
    "AssetAlias",
    "BaseHook",
    "BaseOperator",
    "BaseOperatorLink",
    "BaseSensorOperator",
    "BaseTrigger",
    "TriggerEvent",
    "XCom",
    "conf",
    "logical_identity",
    "mask_secret",
    "triggers_tell_kills",
]


def triggers_tell_kills() -> bool:
    """Whether a trigger's `on_kill` is called when a person acts on the deferred task, and only then."""
    return hasattr(BaseTrigger, "on_kill")


def logical_identity(context: Any) -> dict[str, Any]:
    """What names one task instance through all of its tries: no try number, and no id that a clearing replaces."""
    ti = context["ti"]
    return {
        "dag_id": ti.dag_id,
        "task_id": ti.task_id,
        "run_id": ti.run_id,
        "map_index": getattr(ti, "map_index", -1),
    }
