"""Reading files from where a group has committed: `committed` means what it means at the broker."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from kseg.client import ClientConfig, Cluster, TopicPartition
from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError
from kseg.etl.planning.snapshot import take_snapshot
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.files.log_directories import LogCatalog
from kseg.etl.source.job_origin import origin_of
from kseg.etl.source.logs import open_logs
from kseg.etl.source.origin import LogFiles
from kseg.etl.source.reader import RangeReader
from kseg.etl.source.resolve import resolve_offsets
from kseg.etl.spark_format.datasource import KsegDataSource
from kseg.etl.spark_format.options import ReadOptions
from kseg.etl.spark_format.planning import plan_tasks

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("kind", ["classic", "modern", "left", "simple", "deleted"])
def test_committed_offsets_are_the_broker_s(groups: Any, kind: str) -> None:
    wanted = [TopicPartition(groups.topic, number) for number in range(5)]
    catalog = LogCatalog(LogFiles((str(groups.log_dir),)))
    name = groups.names[kind]
    found = catalog.offsets("committed", wanted, isolation_level="read_committed", group=name)
    expected = {tp: one.offset for tp, one in groups.committed[kind].items() if one.offset >= 0}
    assert found == dict.fromkeys(wanted, 0) | expected
    if kind != "simple":  # with a transaction open there, the broker has no stable answer
        config = ClientConfig.from_properties({"bootstrap.servers": groups.kafka.bootstrap_servers}, client_id="test")
        with Cluster(config) as cluster:
            at_broker = resolve_offsets(cluster, "committed", wanted, isolation_level="read_committed", group=name)
        assert found == at_broker


def options(groups: Any, path: Any, **more: str) -> dict[str, str]:
    return {"path": str(path), "subscribe": groups.topic, "startingOffsets": "committed"} | more


def test_a_read_of_files_starts_where_the_group_stands(groups: Any) -> None:
    given = options(groups, groups.log_dir, **{"kafka.group.id": groups.names["simple"]})
    parsed = ReadOptions.parse(given)
    decode = DecodeOptions(isolation_level="read_committed")
    rows = [
        (row["partition"], row["offset"])
        for task in plan_tasks(parsed)
        for batch in RangeReader(task, parsed.origin, decode)
        for row in batch.to_pylist()
    ]
    starts = {0: 7, 1: 5, 2: 0, 3: 0, 4: 0}
    assert sorted(rows) == [(number, offset) for number, start in starts.items() for offset in range(start, 12)]


@pytest.mark.spark
def test_a_dataframe_of_files_starts_where_the_group_stands(spark: Any, groups: Any) -> None:
    spark.dataSource.register(KsegDataSource)
    reader = spark.read.format("kseg").option("subscribe", groups.topic).option("startingOffsets", "committed")
    frame = reader.option("kafka.group.id", groups.names["simple"]).option("path", str(groups.log_dir)).load()
    found = {
        row.partition: row.start
        for row in frame.groupBy("partition").agg({"offset": "min"}).toDF("partition", "start").collect()
    }
    assert found == {0: 7, 1: 5, 2: 0, 3: 0, 4: 0}


def test_committed_needs_a_group(groups: Any) -> None:
    with pytest.raises(ConfigurationError, match="group"):
        ReadOptions.parse(options(groups, groups.log_dir))
    with pytest.raises(ConfigurationError, match="need a group"):
        LogCatalog(LogFiles((str(groups.log_dir),))).offsets("committed", [], isolation_level="read_committed")


def test_a_directory_without_the_group_s_partition_is_told(groups: Any, tmp_path: Path) -> None:
    shutil.copytree(groups.log_dir / f"{groups.topic}-0", tmp_path / f"{groups.topic}-0")
    given = options(groups, tmp_path, **{"kafka.group.id": groups.names["simple"]})
    with pytest.raises(ConfigurationError, match="lacks folders of __consumer_offsets"):
        plan_tasks(ReadOptions.parse(given))
    # another directory may have it
    both = options(groups, f"{tmp_path},{groups.log_dir}", **{"kafka.group.id": groups.names["simple"]})
    assert {task.partition: task.start for task in plan_tasks(ReadOptions.parse(both))}[0] == 7


def test_a_job_of_files_starts_where_the_group_stands(groups: Any, tmp_path: Path) -> None:
    document = {
        "version": 1,
        "name": "from-files",
        "group": groups.names["simple"],
        "group_commit": "none",
        "source": {"segments": str(groups.log_dir), "topics": [groups.topic], "starting_offsets": "committed"},
        "sink": {"path": str(tmp_path / "rows")},
        "ledger": str(tmp_path / "ledger"),
    }
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(document, allow_unicode=True))
    job = load_job(str(file))
    with open_logs(origin_of(job)) as logs:
        starts = take_snapshot(logs, job).starts
    assert [starts[TopicPartition(groups.topic, number)] for number in range(5)] == [7, 5, 0, 0, 0]
