"""Where a table lies."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger.conditional_put import StoreChecks
from kseg.etl.tables.delta.commit import DeltaTarget
from kseg.etl.tables.delta.maintenance import DeltaMaintenance
from kseg.etl.tables.delta.table import DeltaAccess
from kseg.etl.tables.file_names import FileOwner

NAMES = ["a b", "a#b", "a?b", "ä漢", "100%", "a+b&c=d", "a{b}", "a*b", "a`b", "a'b\"c", "a:b", "a<b>", "%zz"]


@pytest.mark.parametrize("name", NAMES)
def test_a_table_lies_in_the_folder_that_is_named(
    lander: Callable[..., Any], rows: Callable[..., Any], tmp_path: Path, name: str
) -> None:
    table = lander(f"{name}/table")
    for number in range(3):
        table.land(rows(number * 10, number * 10 + 10), run_id=f"run-{number}", number=number + 1)
    (orphan := tmp_path / name / "table" / "orphan.parquet").write_bytes(b"x")
    os.utime(orphan, (0, 0))
    assert [folder.name for folder in tmp_path.iterdir()] == [name]
    assert table.target.clean_up(FileOwner("run-1", 1)).files == 0
    maintenance = DeltaMaintenance(table.target, StoreChecks())
    assert maintenance.optimize((), dry_run=False, details={}) == 3
    before = datetime.now(UTC) - timedelta(hours=1)
    assert maintenance.vacuum(timedelta(hours=1), before, dry_run=False).files == 1
    assert not orphan.exists()
    assert len(table.offsets()) == 30
    assert DeltaTable(tmp_path / name / "table").to_pyarrow_dataset().count_rows() == 30
    assert pa.table(table.target.read(["offset"], {"partition": 0})).num_rows == 30


@pytest.mark.parametrize("name", ["a%20b", "a[b]", "a^b", "a|b", "a\\b"])
def test_a_place_that_delta_rs_takes_for_another_one_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / name / "t", target_is_directory=True)
    for place in (tmp_path / name / "t", tmp_path / "link"):
        for way in (DeltaAccess, DeltaTarget):
            with pytest.raises(ConfigurationError, match="delta-rs") as caught:
                way(str(place))
            assert caught.value.faults[0].remedy
            assert caught.value.address == {"table": str(place)}
    assert not (tmp_path / name).exists()
    assert list((tmp_path / "a b").iterdir()) == []


def test_the_error_says_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a%20b")
    with pytest.raises(ConfigurationError, match=r"sink: leads to .*/a%20b, which has the escape %20"):
        DeltaAccess(str(tmp_path / "link"))


@pytest.mark.parametrize("name", ["a b", "ä漢", "100%", "a{b}", "a<b>"])
@pytest.mark.parametrize("by_environment", [False, True])
def test_a_table_in_a_bucket_has_the_keys_that_are_named(
    memory_s3: Any, lander: Callable[..., Any], rows: Callable[..., Any], name: str, by_environment: bool
) -> None:
    table = lander()
    table.target = DeltaTarget(f"s3://logs/{name}/t", {} if by_environment else memory_s3.options)
    table.land(rows(0, 10))
    assert {key.partition("/t/")[0] for key in memory_s3.objects} == {name}
    state = table.target.state()
    assert (state.rows, table.target.missing_files()) == (10, ())
    assert table.target.state_at(state.version) == state


@pytest.mark.parametrize("by_environment", [False, True])
def test_a_table_that_a_ledger_knows_by_a_url_with_an_escape_is_the_one_without(
    memory_s3: Any, lander: Callable[..., Any], rows: Callable[..., Any], by_environment: bool
) -> None:
    """Earlier releases took such a name, and delta-rs, Arrow and obstore decode it alike."""
    table = lander()
    options = {} if by_environment else memory_s3.options
    table.target = DeltaTarget("s3a://logs/a%20b/%C3%A4/t", options)
    table.land(rows(0, 10))
    assert {key.partition("/t/")[0] for key in memory_s3.objects} == {"a b/ä"}
    state = table.target.state()
    assert (state.rows, table.target.missing_files()) == (10, ())
    assert table.target.state_at(state.version) == state
    same = DeltaAccess("s3://logs/a b/ä/t", options)
    assert same.state() == table.target.state()
    assert same.location.place == table.target.location.place


def test_nothing_of_a_url_is_dropped() -> None:
    with pytest.raises(ConfigurationError, match="'#'"):
        DeltaAccess("s3a://logs/a#b")
