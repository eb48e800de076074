"""Files that commands write where the user says."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from kseg.etl.errors import ConfigurationError
from kseg.jobs.output.files import writing_to


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EPERM])
def test_a_place_without_the_right_to_write_is_bad_configuration(number: int) -> None:
    with pytest.raises(ConfigurationError) as caught, writing_to("--out"):
        raise OSError(number, "Permission denied", "/srv/dist")
    assert str(caught.value) == (
        "--out: cannot write /srv/dist: Permission denied — choose a folder that you may write to"
    )


def test_a_file_in_place_of_a_folder_too(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="choose a folder"), writing_to("-o"):
        (tmp_path / "file/job.yaml").write_text("")


def test_what_another_place_does_not_help_against_passes() -> None:
    with pytest.raises(OSError, match="No space"), writing_to("--out"):
        raise OSError(errno.ENOSPC, "No space left on device", "/srv/dist")
