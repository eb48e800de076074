"""What is said of a table whose log has lost an entry or a checkpoint."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest
from deltalake.exceptions import DeltaError

from kseg.etl.errors import Refused, RetriableFailure
from kseg.etl.tables.delta.log import entry_path
from kseg.etl.tables.delta.lost_files import missing_entry, newest_checkpoint
from kseg.etl.tables.parquet.storage import Opened


def three_runs(table: Any, rows: Callable[..., Any], *, checkpoint: bool) -> None:
    """The table's version is 3."""
    for number in range(3):
        table.land(rows(number * 10, number * 10 + 10), run_id=f"run-{number}", number=number + 1)
    if checkpoint:
        table.target.load().create_checkpoint()


@pytest.mark.parametrize(("checkpoint", "gone"), [(True, [3]), (True, [2, 3]), (False, [2]), (False, [1, 2])])
def test_an_entry_of_the_log_that_is_gone_is_named(
    lander: Callable[..., Any], rows: Callable[..., Any], checkpoint: bool, gone: list[int]
) -> None:
    table = lander()
    three_runs(table, rows, checkpoint=checkpoint)
    for version in gone:
        Path(table.path, entry_path(version)).unlink()
    with pytest.raises(Refused, match=entry_path(gone[-1] if checkpoint else gone[0])) as caught:
        table.land(rows(30, 40), run_id="run-9", number=9)
    assert caught.value.code == "table-log-damaged"
    assert caught.value.address == {"table": table.path}
    assert "--accept-table" in str(caught.value.remedy)


def test_a_table_whose_log_was_cleaned_has_lost_no_entry(lander: Callable[..., Any], rows: Callable[..., Any]) -> None:
    table = lander()
    three_runs(table, rows, checkpoint=True)
    store = table.target.location.open()
    for version in range(3):
        Path(table.path, entry_path(version)).unlink()
        assert missing_entry(store) is None
    table.land(rows(30, 40), run_id="run-9", number=9)
    assert missing_entry(store) is None
    assert missing_entry(lander("none").target.location.open()) is None


def test_a_gap_that_is_none_when_it_is_looked_for_may_be_met_again(
    lander: Callable[..., Any], rows: Callable[..., Any]
) -> None:
    """A local folder that is listed while others commit is no moment's picture."""
    table = lander()
    three_runs(table, rows, checkpoint=False)
    gap = DeltaError("Kernel error: Generic delta kernel error: Expected contiguous commit files, but found gap: …")
    assert isinstance(table.target.fault("cannot read the table", gap), RetriableFailure)


def lands(table: Any, rows: Callable[..., Any], versions: int, checkpoint: int | None = None) -> Path:
    """A table of so many landings, version 1 being the first one's, and the folder of its log."""
    for number in range(1, versions + 1):
        table.land(rows(number * 10, number * 10 + 10), run_id=f"run-{number}", number=number)
        if number == checkpoint:
            table.target.load().create_checkpoint()
    return Path(table.path, "_delta_log")


@pytest.mark.parametrize(("gone", "named"), [([3], 3), ([3, 4], 3), ([4], 4)])
def test_an_entry_behind_a_checkpoint_in_the_middle_is_named(
    lander: Callable[..., Any], rows: Callable[..., Any], gone: list[int], named: int
) -> None:
    table = lander()
    lands(table, rows, 5, checkpoint=2)
    for version in gone:
        Path(table.path, entry_path(version)).unlink()
    with pytest.raises(Refused, match=entry_path(named)) as caught:
        table.target.load()
    assert caught.value.code == "table-log-damaged"


@pytest.mark.parametrize("hint", [False, True])
def test_a_checkpoint_that_is_gone_behind_a_cleaned_log_is_named(
    lander: Callable[..., Any], rows: Callable[..., Any], hint: bool
) -> None:
    table = lander()
    log = lands(table, rows, 5, checkpoint=3)
    for version in range(3):
        Path(table.path, entry_path(version)).unlink()
    (log / f"{3:020d}.checkpoint.parquet").unlink()
    if not hint:
        (log / "_last_checkpoint").unlink()
    with pytest.raises(Refused, match=rf"begins with {entry_path(3)}, and the checkpoint .* is missing") as caught:
        table.target.load()
    assert caught.value.code == "table-log-damaged"
    assert caught.value.address == {"table": table.path}
    assert str(caught.value.remedy).startswith("put the checkpoint's files back")


def test_a_checkpoint_that_is_gone_where_all_entries_are_there_leaves_its_name_to_be_deleted(
    lander: Callable[..., Any], rows: Callable[..., Any]
) -> None:
    table = lander()
    log = lands(table, rows, 5, checkpoint=3)
    (log / f"{3:020d}.checkpoint.parquet").unlink()
    with pytest.raises(Refused, match="the checkpoint that _delta_log/_last_checkpoint names is missing") as caught:
        table.target.load()
    assert "delete _delta_log/_last_checkpoint" in str(caught.value.remedy)
    (log / "_last_checkpoint").unlink()
    assert len(table.offsets()) == 50


def test_an_entry_that_a_list_lacks_and_that_is_there_is_not_missing(
    lander: Callable[..., Any], rows: Callable[..., Any]
) -> None:
    table = lander()
    lands(table, rows, 5)
    opened = table.target.location.open()

    class Lists:
        """A folder that is listed while others write to it."""

        def get_file_info(self, asked: Any) -> Any:
            infos = opened.fs.get_file_info(asked)
            if not isinstance(asked, pafs.FileSelector):
                return infos
            return [info for info in infos if not entry_path(3).endswith(info.base_name)]

    store = Opened(Lists(), opened.root, opened.uri)  # type: ignore[arg-type]
    assert missing_entry(store) is None
    Path(table.path, entry_path(4)).unlink()
    assert missing_entry(store) == 4


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_a_v2_checkpoint_holds_the_entries_before_it(
    lander: Callable[..., Any], rows: Callable[..., Any], ending: str
) -> None:
    table = lander()
    log = lands(table, rows, 5)
    (log / f"{4:020d}.checkpoint.{uuid.uuid4()}.{ending}").touch()
    for version in range(4):
        Path(table.path, entry_path(version)).unlink()
    assert missing_entry(table.target.location.open()) is None


def test_a_checkpoint_of_parts_counts_once_all_are_there(lander: Callable[..., Any], rows: Callable[..., Any]) -> None:
    table = lander()
    log = lands(table, rows, 5, checkpoint=1)
    Path(table.path, entry_path(3)).unlink()
    for part, missing in ((1, 3), (2, None)):
        (log / f"{5:020d}.checkpoint.{part:010d}.{2:010d}.parquet").touch()
        assert missing_entry(table.target.location.open()) == missing
    assert newest_checkpoint([f"{7:020d}.checkpoint.parquet.tmp", f"{7:020d}.json"]) == -1
