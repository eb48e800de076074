"""A driver in a container of YARN's.

spark-submit gives its application a tag that no other has. By the tag it is found as soon as the ResourceManager knows
it, whatever spark-submit has logged, and though it was killed at that moment; from then on it is asked for by its id,
which is in a file called like the tag, beside spark-submit's log:

    GET /ws/v1/cluster/apps?applicationTags=TAG      {"apps": {"app": [{"id": ID, "state": …, "finalStatus": …, …}]}}
    GET …/apps/ID                                    {"app": {the same}}
    PUT …/apps/ID/state {"state": "KILLED"}

https://hadoop.apache.org/docs/stable/hadoop-yarn/hadoop-yarn-site/ResourceManagerRest.html#Cluster_Application_API
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kseg_airflow.drivers.submitted import HTTP_TIMEOUT, Submitted, exit_code_told
from kseg_airflow.exit_codes import DONE
from kseg_airflow.outcomes import Outcome
from kseg_airflow.run_folder import write_private

_ENDED: Final = frozenset({"FINISHED", "FAILED", "KILLED"})
_CONTAINER: Final = re.compile(r"container_(?:e\d+_)?(\d+_\d+)_\d+_\d+:")


@dataclass(frozen=True, slots=True)
class YarnDriver(Submitted):
    """resource_manager: its web address. tag: of this application alone. user: as whom YARN is asked; None where
    Kerberos says that (SPNEGO)."""

    resource_manager: str
    tag: str
    user: str | None = None
    kind: str = "yarn"

    @property
    def application_id(self) -> str | None:
        """The application's id in YARN; None until it was found there."""
        try:
            return self._id_file.read_text(encoding="utf-8").strip()
        except OSError:
            return None

    def found(self) -> str | None:
        """The application's id. Raises OSError where the ResourceManager does not answer."""
        return self.application_id or super(YarnDriver, self).found()

    def ask(self) -> tuple[str, dict[str, Any] | None] | None:
        """The application's id, and what the ResourceManager says of it. Raises OSError where that does not answer."""
        known = self.application_id
        if known is not None:
            return known, self._app(known)
        answer = self._ask("GET", "apps", applicationTags=self.tag)
        answer.raise_for_status()
        apps = (answer.json()["apps"] or {}).get("app") or []
        if not apps:
            return None
        found = str(apps[0]["id"])
        with contextlib.suppress(OSError):  # a triggerer that does not share the folder asks by the tag again
            write_private(self._id_file, found + "\n")
        return found, apps[0]

    def outcome_of(self, found: str, told: dict[str, Any] | None) -> Outcome | None:
        """The application's outcome."""
        if told is None:
            return Outcome(None, detail=f"{found} is no longer known to the ResourceManager")
        if told["state"] not in _ENDED:
            return None
        if told["finalStatus"] == "SUCCEEDED":
            return Outcome(DONE)
        why = f"{found}: {told['finalStatus']}. {(told.get('diagnostics') or '').strip()}"
        code = None if "KILLED" in (told["state"], told["finalStatus"]) else exit_code_told(why)
        logs = told.get("amContainerLogs")
        return Outcome(code, detail=f"{why}\nThe driver's log: {logs}" if logs else why)

    def progress_of(self, found: str, told: dict[str, Any] | None) -> str | None:
        """The application's id, state and page."""
        return f"{found} is {told['state']}: {self._base}/cluster/app/{found}" if told is not None else None

    def kill(self, found: str, grace: float) -> None:
        """Have YARN kill the application. Raises OSError where it returns an error."""
        self._ask("PUT", f"apps/{found}/state", json={"state": "KILLED"}).raise_for_status()

    def is_owner(self, owner: str) -> bool:
        """Whether a name in the ledger is this driver's: it begins with its container's id. Raises OSError."""
        container = _CONTAINER.match(owner)
        return container is not None and f"application_{container[1]}" == self.found()

    # Inside

    @property
    def _id_file(self) -> Path:
        return Path(self.submitter.folder) / self.tag

    @property
    def _base(self) -> str:
        return self.resource_manager if "://" in self.resource_manager else f"http://{self.resource_manager}"

    def _app(self, application: str) -> dict[str, Any] | None:
        answer = self._ask("GET", f"apps/{application}")
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        app: dict[str, Any] = answer.json()["app"]
        return app

    def _ask(self, method: str, path: str, json: Any = None, **asked: str) -> Any:
        import requests

        auth = None
        if self.user is not None:
            asked["user.name"] = self.user
        else:
            from requests_kerberos import HTTPKerberosAuth  # type: ignore[import-not-found]

            auth = HTTPKerberosAuth()
        url = f"{self._base}/ws/v1/cluster/{path}"
        return requests.request(method, url, params=asked, json=json, auth=auth, timeout=HTTP_TIMEOUT)
