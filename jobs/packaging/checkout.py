"""The import package `kseg` of a checkout: a folder of links, beside the environment's packages.

    site-packages/kafka-segment-etl.checkout/kseg/__init__.py, py.typed   -> jobs/kseg/…
    site-packages/kafka-segment-etl.checkout/kseg/client, etl, …          -> client, etl, …
    site-packages/kafka-segment-etl.checkout.pth                          names that folder for Python's path

`make setup` runs this file as a script, before `kseg` can be imported; so it imports the standard library alone. An
editable install of setuptools resolves the same names by an import hook, which mypy and import-linter cannot follow; a
folder on Python's path comes before that hook. The links do not lie in `site-packages/kseg`: pip would write through
them into the repository when it installs a wheel there, and delete the repository's files when it uninstalls one.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

FOLDERS = ("client", "etl", "jobs", "segment_reader")
_NAME = "kafka-segment-etl.checkout"


def link(repository: Path, site_packages: Path) -> None:
    """Make the folder of links and its .pth file, or bring them up to date.

    Raises OSError: they cannot be written, or the folder has something else than links in it.
    """
    own = repository / "jobs" / "kseg"
    wanted = {path.name: path for path in own.iterdir() if path.is_file()} | {
        name: repository / name for name in FOLDERS
    }
    package = site_packages / _NAME / "kseg"
    package.mkdir(parents=True, exist_ok=True)
    for entry in package.iterdir():
        if entry.name != "__pycache__" and (not entry.is_symlink() or entry.readlink() != wanted.get(entry.name)):
            entry.unlink()
    for name, target in wanted.items():
        if not (package / name).is_symlink():
            (package / name).symlink_to(target)
    (site_packages / f"{_NAME}.pth").write_text(f"{_NAME}\n")


if __name__ == "__main__":
    link(Path(__file__).resolve().parents[2], Path(sysconfig.get_paths()["purelib"]))
    sys.exit(0)
