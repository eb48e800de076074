"""What a submit line looks like."""

from __future__ import annotations

import shlex
from pathlib import Path

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
