"""A broker's files in a bucket, read by Spark, by the command line and by a job, against the same files on disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError
from kseg.etl.run.pipeline import run_ingest
from kseg.etl.source.job_origin import origin_of
from kseg.etl.spark_format.datasource import KsegDataSource
from kseg.etl.spark_format.options import ReadOptions
from kseg.jobs.cli import cli
from kseg.jobs.demo.hard_topic import HardTopic

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def copied(kafka: Any, s3_process: Any) -> Iterator[Path]:
    """The partitions' folders of a topic with everything in it, in the bucket below `broker-1`."""
    target = s3_process.folder / "broker-1"
    with HardTopic(kafka.bootstrap_servers, "hard-stored", 2, scale=0.03) as hard:
        hard.create()
        hard.write_round()
        hard.write_round()
        for number in range(2):
            shutil.copytree(kafka.log_dirs[0] / f"hard-stored-{number}", target / f"hard-stored-{number}")
        shutil.copy(kafka.log_dirs[0] / "meta.properties", target)
    for index in target.rglob("*index"):  # those of the active segment were allocated ahead: 10 MB of zeros each
        if index.stat().st_size > 1 << 20:
            index.unlink()
    yield target
    shutil.rmtree(target)


@pytest.mark.spark
def test_spark_reads_a_bucket_as_it_reads_a_folder(spark: Any, s3: Any, copied: Path) -> None:
    spark.dataSource.register(KsegDataSource)
    reader = spark.read.format("kseg").option("kafka.isolation.level", "read_committed")
    told = {f"storage.{name}": value for name, value in s3.options.items()}
    of_bucket = reader.options(**told).option("minPartitions", "4").load("s3://logs/broker-1")
    of_folder = spark.read.format("kseg").option("kafka.isolation.level", "read_committed").load(str(copied))
    order = ["partition", "offset"]
    rows = of_bucket.orderBy(order).collect()
    assert rows == of_folder.orderBy(order).collect()
    assert len(rows) > 100
    assert all(one.count > 0 for one in s3.gets())
    plan = of_bucket._jdf.queryExecution().toString()
    assert s3.options["aws_secret_access_key"] not in plan


def test_a_file_and_a_folder_in_a_bucket_are_told_like_those_on_disk(s3: Any, copied: Path) -> None:
    segment = sorted((copied / "hard-stored-0").glob("*.log"))[0].name
    outputs = []
    for where in ("s3://logs/broker-1", str(copied)):
        told = CliRunner().invoke(cli, ["dump", f"{where}/hard-stored-0/{segment}", "--deep"])
        assert told.exit_code == 0, told.output
        outputs.append(told.stdout.splitlines()[1:])
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 50
    checks = []
    for where in ("s3://logs/broker-1", str(copied)):
        told = CliRunner().invoke(cli, ["fsck", where, "--json"])
        assert told.exit_code == 0, told.output
        document = json.loads(told.stdout)
        checks.append([{**one, "folder": ""} for one in document["partitions"]])
    assert checks[0] == checks[1]
    assert all(one.count > 0 for one in s3.gets())


@pytest.mark.spark
def test_a_job_lands_a_bucket_s_rows_and_keeps_its_secret_to_itself(
    spark: Any, s3: Any, copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    secret = s3.options["aws_secret_access_key"]
    monkeypatch.setenv("STORE_SECRET", secret)
    file = tmp_path / "job.yaml"
    file.write_text(
        f"""
version: 1
name: stored
source:
  topics: [hard-stored]
  segments:
    paths: [s3://logs/broker-1]
    options:
      aws_access_key_id: {s3.options["aws_access_key_id"]}
      aws_secret_access_key: ${{STORE_SECRET}}
      endpoint_url: {s3.endpoint}
      region: us-east-1
sink: {{path: ./lake}}
ledger: ./ledger
"""
    )
    job = load_job(file)
    assert secret not in repr(job) + repr(origin_of(job)) + json.dumps(job.pinned())
    report = run_ingest(job)
    assert secret not in json.dumps(report.to_json(), default=str)
    import deltalake

    landed = deltalake.DeltaTable(str(tmp_path / "lake")).to_pyarrow_table(columns=["partition", "offset"])
    parsed = {"path": str(copied), "kafka.isolation.level": "read_committed"}
    expected = spark.read.format("kseg").options(**parsed).load().select("partition", "offset").collect()
    assert sorted(zip(*(landed[name].to_pylist() for name in ("partition", "offset")), strict=True)) == sorted(
        (row.partition, row.offset) for row in expected
    )
    ledger = b"".join(path.read_bytes() for path in (tmp_path / "ledger").rglob("*") if path.is_file())
    assert secret.encode() not in ledger
    file.write_text(file.read_text().replace("${STORE_SECRET}", "written-out"))
    with pytest.raises(ConfigurationError, match="is a secret in plain text"):
        load_job(file)


def test_a_layout_that_nobody_knows_is_refused_by_the_source_and_a_job(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="'woven' is not a layout"):
        ReadOptions.parse({"path": "/data", "layout": "woven"})
    with pytest.raises(ConfigurationError, match="must not have credentials"):
        ReadOptions.parse({"path": "s3://a:hunter2@logs/x"}).origin.open("s3://a:hunter2@logs/x")  # type: ignore[union-attr]
    told = ReadOptions.parse({"path": "/data", "storage.secret_key": "hunter2", "layout.local": "/disk"})
    assert "hunter2" not in repr(told)
