"""The folder of links by which a checkout's environment finds `kseg`."""

from __future__ import annotations

import site
import subprocess
import sys
from pathlib import Path

import pytest

from kseg.jobs.packaging.checkout import link

ROOT = Path(__file__).parents[3]
PARTS = {"client", "etl", "jobs", "segment_reader"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with the four folders, each a package that knows where it is."""
    for part in [*PARTS, "jobs/kseg"]:
        (tmp_path / "here" / part).mkdir(parents=True)
        (tmp_path / "here" / part / "__init__.py").write_text("")
    return tmp_path / "here"


def imported(site_packages: Path) -> list[Path]:
    """The folders that `kseg` and its parts are imported from, with `site_packages` as the environment's."""
    program = f"import site; site.addsitedir({str(site_packages)!r}); import kseg, os\n" + "".join(
        f"import kseg.{part}; print(os.path.realpath(kseg.{part}.__path__[0]))\n" for part in sorted(PARTS)
    )
    told = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    return [Path(line) for line in told.stdout.splitlines()]


def test_python_follows_the_links_and_bare_names_are_not_importable(checkout: Path, tmp_path: Path) -> None:
    link(checkout, tmp_path)
    link(checkout, tmp_path)
    assert imported(tmp_path) == [checkout / part for part in sorted(PARTS)]
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir() and path != checkout)
    assert [path.name for path in folder.iterdir()] == ["kseg"]
    assert not folder.name.isidentifier()


def test_no_import_hook_of_an_editable_install_runs_in_every_process(checkout: Path, tmp_path: Path) -> None:
    ours, another = (tmp_path / f"__editable__.{name}-0.1.0.pth" for name in ("kafka_segment_etl", "another"))
    for hook in (ours, another):
        hook.write_text("import sys\n")
    link(checkout, tmp_path)
    assert not ours.exists()
    assert another.exists()


def test_a_checkout_that_moved_is_found_again(checkout: Path, tmp_path: Path) -> None:
    link(checkout, tmp_path)
    moved = checkout.rename(tmp_path / "there")
    (moved / "jobs" / "kseg" / "py.typed").write_text("")
    link(moved, tmp_path)
    assert imported(tmp_path) == [moved / part for part in sorted(PARTS)]


def test_an_installed_wheel_lies_beside_the_links_and_comes_first(checkout: Path, tmp_path: Path) -> None:
    """pip writes to `site-packages/kseg`, and deletes there: never in the repository."""
    link(checkout, tmp_path)
    assert not (tmp_path / "kseg").exists()
    for part in ["", *PARTS]:
        (tmp_path / "kseg" / part).mkdir()
        (tmp_path / "kseg" / part / "__init__.py").write_text("")
    assert imported(tmp_path) == [tmp_path / "kseg" / part for part in sorted(PARTS)]


def test_tools_see_the_links_of_this_environment() -> None:
    """mypy, import-linter and pytest look along Python's path: an import hook alone would show them nothing."""
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("kseg", sys.path)
    assert spec is not None
    assert spec.origin is not None
    (folder,) = spec.submodule_search_locations or []
    installed = Path(folder).parent in map(Path, site.getsitepackages())
    assert installed or {path.resolve() for path in Path(folder).iterdir() if path.name in PARTS} == {
        ROOT / part for part in PARTS
    }
