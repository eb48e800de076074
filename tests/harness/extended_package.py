"""The product with something added: a folder in which its files are linked, beside those that a test adds or changes.

Tests run it in processes of their own. It shows which files a new format or a new disposition has to touch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_PARTS = ("client", "etl", "jobs", "segment_reader")


def extended(folder: Path, changes: Mapping[str, str | list[tuple[str, str]]]) -> Path:
    """Makes the package in this folder, and returns the folder.

    changes: by the file's path in the checkout, the text of a new one; or of one that is there places, each with the
    text that is put behind it.
    """
    package = folder / "kseg"
    package.mkdir(parents=True)
    for init in (ROOT / "jobs" / "kseg").iterdir():
        _link(package / init.name, init)
    for part in _PARTS:
        _link(package / part, ROOT / part)
    for path, change in changes.items():
        here = package
        for name in Path(path).parts[:-1]:
            here /= name
            if here.is_symlink():
                _unfold(here)
        made, source = package / path, ROOT / path
        if isinstance(change, str):
            assert not source.exists(), f"{path} is there"
            made.write_text(change)
            continue
        text = source.read_text()
        for place, added in change:
            assert place in text, f"{path} lacks {place!r}"
            text = text.replace(place, place + added, 1)
        made.unlink()
        made.write_text(text)
    return folder


def _link(there: Path, source: Path) -> None:
    if source.name != "__pycache__":
        there.symlink_to(source)


def _unfold(linked: Path) -> None:
    """A folder of links in place of a linked folder."""
    source = linked.resolve()
    linked.unlink()
    linked.mkdir()
    for one in source.iterdir():
        _link(linked / one.name, one)


def environment(package: Path) -> dict[str, str]:
    """Of a process that imports the product from there."""
    return os.environ | {"PYTHONPATH": str(package)}


def kseg(package: Path, folder: Path, *words: str) -> Any:
    """The document that a command prints, which has to succeed. folder: the one that it runs in."""
    done = subprocess.run(
        [sys.executable, "-m", "kseg.jobs.cli", *words, "--json"],
        env=environment(package),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    return json.loads(done.stdout)
