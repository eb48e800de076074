"""A place that cannot be a ledger's or a table's folder is named before anything is written there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger.conditional_put import store_of
from kseg.etl.ledger.local_folders import refuse_unwritable
from kseg.etl.ledger.store import Ledger
from kseg.etl.tables.delta.table import DeltaAccess

NOBODY = 65534


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A folder that everybody may read and this process may not write to."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o555)
    us = os.geteuid()
    if us == 0:
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        os.seteuid(us)
        folder.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("url", ["", "file://"])
@pytest.mark.parametrize(
    ("below", "found"), [("", "is a file, not a folder"), ("/in/it", "is below .*, which is a file")]
)
def test_a_file_is_neither_a_ledger_nor_a_table(tmp_path: Path, below: str, found: str, url: str, create: bool) -> None:
    """delta-rs said that the path does not exist."""
    (tmp_path / "a file").write_text("")
    place = f"{url}{tmp_path / 'a file'}{below}"
    with pytest.raises(ConfigurationError, match=f"^ledger: /.*/a file.* {found}.* — give the path of a folder"):
        Ledger.open(place, create=create)
    with pytest.raises(ConfigurationError, match=f"^sink: /.*/a file.* {found}.* — give the path of a folder"):
        DeltaAccess(place)


def test_a_folder_without_the_right_to_write_is_refused_with_nothing_written(theirs: Path) -> None:
    for place in (theirs, theirs / "not/yet"):
        with pytest.raises(ConfigurationError, match=f"this account may not write to {theirs}") as caught:
            refuse_unwritable(str(place), setting="sink", table="t")
        [fault] = caught.value.faults
        assert (fault.path, caught.value.address["table"]) == ("sink", "t")
        assert "may read, list, write and delete in" in str(fault.remedy)
    assert not list(theirs.iterdir())


def test_the_log_of_a_table_must_be_writable_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t/_delta_log").mkdir(parents=True)
    monkeypatch.setattr(os, "access", lambda path, *_, **__: not str(path).endswith("_delta_log"))
    with pytest.raises(ConfigurationError, match=r"may not write to .*/t/_delta_log"):
        refuse_unwritable(str(tmp_path / "t"), setting="sink")


def test_what_is_writable_or_not_local_is_left_alone(tmp_path: Path) -> None:
    for place in (str(tmp_path), str(tmp_path / "a/b"), f"file://{tmp_path}/a%20b", "s3://bucket/t", "/"):
        if place != "/" or os.geteuid() == 0:
            refuse_unwritable(place, setting="sink")
    assert not list(tmp_path.iterdir())


def test_the_store_of_a_folder_that_may_not_be_searched_is_that_above_it(theirs: Path) -> None:
    """PermissionError, without an address or a remedy."""
    us = os.geteuid()
    os.seteuid(os.getuid())
    theirs.chmod(0o444)
    os.seteuid(us)
    assert store_of(str(theirs / "lake/t"))[0] == "file"
