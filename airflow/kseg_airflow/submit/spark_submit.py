"""submit="spark-submit": the driver is submitted as the Spark connection says.

The Apache provider's hook reads the connection and builds the command; its own `submit` is not used, since that holds
the worker until the application ends and knows nothing of a driver that outlives it.

    client mode     spark-submit is the driver's process, detached like any other; all masters
    cluster mode    spark-submit hands the driver over and ends; then YARN or Kubernetes is asked

Spark runs no Python driver in cluster mode on a standalone cluster, so that is an error.
"""

from __future__ import annotations

import getpass
import importlib
import os
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from kseg_airflow.compat import AirflowFailException, BaseHook
from kseg_airflow.drivers.handles import Handle
from kseg_airflow.drivers.kubernetes import CONTAINER, LABEL, KubernetesDriver
from kseg_airflow.drivers.local import start
from kseg_airflow.drivers.yarn import YarnDriver
from kseg_airflow.submission import MARK_VARIABLE, Submission

APPLICATION: Final = Path(__file__).parents[1] / "application" / "kseg_driver.py"
_IN_A_CLUSTER: Final = {
    # One attempt: whether another one helps follows from the driver's exit code, and Airflow decides it.
    "yarn": {"spark.yarn.submit.waitAppCompletion": "false", "spark.yarn.maxAppAttempts": "1"},
    "kubernetes": {"spark.kubernetes.submission.waitAppCompletion": "false"},
}
_ENVIRONMENT: Final = {"yarn": "spark.yarn.appMasterEnv.", "kubernetes": "spark.kubernetes.driverEnv."}
_TAGS: Final = "spark.yarn.tags"
_POD: Final = "spark.kubernetes.driver.pod.name"
_CONTAINER: Final = "spark.kubernetes.driver.podTemplateContainerName"
_WEB_ADDRESS: Final = "yarn_resourcemanager_webapp_address"


def submit(submission: Submission) -> Handle:
    """Start spark-submit. Raises AirflowFailException for a connection that no driver can be submitted by."""
    options = dict(submission.options)
    conf = {str(name): str(text) for name, text in (options.pop("conf", None) or {}).items()}
    application = str(options.pop("application", APPLICATION))
    master, mode, resource_manager = _asked(submission, options)
    cluster = mode == "cluster"
    manager = "yarn" if master.startswith("yarn") else "kubernetes" if master.startswith("k8s") else "standalone"
    properties = submission.properties_file
    tag = f"kseg-{uuid.uuid4().hex}"
    if cluster:
        _check_cluster(manager, properties, resource_manager)
        marked = {f"{_ENVIRONMENT[manager]}{MARK_VARIABLE}": submission.mark} if submission.mark else {}
        conf = _IN_A_CLUSTER[manager] | marked | conf
        if manager == "yarn":
            conf[_TAGS] = ",".join(filter(None, [conf.get(_TAGS), tag]))
        else:
            conf.setdefault(_POD, f"{tag}-driver")
            conf[f"spark.kubernetes.driver.label.{LABEL}"] = tag
        options["files"] = ",".join(filter(None, [options.get("files"), *_shipped(submission, properties)]))
        arguments = submission.shipped_arguments(command_config=properties)
    else:
        arguments = submission.arguments(
            run_file=str(submission.folder / "run.json"), command_config=str(properties) if properties else None
        )
    hook = _hook(
        conn_id=submission.conn_id or "spark_default",
        name=options.pop("name", submission.name),
        conf=conf,
        application_args=arguments,
        **options,
    )
    command = hook._build_spark_submit_command(application)
    env = _environment(submission, master, hook._env, cluster=cluster)
    user = _yarn_user(hook, options, env) if cluster and manager == "yarn" else None
    driver = start(command, submission.folder, env=env, secrets=submission.written_properties(), cwd=submission.cwd)
    if not cluster:
        return driver
    if manager == "yarn":
        return YarnDriver(driver.to_json(), resource_manager, tag, user)
    namespace = str(hook._connection.get("namespace") or "default")
    container = conf.get(_CONTAINER) or CONTAINER
    return KubernetesDriver(driver.to_json(), conf[_POD], namespace, tag=tag, container=container)


def _asked(submission: Submission, options: dict[str, Any]) -> tuple[str, str, str]:
    """Master, deploy mode and YARN's web address, as the hook will find them."""
    conn_id = submission.conn_id or "spark_default"
    told = BaseHook.get_connection(conn_id)
    if "k8s" in (told.host or ""):
        _check_kubernetes_provider()
    connection = _hook(conn_id=conn_id, **_connection_options(options))._connection
    return (
        str(connection["master"]),
        str(connection["deploy_mode"] or "client"),
        str(told.extra_dejson.get(_WEB_ADDRESS) or "").strip().rstrip("/"),
    )


def _connection_options(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("deploy_mode", "spark_binary", "yarn_queue") if name in options}


def _hook(**arguments: Any) -> Any:
    try:
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    except ImportError:
        raise AirflowFailException(
            'submit="spark-submit" needs the Apache Spark provider: pip install "kafka-segment-etl-airflow[spark]"'
        ) from None
    return SparkSubmitHook(**arguments)


def _check_kubernetes_provider() -> None:
    """The Spark provider's hook needs it for such a master, and without it fails by a NameError of its own."""
    try:
        importlib.import_module("airflow.providers.cncf.kubernetes.kube_client")
    except ImportError:
        raise AirflowFailException(
            "a Kubernetes master needs the Kubernetes provider, here and on the triggerer: pip install"
            ' "kafka-segment-etl-airflow[kubernetes]"'
        ) from None


def _check_cluster(manager: str, properties: Path | None, resource_manager: str) -> None:
    if manager == "standalone":
        raise AirflowFailException(
            "Spark runs no Python driver in cluster mode on a standalone cluster: set deploy-mode to client"
        )
    if manager == "yarn" and not resource_manager:
        raise AirflowFailException(
            "a driver in YARN's cluster is monitored through the ResourceManager's web address: set it in the Spark"
            f' connection\'s extra, {{"{_WEB_ADDRESS}": "http://HOST:8088"}}'
        )
    if properties is not None and manager == "kubernetes":
        raise AirflowFailException(
            "kafka_conn_id cannot be used with a driver in a pod: mount a secret, and refer to it in the job file"
            " (${file:/path}, ${NAME})"
        )


def _shipped(submission: Submission, properties: Path | None) -> list[str]:
    """Files that the driver needs where it runs."""
    return [str(path) for path in (submission.job_file, properties) if path]


def _environment(submission: Submission, master: str, given: dict[str, Any] | None, *, cluster: bool) -> dict[str, str]:
    """spark-submit and Python of kseg's own environment, where nothing else is said."""
    env = submission.environment()
    env |= {str(name): str(text) for name, text in (given or {}).items()}
    folder = os.path.dirname(submission.kseg)  # noqa: PTH120
    if folder:
        env["PATH"] = os.pathsep.join([folder, env.get("PATH", os.defpath)])
        python = Path(folder) / "python"
        # spark-submit hands it on to a driver in a cluster, whose hosts have no such file.
        if python.exists() and not cluster:
            env.setdefault("PYSPARK_DRIVER_PYTHON", str(python))
            if master.startswith("local"):
                env.setdefault("PYSPARK_PYTHON", str(python))
    return env


def _yarn_user(hook: Any, options: dict[str, Any], env: dict[str, str]) -> str | None:
    """The user of the application; None if Kerberos determines it."""
    if hook._connection.get("keytab") and hook._connection.get("principal"):
        if find_spec("requests_kerberos") is None:
            raise AirflowFailException(
                "the connection has keytab and principal, so requests to YARN use SPNEGO: pip install requests-kerberos"
            )
        return None
    return str(options.get("proxy_user") or env.get("HADOOP_USER_NAME") or getpass.getuser())
