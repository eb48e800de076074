"""`sink.partition_by`: columns by name and columns made of others, as a job file writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kseg.etl.config.job import Job
from kseg.etl.config.load import job_from_document, load_job
from kseg.etl.errors import ConfigurationError


def load(folder: Path, partition_by: list[Any]) -> Job:
    document = {
        "version": 1,
        "name": "orders",
        "kafka": {"bootstrap.servers": "h:1"},
        "source": {"topics": ["orders"]},
        "sink": {"path": "./lake", "partition_by": partition_by},
        "ledger": "./ledger",
    }
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(document))
    return load_job(file)


def test_names_are_those_of_the_columns_with_the_function_behind(tmp_path: Path) -> None:
    job = load(tmp_path, ["topic", {"day": "timestamp"}, {"bucket": [16, "key"]}, {"hour": "timestamp", "as": "h"}])
    assert job.sink.partition_columns == ("topic", "timestamp_day", "key_bucket", "h")
    assert list(job.sink.derived_partitions) == [f"sink.partition_by[{at}]" for at in (1, 2, 3)]
    again = job_from_document(job.pinned())
    assert (again.sink, again.config_hash) == (job.sink, job.config_hash)


@pytest.mark.parametrize(
    ("written", "place", "message"),
    [
        ([{"week": "timestamp"}], "sink.partition_by[0]", "is no partition"),
        ([{"day": "timestamp", "hour": "timestamp"}], "sink.partition_by[0]", "more than one function: day and hour"),
        ([{"bucket": [1, "key"]}], "sink.partition_by[0].bucket", "no number of buckets and a column"),
        ([{"bucket": "key"}], "sink.partition_by[0].bucket", "no number of buckets and a column"),
        ([{"day": "timestamp"}, "timestamp_day"], "sink.partition_by", "timestamp_day more than once"),
        ([{"day": "created_at"}], "sink.partition_by[0]", "the rows have no column created_at"),
        ([{"day": "offset"}], "sink.partition_by[0]", "day is made of a timestamp, and offset is none"),
        ([{"bucket": [4, "timestamp"]}], "sink.partition_by[0]", "bucket is made of an integer, string or binary"),
    ],
)
def test_what_is_no_partition_is_refused(tmp_path: Path, written: list[Any], place: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, written)
    (fault,) = caught.value.faults
    assert fault.path == place
    assert message in fault.message
