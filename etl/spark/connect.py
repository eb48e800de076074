"""Spark Connect: a session on a server that others run, in which there is no SparkContext and no JVM to reach.

    here                                              the server and its workers
    ────                                              ──────────────────────────
    ledger, plan, Delta commits, group offsets        fetch, decode, Arrow steps, Parquet
    a transform's Python steps (they build plans)     its SQL, and Delta where a table needs Spark's own writer

The workers need our packages and the modules of the transform's steps: those that the server lacks, or has in another
state, are sent to this session alone (`equip`). What they are built on (pyarrow, numba …) has to be installed there.

A server that is gone is a failure that may pass: the session is dropped, and the next attempt opens another one.
Source: https://spark.apache.org/docs/4.2.0/spark-connect-overview.html
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from contextlib import suppress
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kseg.etl.config.job import Job
from kseg.etl.errors import ConfigurationError, RetriableFailure
from kseg.etl.spark import connect_probe
from kseg.etl.transform.needed_modules import modules_needed, modules_zip, references_of
from kseg.etl.transform.python_archive import content_id, zipped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OURS = ("kseg.client", "kseg.segment_reader", "kseg.etl")
_EXTRA = "pip install 'kafka-segment-etl[connect]'"
# A request is sent again after these seconds: about a minute in all, and never beyond the run's deadline. Spark's own
# client goes on for ten minutes, in a session that may be gone.
_PAUSES = tuple(0.05 * 4**number for number in range(6))
_GONE_CODES = frozenset({"UNAVAILABLE", "CANCELLED", "ABORTED", "DEADLINE_EXCEEDED"})
_GONE_WORDS = (
    "INVALID_HANDLE",
    "SESSION_CLOSED",
    "SparkContext was shut down",
    "stopped SparkContext",
    "Socket closed",
)
_SETTINGS = {"spark.sql.session.timeZone": "UTC"}


def open_remote(job: Job, *, delta: bool = False) -> SparkSession:
    """A session of our own on the job's Connect server, whose workers can do what the job needs.

    Of `spark.conf` only settings that can change at run time are set; the others are the server's.
    delta: Spark itself has to read or write Delta tables.

    Raises:
        ConfigurationError: the client's packages are missing here, or something is at the server.
        RetriableFailure: the server cannot be reached.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    assert job.spark.remote is not None
    try:
        # Its import asks for the packages that Connect's client needs.
        from pyspark.sql.connect.client.retries import DefaultPolicy

        session = SparkSession.builder.remote(job.spark.remote).create()
    except ImportError as error:
        raise ConfigurationError.of(
            "spark.remote", f"Spark Connect's client needs more packages: {error}", _EXTRA
        ) from error
    except PySparkException as error:
        raise _unreachable(job.spark.remote, error) from error
    remote: Any = session
    remote.client.set_retry_policies([DefaultPolicy(max_retries=retries(job.run.deadline.total_seconds()))])
    try:
        for key, value in (_SETTINGS | dict(job.spark_conf())).items():
            if session.conf.isModifiable(key):
                session.conf.set(key, value)
        if delta:
            _refuse_without_delta(session)
        equip(session, job)
    except BaseException as error:  # also our own errors: their caller has no session to close
        close(session)
        if is_gone(error):
            raise _unreachable(job.spark.remote, error) from error
        raise
    return session


def retries(deadline: float) -> int:
    """How often a request is sent again within so many seconds."""
    return sum(waited <= deadline for waited in accumulate(_PAUSES))


def close(session: SparkSession) -> None:
    """Stop what the session still does at its server, and give it up. A server that is gone has done so."""
    remote: Any = session
    with suppress(Exception):
        remote.client.set_retry_policies([])
        session.interruptAll()
    with suppress(Exception):
        session.stop()


def is_gone(error: BaseException) -> bool:
    """Whether it says that the server, or the session in it, is not there any more."""
    from pyspark.errors import PySparkException

    if not isinstance(error, PySparkException):
        return False
    if type(error).__name__ == "RetriesExceeded":
        return True
    code = getattr(error, "getGrpcStatusCode", lambda: None)()
    return getattr(code, "name", "") in _GONE_CODES or any(word in str(error) for word in _GONE_WORDS)


def gone(error: BaseException) -> RetriableFailure | None:
    """A RetriableFailure if an error or one of its causes means that the server is gone."""
    cause: BaseException | None = error
    while cause is not None:
        if is_gone(cause):
            return RetriableFailure(
                f"the Spark Connect server is not available any more: {_line(cause)}", remedy=_REMEDY
            )
        cause = cause.__cause__
    return None


_REMEDY = "check the server and run the same command again: the unfinished run continues"


def _unreachable(url: str, error: BaseException) -> RetriableFailure:
    place = url.split("/;", 1)[0]  # what follows may hold a token
    return RetriableFailure(f"the Spark Connect server at {place} cannot be reached: {_line(error)}", remedy=_REMEDY)


def _line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]


def _refuse_without_delta(session: SparkSession) -> None:
    if "DeltaSparkSessionExtension" not in (session.conf.get("spark.sql.extensions", "") or ""):
        raise ConfigurationError.of(
            "spark.remote",
            "Spark has to read or write Delta tables itself, and the server was started without Delta",
            "start it with --packages io.delta:delta-spark_4.2_2.13:4.4.0, "
            "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
            "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
        )


# --- what the workers need -------------------------------------------------------------------------------------------


def equip(session: SparkSession, job: Job) -> None:
    """Send the workers what they lack.

    Raises:
        ConfigurationError: they run another Python, or lack packages that cannot be sent.
    """
    found = _probe(session, "")
    if found["python"] != list(sys.version_info[:2]):
        here, there = ".".join(map(str, sys.version_info[:2])), ".".join(map(str, found["python"]))
        raise ConfigurationError.of(
            "spark.remote",
            f"the server's workers run Python {there}, and this is {here}: functions need the same version",
            f"use Python {there} here, or start the server with PYSPARK_PYTHON naming a Python {here}",
        )
    with tempfile.TemporaryDirectory(prefix="kseg-artifacts-") as folder:
        if modules := modules_needed(references_of(job)):
            archive = modules_zip(modules)
            file = Path(folder, f"job-modules-{content_id(archive)}.zip")
            file.write_bytes(archive)
            session.addArtifacts(str(file), pyfile=True)
    if found["digest"] == _digest():
        return
    send_packages(session)
    if missing := _probe(session, "kseg.etl.tasks.writing")["missing"]:
        raise ConfigurationError.of(
            "spark.remote",
            f"the server's workers cannot load what was sent to them: {missing}",
            "install kafka-segment-etl, or at least its dependencies, in the Python of the server's workers",
        )


def send_packages(session: SparkSession) -> None:
    """Send this session's workers our packages as they are here, over those that they may have."""
    with tempfile.TemporaryDirectory(prefix="kseg-artifacts-") as folder:
        file = Path(folder, f"kseg-{_digest()}.zip")
        file.write_bytes(_packed(_OURS))
        session.addArtifacts(str(file), pyfile=True)


def _probe(session: SparkSession, module: str) -> dict[str, Any]:
    from pyspark import cloudpickle as untyped

    cloudpickle: Any = untyped
    # By value: the very question is whether the workers have our packages.
    cloudpickle.register_pickle_by_value(connect_probe)
    try:
        ask = connect_probe.asker(_OURS, module)
        (row,) = session.range(0, 1, 1, 1).mapInArrow(ask, "report string").collect()
    finally:
        cloudpickle.unregister_pickle_by_value(connect_probe)
    report: dict[str, Any] = json.loads(row["report"])
    return report


@cache
def _digest() -> str | None:
    return connect_probe.digest(_OURS)


def _packed(packages: tuple[str, ...]) -> bytes:
    """Packages in an archive that Python imports from."""
    parents = {package.rpartition(".")[0] for package in packages} - {""}
    files = {f"{parent}/__init__.py": (_folder(parent) / "__init__.py").read_bytes() for parent in parents}
    for package in packages:
        folder = _folder(package)
        for path in folder.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                files[Path(*package.split("."), path.relative_to(folder)).as_posix()] = path.read_bytes()
    return zipped(files)


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None  # noqa: PT018
    return Path(spec.origin).parent
