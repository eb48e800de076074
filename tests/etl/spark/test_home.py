"""Users without a home, as a container's arbitrary uid, have a folder of their own among the temporary files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from kseg.etl.spark.cache import cache_root
from kseg.etl.spark.home import expand_home, home_folder

pytestmark = pytest.mark.usefixtures("homeless")


def test_it_is_for_this_user_alone(tmp_path: Path) -> None:
    assert home_folder() == tmp_path / f"kseg-{os.getuid()}"
    assert home_folder().stat().st_mode & 0o777 == 0o700


def test_the_cache_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KSEG_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_root() == home_folder() / ".cache" / "kseg"
    monkeypatch.setenv("KSEG_CACHE", "~/jars")
    assert cache_root() == home_folder() / "jars"
    monkeypatch.setenv("KSEG_CACHE", str(tmp_path))
    assert cache_root() == tmp_path


def test_a_path_without_a_home_in_it_stays() -> None:
    assert expand_home("/var/~/x") == Path("/var/~/x")
    assert expand_home("~") == home_folder()


@pytest.mark.parametrize("trap", ["shared", "link"])
def test_a_folder_that_another_user_can_write_to_is_not_used(tmp_path: Path, trap: str) -> None:
    """Jars are kept there, which are executed."""
    taken = tmp_path / f"kseg-{os.getuid()}"
    if trap == "link":
        (tmp_path / "elsewhere").mkdir()
        taken.symlink_to(tmp_path / "elsewhere")
    else:
        taken.mkdir()
        taken.chmod(0o777)
    assert home_folder() != taken
    assert home_folder() == home_folder(), "a process has one"
    assert Path(tempfile.gettempdir()) == home_folder().parent
