"""What a submit line looks like."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pyspark
import pytest
from click.testing import CliRunner

from kseg.jobs.cli import cli
from kseg.jobs.packaging.submitting import Packed, as_text, spark_submit


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


def test_the_drivers_log_is_configured_in_both_modes() -> None:
    packed = Packed(Path("/s.py"), (), logging=Path("/dist/log4j2.properties"))
    client = spark_submit(packed, "yarn", "client", ["ingest", "orders.yaml"])
    cluster = spark_submit(packed, "yarn", "cluster", ["ingest", "orders.yaml"], files=[Path("/orders.yaml")])
    assert (
        client[client.index("--driver-java-options") + 1] == "-Dlog4j2.configurationFile=file:/dist/log4j2.properties"
    )
    assert "--files" not in client
    assert "spark.driver.extraJavaOptions=-Dlog4j2.configurationFile=log4j2.properties" in cluster
    assert cluster[cluster.index("--files") + 1] == "/orders.yaml,/dist/log4j2.properties"


@pytest.mark.spark
def test_with_it_spark_submit_prints_no_info_line(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from pyspark import SparkContext\nprint(SparkContext().defaultParallelism)\n")
    result = CliRunner().invoke(cli, ["package", "--out", str(tmp_path / "dist"), "--json"])
    assert result.exit_code == 0, result.output
    line = json.loads(result.stdout)["spark_submit"]["client"]
    at = line.index("--driver-java-options")
    base = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[1]"]
    loud, quiet = (
        subprocess.run([*base, *options, str(script)], capture_output=True, text=True, check=True)
        for options in ([], line[at : at + 2])
    )
    assert (loud.stdout.strip(), quiet.stdout.strip()) == ("1", "1")
    assert " INFO " in loud.stderr
    assert " INFO " not in quiet.stderr


@pytest.mark.parametrize(
    ("master", "modes"),
    [
        ("spark://host:7077", {"client": "spark://host:7077"}),
        ("yarn", {"client": "yarn", "cluster": "yarn"}),
        ("k8s://https://h:6443", {"client": "k8s://https://h:6443", "cluster": "k8s://https://h:6443"}),
        # Tried on a laptop: where it is to run is not said yet.
        ("local[*]", {"client": "spark://HOST:7077", "cluster": "yarn"}),
    ],
)
def test_a_standalone_cluster_has_no_line_for_a_driver_inside(
    master: str, modes: dict[str, str], tmp_path: Path
) -> None:
    job = tmp_path / "orders.yaml"
    job.write_text(
        f"""
        version: 1
        name: orders
        kafka: {{bootstrap.servers: "localhost:9092"}}
        source: {{topics: [orders]}}
        sink: {{path: ./lake/orders}}
        ledger: ./ledger
        spark: {{master: "{master}"}}
        """
    )
    words = ["package", "--out", str(tmp_path / "dist"), "--job", str(job), "--json"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    lines = json.loads(result.stdout)["spark_submit"]
    assert {mode: line[line.index("--master") + 1] for mode, line in lines.items()} == modes
