"""A driver in a pod, whose name it was given before spark-submit began: no log is needed to find it, and none is lost.

    GET /api/v1/namespaces/NS/pods/POD      DELETE the same

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any

from kseg_airflow.drivers.submitted import HTTP_TIMEOUT, Submitted
from kseg_airflow.outcomes import DONE, Outcome


@dataclass(frozen=True, slots=True)
class KubernetesDriver(Submitted):
    """pod, namespace: the driver's. The API server is what in-cluster configuration or KUBECONFIG says."""

    pod: str
    namespace: str = "default"
    kind: str = "kubernetes"

    def found(self) -> str | None:
        """The pod's name, once spark-submit has made it. Raises OSError where the API server does not answer."""
        submitted = self.submitter.poll()
        if submitted is not None and submitted.exit_code == DONE:
            return self.pod
        return self.pod if _asked("read_namespaced_pod", self.pod, self.namespace) is not None else None

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
        return f"pod {self.pod}"

    def kill(self, found: str, grace: float) -> None:
        """Delete the pod, which gives the driver the grace time before force is used. Raises OSError."""
        _asked("delete_namespaced_pod", found, self.namespace, grace_period_seconds=int(grace))

    def is_owner(self, owner: str) -> bool:
        """Whether a name in the ledger is this driver's: a pod's host name is the pod's."""
        return owner.partition(":")[0] == self.pod


def _asked(call: str, *words: str, **more: Any) -> Any:
    """What the API server answers; None for a pod that it does not know. Raises OSError."""
    import urllib3

    client: Any = importlib.import_module("kubernetes.client")
    config: Any = importlib.import_module("kubernetes.config")
    # One of its own: the client's default configuration belongs to the process, and a triggerer has other triggers.
    configuration = client.Configuration()
    try:
        if "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ:
            config.load_incluster_config(client_configuration=configuration)
        else:
            config.load_kube_config(os.environ.get("KUBECONFIG"), client_configuration=configuration)
    except config.ConfigException as error:
        raise OSError(
            f"the API server's address is not configured (KUBECONFIG, or a service account): {error}"
        ) from error
    with client.ApiClient(configuration) as api:
        try:
            return getattr(client.CoreV1Api(api), call)(*words, _request_timeout=HTTP_TIMEOUT, **more)
        except client.exceptions.ApiException as error:
            if error.status == 404:
                return None
            raise OSError(f"the API server responds with {error.status}") from error
        except urllib3.exceptions.HTTPError as error:
            raise OSError(f"the API server does not respond: {error!r}") from error
