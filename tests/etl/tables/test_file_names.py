"""Whose a data file is, is read from its name, whichever release wrote it."""

from __future__ import annotations

import re

import pytest

from kseg.etl.tables.file_names import FileOwner, file_name, owner_of_file

OF_0_1 = re.compile(r"part-\d{5}-(?P<run>.+)-(?P<task>\d+)-(?P<attempt>\d+)-[0-9a-f]{32}\.parquet")
"""By what releases up to 0.1 tell a run's files."""
RUN = "5f3a1c9e2b-17-9a3e11d0"


@pytest.mark.parametrize("owner", [FileOwner(RUN, 17), FileOwner(RUN, 0), FileOwner("0" * 32, None)])
@pytest.mark.parametrize("folder", ["", "day=2026-01-01/", "a/b-1-2/"])
def test_a_name_tells_its_owner(owner: FileOwner, folder: str) -> None:
    assert owner_of_file(folder + file_name(owner, 3, 4, 5)) == owner


def test_two_names_are_never_the_same() -> None:
    assert file_name(FileOwner(RUN, 1), 0, 0, 0) != file_name(FileOwner(RUN, 1), 0, 0, 0)


def test_earlier_releases_take_a_name_with_a_version_for_nobodys() -> None:
    """They would delete the files of a repeated backfill as those of its abandoned run."""
    assert OF_0_1.fullmatch(file_name(FileOwner(RUN, None), 0, 0, 0))
    assert not OF_0_1.fullmatch(file_name(FileOwner(RUN, 17), 0, 0, 0))


@pytest.mark.parametrize(
    "name",
    [
        "part-00000-7d0c1f9e-21e5-4b57-a4cf-0e4b8a2c9a51.parquet",
        "part-00000-7d0c1f9e-21e5-4b57-a4cf-0e4b8a2c9a51-c000.snappy.parquet",
        f"part-00000-{RUN}-1-2-{'a' * 31}.parquet",
        f"part-00000-{RUN}-1-2-{'a' * 32}-v.parquet",
        "orders.csv",
    ],
)
def test_other_names_have_no_owner(name: str) -> None:
    assert owner_of_file(name) is None


@pytest.mark.parametrize("run_id", ["", "a/b", "-1", "a b"])
def test_a_run_id_that_fits_no_name_is_an_error(run_id: str) -> None:
    with pytest.raises(ValueError, match="not a run id"):
        file_name(FileOwner(run_id, 1), 0, 0, 0)
