"""Files that the log names and that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from kseg.etl.ledger.values import TableCommit
from kseg.etl.tables.delta import missing_files
from kseg.etl.tables.delta.table import DeltaAccess
from kseg.etl.tables.values import UNKNOWN_VERSION


@pytest.mark.parametrize("few", [missing_files.FEW, 0], ids=["one by one", "by a listing"])
def test_they_are_found_by_commit_and_in_the_snapshot(lander, rows, monkeypatch, few):
    monkeypatch.setattr(missing_files, "FEW", few)
    table = lander()
    by_topic = {"partition_by": ["topic"]}
    first = table.land(rows(0, 10), rows(0, 10, topic="a b/c"), **by_topic).commit
    second = table.land(rows(10, 20), run_id="run-2", number=2, **by_topic).commit
    access = DeltaAccess(table.path)
    assert access.missing_files() == access.missing_files(first) == access.missing_files(second) == ()
    gone = [path for path in Path(table.path).rglob("*.parquet") if "topic=a" in str(path)]
    assert len(gone) == 1
    gone[0].unlink()
    expected = (str(gone[0].relative_to(table.path)),)
    assert access.missing_files() == access.missing_files(first) == expected
    assert access.missing_files(second) == ()


def test_what_a_later_version_has_replaced_may_be_gone(lander, rows):
    table = lander()
    commits = [table.land(rows(n, n + 1), run_id=f"run-{n}", number=n + 1).commit for n in range(2)]
    loaded = table.target.load()
    assert loaded is not None
    loaded.optimize.compact()
    loaded.vacuum(0, dry_run=False, enforce_retention_duration=False)
    access = DeltaAccess(table.path)
    assert [access.missing_files(commit) for commit in (None, *commits)] == [(), (), ()]


def test_where_nothing_is_known_nothing_is_missing(lander, rows, tmp_path):
    table = lander()
    landed = table.land(rows(0, 10)).commit
    unknown = TableCommit(UNKNOWN_VERSION, 10, landed.after, files=1)
    assert DeltaAccess(table.path).missing_files(unknown) == ()
    assert DeltaAccess(str(tmp_path / "none")).missing_files() == ()
