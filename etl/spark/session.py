"""The Spark session of a run: the job file's words first, defaults that suit a batch job where it is silent."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import resources
from typing import TYPE_CHECKING, Any

from kseg.etl.config.job import Job
from kseg.etl.config.secrets import SecretProperties, sounds_secret
from kseg.etl.errors import ConfigurationError
from kseg.etl.spark import jvm
from kseg.etl.spark.cache import DELTA, jar_folder
from kseg.etl.spark.interruption import leave_at_once, own_interrupt
from kseg.etl.spark.jvm_stderr import without_incubator_warning
from kseg.etl.spark.submission import is_submitted

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

# snapshotPartitions: a table of this size does not need 50 tasks to read its own log; measured, it halves the first
# append with an app transaction. The web UI costs start-up time and a port; `spark.conf` turns it on. The daemon's
# module suits workers that share our installation: it halves the time until the first of them works.
LOCAL_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "kseg.etl.spark.worker_daemon",
}

ALWAYS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}

DELTA_EXTENSIONS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

_REDACTION = "spark.redaction.regex"
_SPARKS_REDACTION = "(?i)secret|password|token|access[.]?key"  # its default
_HADOOP = "spark.hadoop."

JAR_KEYS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")


def open_session(job: Job, *, delta: bool = False) -> SparkSession:
    """The session for this job.

    Under spark-submit the submitted master is used, and its settings but for those that the job file sets, too: Spark
    does not tell flags from `spark-defaults.conf`, over which a job file has to win.
    delta: Spark itself has to read or write Delta tables. Its jars are those that the configuration names, else those
    in the cache (`make setup`); direct landing does without, and starts faster so.
    """
    from pyspark.sql import SparkSession

    given = job.spark_conf()
    started = is_started()
    conf = ALWAYS | redaction(given)
    if delta:
        conf |= DELTA_EXTENSIONS
        if not started and not any(key in given for key in JAR_KEYS):
            conf["spark.jars"] = ",".join(map(str, sorted(jar_folder(DELTA).glob("*.jar"))))
    builder = SparkSession.builder
    if not started:
        if "spark.pyspark.python" in given:  # spark-submit would hand it on; a driver of our own asks the environment
            os.environ["PYSPARK_PYTHON"] = given["spark.pyspark.python"]
        builder = builder.appName(f"kseg {job.name}").master(job.spark.master)
        conf = _defaults(job.spark.master, jvm.options()) | conf
    for key, value in (conf | _but_redaction(given)).items():
        builder = builder.config(key, value)
    with own_interrupt(), nullcontext() if started else _starting():
        session = builder.getOrCreate()
    leave_at_once(session.sparkContext)
    session.sparkContext.setLogLevel(given.get("spark.log.level", "ERROR"))
    if delta:
        _refuse_without_delta(session)
    return session


def settings_of(job: Job, *, delta: bool = False) -> tuple[str, ...]:
    """The keys that `open_session` sets in a session that is there already."""
    given = job.spark_conf()
    return (*ALWAYS, *redaction(given), *(DELTA_EXTENSIONS if delta else ()), *given)


def open_context(job: Job) -> SparkContext:
    """For runs that need nothing of Spark SQL: a fifth of what a session costs to start.

    Where Spark runs already, or is submitted, it is that of the session.
    """
    if is_started() or not job.spark.master.startswith("local"):
        return open_session(job).sparkContext
    given = job.spark_conf()
    conf = ALWAYS | redaction(given) | _but_redaction(given)
    return local_context(f"kseg {job.name}", job.spark.master, conf, jvm.light_options())


def redaction(given: SecretProperties) -> dict[str, str]:
    """`spark.redaction.regex` that also matches the properties whose values came from references or sound secret.

    Spark masks what it matches in its UI and event log, and by itself knows a few words only. Both also show a Hadoop
    property without `spark.hadoop.`. Empty where nothing is to be hidden.
    """
    hidden = sorted(key for key in given if key in given.hidden or sounds_secret(key))
    if not hidden:
        return {}
    names = [*hidden, *(key.removeprefix(_HADOOP) for key in hidden if key.startswith(_HADOOP))]
    exactly = "|".join(map(re.escape, names))
    return {_REDACTION: f"{given.get(_REDACTION, _SPARKS_REDACTION)}|^(?:{exactly})$"}


def _but_redaction(given: SecretProperties) -> dict[str, str]:
    """The rest, for `redaction` has taken over the job's own pattern."""
    return {key: value for key, value in given.items() if key != _REDACTION or not redaction(given)}


def local_context(name: str, master: str, conf: Mapping[str, str], java_options: Sequence[str]) -> SparkContext:
    """A local Spark without a session. conf: over the defaults."""
    from pyspark import SparkConf, SparkContext

    _without_pandas()
    settings = SparkConf().setAppName(name).setMaster(master)
    settings.setAll([*(_defaults(master, java_options) | dict(conf)).items()])
    with own_interrupt(), nullcontext() if is_started() else _starting():
        context = SparkContext.getOrCreate(settings)
    leave_at_once(context)
    context.setLogLevel(conf.get("spark.log.level", "ERROR"))
    return context


def _without_pandas() -> None:
    """Spark asks each argument of a call to the JVM whether it is NumPy's, and imports its utilities for tests to ask:
    with pandas, a third of a second of processor time that a driver has no other use for. Whoever has a value of
    NumPy's has loaded its module; another thread may still be loading it."""
    from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

    def is_scalar(_: NumpyScalarConverter, obj: Any) -> bool:
        generic = getattr(sys.modules.get("numpy"), "generic", None)
        return generic is not None and isinstance(obj, generic)

    def is_vector(_: NumpyArrayConverter, obj: Any) -> bool:
        array = getattr(sys.modules.get("numpy"), "ndarray", None)
        return array is not None and isinstance(obj, array) and obj.ndim == 1

    NumpyScalarConverter.can_convert = is_scalar  # type: ignore[method-assign, assignment]
    NumpyArrayConverter.can_convert = is_vector  # type: ignore[method-assign, assignment]


@contextmanager
def _starting() -> Iterator[None]:
    """Around the start of a JVM. Raises ConfigurationError where there is no Java that it starts with."""
    from pyspark.errors import PySparkRuntimeError

    try:
        with without_incubator_warning():
            yield
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED" or _has_java():
            raise
        raise ConfigurationError.of(
            "JAVA_HOME",
            "Spark is needed here, and there is no Java to start it with",
            "install Java 17 or newer, or set JAVA_HOME to one: `kseg doctor` shows what it finds",
        ) from error


def _has_java() -> bool:
    """Whether there is a `java` where Spark's launcher looks for it."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin" if home else None) is not None


def is_started() -> bool:
    """Whether this process has a Spark already, by spark-submit or by another job."""
    from pyspark import SparkContext

    return is_submitted() or SparkContext._active_spark_context is not None


def _defaults(master: str, java_options: Sequence[str]) -> dict[str, str]:
    """For a Spark that we start ourselves."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not master.startswith("local"):
        return {}
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    quiet = f"-Dlog4j2.configurationFile={resources.files('kseg.etl.spark').joinpath('log4j2.properties')}"
    return LOCAL_DEFAULTS | {"spark.driver.extraJavaOptions": " ".join([quiet, *java_options])}


def _refuse_without_delta(session: SparkSession) -> None:
    jvm: Any = session._jvm
    try:
        loader = jvm.Thread.currentThread().getContextClassLoader()
        jvm.java.lang.Class.forName("io.delta.tables.DeltaTable", False, loader)
    except Exception as error:
        raise ConfigurationError.of(
            "spark.conf",
            "Spark has to read or write Delta tables itself, and has no Delta jars",
            "run `kseg doctor`, or name them: spark.jars.packages: io.delta:delta-spark_4.2_2.13:4.4.0",
        ) from error
