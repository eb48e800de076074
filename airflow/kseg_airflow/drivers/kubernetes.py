"""A driver in a pod, whose name it was given before spark-submit began: no log is needed to find it, and none is lost.

    GET /api/v1/namespaces/NS/pods/POD      GET …/POD/log      DELETE …/POD

A name may be used again (`spark.kubernetes.driver.pod.name` in `conf`), so a label that no other pod has says whose
it is.

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any, Final

from kseg_airflow.drivers.submitted import HTTP_TIMEOUT, Submitted
from kseg_airflow.exit_codes import DONE
from kseg_airflow.outcomes import Outcome

#: Of the driver's pod: a value that no other driver has.
LABEL: Final = "kseg-driver"
#: Spark's name of the driver's container, unless a pod template has it under another one.
CONTAINER: Final = "spark-kubernetes-driver"
_LOG_LINES: Final = 5_000


@dataclass(frozen=True, slots=True)
class KubernetesDriver(Submitted):
    """pod, namespace: the driver's. tag: its value of the label LABEL. container: the driver's container, beside which
    the pod may have sidecars. The API server is what in-cluster configuration or KUBECONFIG says."""

    pod: str
    namespace: str = "default"
    kind: str = "kubernetes"
    tag: str | None = None
    container: str = CONTAINER

    def ask(self) -> tuple[str, Any] | None:
        """The pod's name once spark-submit has made it, and the pod. Raises OSError where the API server does not
        answer."""
        submitted = self.submitter.poll()  # before the pod is asked for, which may be made in between
        pod = self._pod()
        if pod is None and (submitted is None or submitted.exit_code != DONE):
            return None
        return self.pod, pod

    def _pod(self) -> Any:
        """The pod; None where there is none of this name, or it is another run's. Raises OSError."""
        pod = _asked("read_namespaced_pod", self.pod, self.namespace)
        ours = pod is not None and (self.tag is None or (pod.metadata.labels or {}).get(LABEL) == self.tag)
        return pod if ours else None

    def outcome_of(self, found: str, told: Any) -> Outcome | None:
        """The outcome of the driver's container; its pod goes on running while a sidecar does."""
        if told is None:
            return Outcome(None, detail=f"pod {found} is gone")
        if told.status.phase == "Succeeded":
            return Outcome(DONE)
        ended = self._driver_end(told)
        if told.status.phase == "Failed":
            why = f"pod {found}: {told.status.reason or (ended.reason if ended else 'Failed')}"
            # Never DONE: what failed is another container, and what the driver has landed is in the ledger.
            return Outcome((ended.exit_code if ended else None) or None, detail=why)
        if ended is None:
            return None
        return (
            Outcome(DONE)
            if ended.exit_code == DONE
            else Outcome(ended.exit_code, detail=f"pod {found}: {ended.reason}")
        )

    def _driver_end(self, pod: Any) -> Any:
        """The driver's container's exit code and reason; None if it has not ended. In a failed pod without a container
        of its name it is the first that failed."""
        driver = self._container(pod)
        if driver is not None:
            return _end(driver)
        ends = [_end(status) for status in pod.status.container_statuses or []] if pod.status.phase == "Failed" else []
        return next((end for end in ends if end is not None and end.exit_code != DONE), None)

    def _container(self, pod: Any) -> Any:
        """The status of the driver's container; None where the pod has none of its name."""
        return next((status for status in pod.status.container_statuses or [] if status.name == self.container), None)

    def progress_of(self, found: str, told: Any) -> str | None:
        """The pod's name and phase, and why it does not start."""
        why = "; ".join(_obstacles(told)) if told.status.phase == "Pending" else ""
        return f"pod {found} is {told.status.phase}" + (f": {why}" if why else "")

    def log_lines(self, seen: int = 0) -> tuple[list[str], int]:
        """spark-submit's lines after `seen`, then the last ones of the pod. Raises OSError."""
        lines, end = self.submitter.log_lines(seen)
        text, pod = "", self._pod()
        if pod is not None:
            named = {"container": self.container} if self._container(pod) is not None else {}
            text = _asked("read_namespaced_pod_log", self.pod, self.namespace, tail_lines=_LOG_LINES, **named) or ""
        return [*lines, *text.splitlines()], end

    def kill(self, found: str, grace: float) -> None:
        """Delete the pod, which gives the driver the grace time before force is used. Raises OSError."""
        if self._pod() is not None:
            _asked("delete_namespaced_pod", found, self.namespace, grace_period_seconds=int(grace))

    def is_owner(self, owner: str) -> bool:
        """Whether a name in the ledger is this driver's: a pod's host name is the pod's."""
        return owner.partition(":")[0] == self.pod


def _end(status: Any) -> Any:
    """A container's exit code and reason, from its status; None if it has not ended."""
    return status.state.terminated if status.state else None


def _obstacles(pod: Any) -> list[str]:
    """The reasons why a pod does not run: no node takes it, an image cannot be pulled, a volume is not there."""
    found = [c for c in pod.status.conditions or [] if c.status == "False" and c.message and c.type == "PodScheduled"]
    told = [f"{condition.reason}: {condition.message}" for condition in found]
    for container in [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]:
        waiting = container.state.waiting if container.state else None
        if waiting is not None and waiting.reason:
            told.append(f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason)
    return told


def _asked(call: str, *words: str, **more: Any) -> Any:
    """The API server's answer; None for a pod that it does not know. Raises OSError."""
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
