"""Where jars are kept that Spark needs and pip does not bring: `kseg.jobs.broker.jars` fetches, sessions read them."""

from __future__ import annotations

import os
from pathlib import Path

DELTA = "delta-4.4.0"
"""The set of jars with which Spark itself reads and writes Delta tables."""


def cache_root() -> Path:
    """``$KSEG_CACHE``, else ``$XDG_CACHE_HOME/kseg``, else ``~/.cache/kseg``; not created here."""
    if os.environ.get("KSEG_CACHE"):
        return Path(os.environ["KSEG_CACHE"]).expanduser()
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]).expanduser() / "kseg"
    return Path.home() / ".cache" / "kseg"


def jar_folder(name: str) -> Path:
    """Where a set's jars are kept, whether or not they are there yet."""
    return cache_root() / "jars" / name
