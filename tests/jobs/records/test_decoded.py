"""Records as a job's next run would decode them, without a broker."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from kseg.etl.config.load import load_job
from kseg.jobs.records.decoded import ByJob

DAY = {"type": "int", "connect.name": "org.apache.kafka.connect.data.Date"}
SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "day", "type": DAY}]}


@pytest.mark.parametrize(
    ("table", "day"), [("of an earlier release", 1), ("none", "1970-01-02"), ("broken", "1970-01-02")]
)
def test_records_are_decoded_by_the_rules_of_the_tables_whatever_the_ledger_knows(
    tmp_path: Path, table: str, day: Any
) -> None:
    """A ledger that was rebuilt knows no rules. A table that cannot be read hides no record."""
    (tmp_path / "v.avsc").write_text(json.dumps(SCHEMA))
    document = {
        "version": 1,
        "name": "orders",
        "kafka": {"bootstrap.servers": "localhost:1"},
        "source": {"topics": ["orders"]},
        "decode": {"value": {"format": "avro", "schema": {"file": "v.avsc"}}},
        "sink": {"path": "./lake"},
        "ledger": "./ledger",
    }
    (tmp_path / "job.yaml").write_text(json.dumps(document))  # JSON is YAML
    if table != "none":
        write_deltalake(str(tmp_path / "lake"), pa.table({"day": pa.array([0], pa.int32())}))
    if table == "broken":
        shutil.rmtree(tmp_path / "lake" / "_delta_log")
        (tmp_path / "lake" / "_delta_log").mkdir()
        (tmp_path / "lake" / "_delta_log" / f"{3:020d}.json").write_text("{}")
    row = {"topic": "orders", "partition": 0, "offset": 0, "key": None, "value": bytes([2]), "headers": []}
    decoded = ByJob(load_job(tmp_path / "job.yaml"), None).decode(row)
    assert str(decoded["value"].value["day"]) == str(day)
