"""A driver in a pod: found by the pod's name, which spark-submit logs.

    GET /api/v1/namespaces/NS/pods/POD      DELETE the same

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

from __future__ import annotations

import importlib
import os
import re
from dataclasses import dataclass
from typing import Any, Final

from kseg_airflow.drivers.submitted import HTTP_TIMEOUT, Submitted
from kseg_airflow.outcomes import DONE, Outcome

_POD: Final = re.compile(r"(?:pod name: |submission ID [\w.-]+:)([\w.-]+-driver)\b")


@dataclass(frozen=True, slots=True)
class KubernetesDriver(Submitted):
    """namespace: the pod's. The API server is what in-cluster configuration or KUBECONFIG says."""

    namespace: str = "default"
    kind: str = "kubernetes"

    @property
    def pod(self) -> str | None:
        try:
            found = _POD.search(self.submitter.log_file.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return None
        return found[1] if found else None

    def found(self) -> str | None:
        """The pod's name."""
        return self.pod

    def outcome_of(self, found: str) -> Outcome | None:
        """How the pod ended. Raises OSError where the API server does not answer."""
        pod = _asked("read_namespaced_pod", found, self.namespace)
        if pod is None:
            return Outcome(None, detail=f"pod {found} is gone")
        phase = pod.status.phase
        if phase == "Succeeded":
            return Outcome(DONE)
        if phase != "Failed":
            return None
        ended = [s.state.terminated for s in pod.status.container_statuses or [] if s.state and s.state.terminated]
        told = f"pod {found}: {pod.status.reason or (ended[0].reason if ended else 'Failed')}"
        return Outcome(ended[0].exit_code if ended else None, detail=told)

    def progress(self) -> str | None:
        """The pod's name."""
        return f"pod {self.pod}" if self.pod else None

    def kill(self, found: str, grace: float) -> None:
        """Delete the pod, which gives the driver the grace time before force is used. Raises OSError."""
        _asked("delete_namespaced_pod", found, self.namespace, grace_period_seconds=int(grace))

    def is_owner(self, owner: str) -> bool:
        """Whether a name in the ledger is this driver's: a pod's host name is the pod's."""
        return self.pod is not None and owner.partition(":")[0] == self.pod


def _asked(call: str, *words: str, **more: Any) -> Any:
    """What the API server answers; None for a pod that it does not know. Raises OSError."""
    import urllib3

    core, exceptions = _kubernetes()
    try:
        return getattr(core, call)(*words, _request_timeout=HTTP_TIMEOUT, **more)
    except exceptions.ApiException as error:
        if error.status == 404:
            return None
        raise OSError(f"the API server answers {error.status}") from error
    except urllib3.exceptions.HTTPError as error:
        raise OSError(f"the API server does not answer: {error!r}") from error


def _kubernetes() -> tuple[Any, Any]:
    client: Any = importlib.import_module("kubernetes.client")
    config: Any = importlib.import_module("kubernetes.config")
    if "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ:
        config.load_incluster_config()
    else:
        config.load_kube_config(os.environ.get("KUBECONFIG"))
    return client.CoreV1Api(), client.exceptions
