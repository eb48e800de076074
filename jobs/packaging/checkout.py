"""The import package `kseg` of a checkout: a folder of links, beside the environment's packages.

    site-packages/kafka-segment-etl.checkout/kseg/__init__.py, py.typed   -> jobs/kseg/…
    site-packages/kafka-segment-etl.checkout/kseg/client, etl, …          -> client, etl, …
    site-packages/kafka-segment-etl.checkout.pth                          names that folder for Python's path

`make setup` runs this file as a script, before `kseg` can be imported; so it imports the standard library alone. An
editable install of setuptools resolves the same names by an import hook, which mypy and import-linter cannot follow,
and which costs every Python process of the environment 10 ms at its start: the file that installs the hook is deleted.
The links do not lie in `site-packages/kseg`: pip would write through them into the repository when it installs a wheel
there, and delete the repository's files when it uninstalls one.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

FOLDERS = ("client", "etl", "jobs", "segment_reader")
_NAME = "kafka-segment-etl.checkout"
_HOOKS = "__editable__.kafka_segment_etl-*.pth"
"""By such a file setuptools installs the import hook of an editable install; `make setup` links after it."""


def link(repository: Path, site_packages: Path) -> None:
    """Make the folder of links and its .pth file, or bring them up to date, and delete the import hook's file.

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
    for hook in site_packages.glob(_HOOKS):
        hook.unlink()


if __name__ == "__main__":
    link(Path(__file__).resolve().parents[2], Path(sysconfig.get_paths()["purelib"]))
    sys.exit(0)
