"""Which modules a job brings along, and what a submit line looks like."""

from __future__ import annotations

import io
import shlex
import zipfile
from pathlib import Path

import pytest

from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError
from kseg.jobs.packaging.modules import modules_of, modules_zip
from kseg.jobs.packaging.submitting import Packed, as_text, spark_submit

JOB = """
version: 1
name: orders
kafka: {bootstrap.servers: "localhost:9092", sasl.oauthbearer.token.callback: "my_tokens:fetch",
  security.protocol: SASL_PLAINTEXT, sasl.mechanism: OAUTHBEARER}
source: {topics: [orders]}
transform: [{arrow: "my_package.steps:shout"}, {arrow: "my_step:first"}, {sql: "SELECT * FROM __rows__"},
  {python: "yaml:frame"}]
sink: {path: ./lake/orders}
ledger: ./lake/_ledger
"""


def test_the_modules_that_a_job_names_are_packed_but_not_installed_ones(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(JOB)
    (tmp_path / "my_step.py").write_text("1")
    (tmp_path / "my_tokens.py").write_text("2")
    (tmp_path / "my_package" / "data").mkdir(parents=True)
    (tmp_path / "my_package" / "__init__.py").write_text("")
    (tmp_path / "my_package" / "steps.py").write_text("3")
    (tmp_path / "my_package" / "data" / "table.csv").write_text("4")
    names = modules_of(load_job(tmp_path / "orders.yaml"))
    assert names == ["my_package", "my_step", "my_tokens", "yaml"]
    packed = modules_zip(names, [tmp_path])
    assert packed is not None
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            "my_package/__init__.py": b"",
            "my_package/data/table.csv": b"4",
            "my_package/steps.py": b"3",
            "my_step.py": b"1",
            "my_tokens.py": b"2",
        }
    assert modules_zip(["yaml", "json"]) is None
    with pytest.raises(ConfigurationError, match="no module nowhere_to_be_found"):
        modules_zip(["nowhere_to_be_found"], [tmp_path])


def test_a_submit_line_can_be_pasted_into_a_shell() -> None:
    packed = Packed(Path("/a b/kseg_submit.py"), (Path("/a b/x.zip"), Path("/m.zip")), jars=(Path("/delta.jar"),))
    line = spark_submit(packed, "spark://host:7077", "client", ["ingest", "orders.yaml"])
    assert shlex.split(as_text(line).replace("\\\n", " ")) == line
    assert line[line.index("--py-files") + 1] == "/a b/x.zip,/m.zip"
    assert line[-3:] == ["/a b/kseg_submit.py", "ingest", "orders.yaml"]


def test_an_archive_s_python_is_named_for_executors_and_on_yarn_for_the_driver_in_the_cluster() -> None:
    packed = Packed(Path("/s.py"), (), archive=Path("/env.tar.gz"))
    client = spark_submit(packed, "yarn", "client", ["ingest", "orders.yaml"])
    cluster = spark_submit(packed, "yarn", "cluster", ["ingest", "orders.yaml"], files=[Path("/orders.yaml")])
    for line in (client, cluster):
        assert "/env.tar.gz#environment" in line
        assert "spark.pyspark.python=./environment/bin/python" in line
    assert any(word.startswith("spark.pyspark.driver.python=") for word in client)
    assert "spark.yarn.appMasterEnv.PYSPARK_PYTHON=./environment/bin/python" in cluster
    assert cluster[cluster.index("--files") + 1] == "/orders.yaml"
