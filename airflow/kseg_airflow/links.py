"""Links on a task's page: the report of the run, the log of the driver, and the Delta version that was written."""

from __future__ import annotations

from typing import Any, Final

from kseg_airflow.assets import table_uri
from kseg_airflow.compat import AIRFLOW_V_3_0_PLUS, BaseOperatorLink, XCom

REPORT_KEY: Final = "kseg_report"
LOG_KEY: Final = "kseg_log"
TABLES_KEY: Final = "kseg_tables"


class RunReportLink(BaseOperatorLink):
    """The HTML report of the run."""

    name = "Run report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The report's address; "" while there is none."""
        return str(_left(REPORT_KEY, operator, ti_key) or "")


class DriverLogLink(BaseOperatorLink):
    """The log of the driver, where it was a process on the worker's machine."""

    name = "Driver log"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The log's address; "" for a driver in a cluster, and while there is none."""
        return str(_left(LOG_KEY, operator, ti_key) or "")


class DeltaVersionLink(BaseOperatorLink):
    """The log entry of the Delta version that the run has committed; of its first table where there are several."""

    name = "Delta version"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The address of the version's JSON file; "" while nothing was landed."""
        tables = _left(TABLES_KEY, operator, ti_key)
        if not tables:
            return ""
        uri, version = table_uri(tables[0]["path"]), int(tables[0]["version"])
        return f"{uri}@v{version}" if uri.startswith("x-delta:") else f"{uri}/_delta_log/{version:020d}.json"


def _left(key: str, operator: Any, ti_key: Any) -> Any:
    """The value that the task has left under this key.

    Airflow 3 asks on the worker when the task has ended, and keeps the link; Airflow 2 asks when a page is shown.
    """
    if AIRFLOW_V_3_0_PLUS:
        return getattr(operator, "left", {}).get(key)
    return XCom.get_value(ti_key=ti_key, key=key)
