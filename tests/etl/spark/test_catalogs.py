"""A table's name in a catalog that is only in memory is refused: the next run would not find the table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError
from kseg.etl.spark.catalogs import IMPLEMENTATION, refuse_before_start, refuse_forgetful
from kseg.etl.spark.job_session import JobSession
from kseg.segment_reader.encode.batches import Record, encode_batch
from skips import full_scale_only

HIVE = {IMPLEMENTATION: "hive"}
UNITY = {"spark.sql.catalog.main": "io.unitycatalog.spark.UCSingleCatalog"}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A Spark without any settings of its own."""
    (tmp_path / "conf").mkdir()
    return {"SPARK_CONF_DIR": str(tmp_path / "conf")}


@pytest.fixture
def job(tmp_path: Path) -> Any:
    def make(table: str = "default.orders", conf: dict[str, str] | None = None, **changes: Any) -> Job:
        document = {
            "version": 1,
            "name": "orders",
            "kafka": {"bootstrap.servers": "localhost:1"},
            "source": {"topics": ["orders"]},
            "sink": {"table": table, "single_driver": True},
            "ledger": "./ledger",
            "spark": {"conf": conf or {}},
        }
        path = tmp_path / "job.yaml"
        path.write_text(yaml.safe_dump(document | changes))
        return load_job(path)

    return make


@pytest.mark.parametrize(
    ("table", "conf"),
    [
        ("orders", {}),
        ("default.orders", {}),
        ("spark_catalog.default.orders", {}),
        ("main.sales.orders", {}),  # of no catalog that is configured
        ("default.orders", UNITY),
        ("spark_catalog.default.orders", UNITY | {"spark.sql.defaultCatalog": "main"}),
        ("default.orders", {IMPLEMENTATION: "in-memory"}),
    ],
)
def test_a_name_that_nothing_keeps_is_refused_before_spark_starts(job, environment, table, conf):
    with pytest.raises(ConfigurationError, match=r"spark\.sql\.catalogImplementation") as caught:
        refuse_before_start(job(table, conf), environment)
    (fault,) = caught.value.faults
    assert (fault.path, table in fault.message, "sink.path" in (fault.remedy or "")) == ("sink.table", True, True)


@pytest.mark.parametrize(
    ("table", "conf"),
    [
        ("default.orders", HIVE),
        ("spark_catalog.default.orders", HIVE),
        ("main.sales.orders", UNITY),
        ("main.orders", UNITY),
        ("sales.orders", UNITY | {"spark.sql.defaultCatalog": "main"}),
        ("default.orders", {"spark.sql.catalog.spark_catalog": "io.unitycatalog.spark.UCSingleCatalog"}),
    ],
)
def test_a_name_in_a_catalog_that_lasts_is_fine(job, environment, table, conf):
    refuse_before_start(job(table, conf), environment)


@pytest.mark.parametrize("line", [f"{IMPLEMENTATION} hive", f"{IMPLEMENTATION}=hive", f"  {IMPLEMENTATION} : hive "])
def test_spark_defaults_are_read_as_spark_does(job, environment, line):
    text = f"# {IMPLEMENTATION} in-memory\n\nspark.app.name x\n{line}\n"
    Path(environment["SPARK_CONF_DIR"], "spark-defaults.conf").write_text(text)
    refuse_before_start(job(), environment)
    with pytest.raises(ConfigurationError):  # over which a job file has to win
        refuse_before_start(job(conf={IMPLEMENTATION: "in-memory"}), environment)


def test_the_folder_of_spark_s_home_is_read_without_one_of_its_own(job, environment, tmp_path):
    (tmp_path / "conf" / "spark-defaults.conf").write_text(f"{IMPLEMENTATION} hive\n")
    refuse_before_start(job(), {"SPARK_HOME": str(tmp_path)})
    with pytest.raises(ConfigurationError):
        refuse_before_start(job(), {"SPARK_HOME": str(tmp_path / "elsewhere")})


@pytest.mark.parametrize("unknown", ["hive-site.xml", "arguments", "spark://cluster:7077", "yarn", "sc://server:15002"])
def test_where_only_the_running_spark_knows_it_decides(job, environment, unknown):
    spark: dict[str, Any] = {}
    if unknown == "hive-site.xml":
        Path(environment["SPARK_CONF_DIR"], unknown).touch()
    elif unknown == "arguments":
        environment["PYSPARK_SUBMIT_ARGS"] = f"--conf {IMPLEMENTATION}=hive pyspark-shell"
    elif unknown.startswith("sc:"):
        spark = {"remote": unknown}
    else:
        spark = {"master": unknown}
    refuse_before_start(job(spark=spark), environment)


def test_every_route_with_such_a_name_is_a_fault(job):
    routes = {"orders": {"table": "default.orders"}, "a": {"path": "./a"}, "*": {"table": "default.rest"}}
    made = job(source={"topics": ["orders", "a", "b"]}, sink={"routes": routes, "single_driver": True})
    with pytest.raises(ConfigurationError) as caught:
        refuse_forgetful(made, {}.get)
    assert {fault.path for fault in caught.value.faults} == {"sink.routes.orders.table", "sink.routes.*.table"}


def test_tables_by_path_need_no_catalog(job, environment):
    refuse_before_start(job(sink={"path": "./lake/orders"}), environment)


def test_a_session_that_runs_already_is_asked(job, spark):
    """As under spark-submit: whatever files say, it has the catalog that it was started with."""
    assert spark.conf.get(IMPLEMENTATION) == "in-memory"
    with pytest.raises(ConfigurationError, match=r"spark\.sql\.catalogImplementation"):
        JobSession(job()).session(delta=True)


@full_scale_only
def test_with_a_metastore_every_run_finds_the_table(log_files: Any, tmp_path: Path) -> None:
    """Spark's own, in a database beside the job file, as the remedy says; each run is a process of its own."""
    document = {
        "version": 1,
        "name": "orders",
        "source": {"topics": ["orders"], "segments": "./log"},
        "sink": {"table": "default.orders", "single_driver": True},
        "ledger": "./ledger",
        "spark": {"master": "local[1]", "conf": HIVE | {"spark.sql.warehouse.dir": str(tmp_path / "warehouse")}},
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(document))
    for batches in range(1, 3):
        log = [[encode_batch([Record(b"k", b"v")], base_offset=number) for number in range(batches)]]
        log_files.write_partition(tmp_path / "log" / "orders-0", log)
        words = [sys.executable, "-m", "kseg.jobs.cli", "ingest", "job.yaml", "-q"]
        result = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
    (log,) = (tmp_path / "warehouse").rglob("_delta_log")
    assert len({entry.name for entry in log.glob("*.json")}) == 3, "made, and landed in twice"
