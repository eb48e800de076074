"""Sessions: what Spark shows of a job's configuration in its UI and event log, and what a driver loads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kseg.etl.config.secrets import SecretProperties
from kseg.etl.spark.session import redaction

MARK = "marked-4711"

PROGRAM = """
import sys, urllib.request
from pathlib import Path
from kseg.etl.config.load import load_job
from kseg.etl.spark.session import open_context, open_session
open_it = open_context
if sys.argv[2] == "sql":
    open_it = lambda job: open_session(job).sparkContext
spark = open_it(load_job(Path(sys.argv[1])))
assert spark.parallelize([1, 2], 1).count() == 2
for page in ("/environment/", f"/api/v1/applications/{spark.applicationId}/environment"):
    print(urllib.request.urlopen(spark.uiWebUrl + page).read().decode())
spark.stop()
"""

OF_NUMPY = """
import sys, types
from kseg.etl.spark.session import local_context
java = local_context("numpy", "local[1]", {}, ())._jvm.java
sys.modules["numpy"] = types.ModuleType("numpy")  # as while another thread imports it
print(java.lang.String.valueOf(1), end=" ")
del sys.modules["numpy"]
print("loaded", *sorted({"pandas", "pyspark.testing"} & sys.modules.keys()))
import numpy
print(java.util.Arrays.toString(numpy.array([1, 2], "int64")), java.lang.Math.abs(numpy.int64(-3)))
"""


def test_properties_with_references_or_secret_names_are_masked_and_no_others() -> None:
    conf = SecretProperties(
        {
            "spark.hadoop.fs.azure.account.key.acct.dfs": "k",
            "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:…",
            "spark.sql.shuffle.partitions": "8",
        },
        frozenset({"spark.hadoop.javax.jdo.option.ConnectionURL"}),
    )
    (pattern,) = redaction(conf).values()
    hidden = ["fs.azure.account.key.acct.dfs", "javax.jdo.option.ConnectionURL", "my.password"]
    for key in (*hidden, *(f"spark.hadoop.{key}" for key in hidden)):
        assert re.search(pattern.removeprefix("(?i)"), key), key
    for key in ("spark.sql.shuffle.partitions", "fs.azure.account.key.acct_dfs", "spark.master"):
        assert not re.search(pattern, key), key
    assert redaction(SecretProperties({"spark.sql.shuffle.partitions": "8"}, frozenset())) == {}


def test_a_jobs_own_pattern_is_kept() -> None:
    conf = SecretProperties({"spark.redaction.regex": "house", "spark.x.y": MARK}, frozenset({"spark.x.y"}))
    assert redaction(conf) == {"spark.redaction.regex": r"house|^(?:spark\.x\.y)$"}


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["plain", "sql"])
def test_a_secret_of_spark_conf_is_in_neither_the_event_log_nor_the_ui(kind: str, tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    secrets = {
        "spark.hadoop.fs.azure.account.key.acct": "${MARKED}",
        "spark.hadoop.fs.s3a.secret.key": "${MARKED}",
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:${MARKED}",
        "spark.executorEnv.STORE": "${MARKED}",
        "spark.ssl.keyPassword": "${MARKED}",
    }
    conf = secrets | {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
    }
    job = {
        "version": 1,
        "name": "j",
        "kafka": {"bootstrap.servers": "127.0.0.1:1"},
        "source": {"topics": ["t"]},
        "sink": {"path": "./lake"},
        "ledger": "./ledger",
        "spark": {"master": "local[1]", "conf": conf},
    }
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(job))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file), kind],
        env=os.environ | {"MARKED": MARK},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    logged = "".join(path.read_text() for path in events.rglob("*") if path.is_file())
    for text in (logged, done.stdout):
        assert "spark.hadoop.fs.azure.account.key.acct" in text
        assert MARK not in text


@pytest.mark.spark
def test_a_driver_without_sql_loads_no_pandas_and_still_hands_numpys_values_to_the_jvm() -> None:
    done = subprocess.run([sys.executable, "-c", OF_NUMPY], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.splitlines() == ["1 loaded", "[1, 2] 3"]


def test_a_start_without_java_is_an_error_that_says_so(tmp_path: Path) -> None:
    program = "from kseg.etl.spark.session import local_context\nlocal_context('j', 'local[1]', {}, ())"
    here = os.environ | {"JAVA_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=here, capture_output=True, text=True, timeout=300, check=False
    )
    assert "ConfigurationError: JAVA_HOME: Spark is needed here, and there is no Java" in done.stderr
