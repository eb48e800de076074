"""The import package `kseg` of a checkout: links from the environment's site-packages to the repository's folders.

    site-packages/kseg/__init__.py, py.typed   -> jobs/kseg/…
    site-packages/kseg/client, etl, …          -> client, etl, …

`make setup` runs this file as a script, before `kseg` can be imported; so it imports the standard library alone. An
editable install of setuptools resolves the same names by an import hook, which mypy and import-linter cannot follow; a
folder comes first on Python's path.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

FOLDERS = ("client", "etl", "jobs", "segment_reader")


def link(repository: Path, site_packages: Path) -> None:
    """Make `site_packages/kseg`, or bring it up to date; whatever else stands in that folder is removed.

    Raises OSError: the folder cannot be written, or holds folders that are no links.
    """
    own = repository / "jobs" / "kseg"
    wanted = {path.name: path for path in own.iterdir() if path.is_file()} | {
        name: repository / name for name in FOLDERS
    }
    package = site_packages / "kseg"
    package.mkdir(exist_ok=True)
    for entry in package.iterdir():
        if entry.name != "__pycache__" and (not entry.is_symlink() or entry.readlink() != wanted.get(entry.name)):
            entry.unlink()
    for name, target in wanted.items():
        if not (package / name).is_symlink():
            (package / name).symlink_to(target)


if __name__ == "__main__":
    link(Path(__file__).resolve().parents[2], Path(sysconfig.get_paths()["purelib"]))
    sys.exit(0)
