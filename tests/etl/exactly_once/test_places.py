"""Folders whose names have more than letters: a job lands in the folder that is named, or not at all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from deltalake import DeltaTable

from kseg.etl.errors import ConfigurationError
from kseg.etl.operations.maintain import MaintenanceRequest, maintain_job
from kseg.etl.operations.verify import verify

NAME = "a b#c?ä 100%"


@pytest.mark.parametrize("by_spark", [False, True])
def test_every_command_works_on_the_folder_that_is_named(home: Any, records: Any, spark: Any, by_spark: bool) -> None:
    topic = records.topic(1)
    sink = {"path": f"./lake/{NAME}/first"} | ({"cluster_by": ["offset"], "single_driver": True} if by_spark else {})
    job = home(topic, sink=sink, ledger=f"./{NAME}")
    for _ in range(2):
        records.write(topic, 0, 4)
        assert job.ingest().status == "done"
    assert job.ingest().status == "nothing-to-do"
    table = job.folder / "lake" / NAME / "first"
    assert DeltaTable(table).to_pyarrow_dataset().count_rows() == 8
    assert spark.read.format("delta").load(str(table)).count() == 8
    assert {path.name for path in job.folder.iterdir() if path.is_dir()} == {"lake", NAME}
    assert [path.name for path in (job.folder / "lake").iterdir()] == [NAME]
    maintained = maintain_job(job.job, MaintenanceRequest(vacuum=timedelta(0), allow_short=True)).tables[0]
    assert (maintained.by, maintained.live_after.files) == ("spark" if by_spark else "delta-rs", 1)
    assert verify(job.job).ok
    assert job.backfill(from_=[f"{topic}:0:0"], to=[f"{topic}:0:4"], mode="replace").counts["records"] == 4
    assert verify(job.job).ok
    assert DeltaTable(table).to_pyarrow_dataset().count_rows() == 8


def test_a_run_into_a_link_to_an_escape_ends_at_once(any_home: Any, records: Any) -> None:
    topic = records.topic(1)
    records.write(topic, 0, 4)
    job = any_home(topic, sink={"path": "./lake/link/first"})
    other = any_home(topic)
    other.ingest()
    (job.folder / "lake").mkdir()
    (job.folder / "lake/a b").symlink_to(other.folder / "lake")
    (job.folder / "lake/a%20b").mkdir()
    (job.folder / "lake/link").symlink_to("a%20b")
    before = DeltaTable(other.folder / "lake/first").version()
    for run in (job.ingest, job.plan):
        with pytest.raises(ConfigurationError, match=r"leads to .*/a%20b/first, which has the escape %20") as caught:
            run()
        assert "rename the folder" in (caught.value.faults[0].remedy or "")
    assert list((job.folder / "lake/a%20b").iterdir()) == []
    assert DeltaTable(other.folder / "lake/first").version() == before


@pytest.mark.parametrize("key", ["ledger", "sink"])
def test_a_job_file_that_names_an_escape_is_refused(any_home: Any, records: Any, key: str) -> None:
    topic = records.topic(1)
    job = any_home(topic, **({"ledger": "./a%20b"} if key == "ledger" else {"sink": {"path": "./a%20b/first"}}))
    with pytest.raises(ConfigurationError, match="has the escape %20 in 'a%20b'"):
        job.ingest()
