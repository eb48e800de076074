"""Folders of the jars that Spark needs and pip does not bring: `kseg.jobs.broker.jars` fetches, sessions read them."""

from __future__ import annotations

import os
from pathlib import Path

from kseg.etl.spark.home import expand_home, home_folder

DELTA = "delta-4.4.0"
"""The set of jars with which Spark itself reads and writes Delta tables."""


def cache_root() -> Path:
    """``$KSEG_CACHE``, else ``$XDG_CACHE_HOME/kseg``, else ``~/.cache/kseg``; not created here.

    Raises OSError: the user has no home, and temporary files cannot be written.
    """
    if os.environ.get("KSEG_CACHE"):
        return expand_home(os.environ["KSEG_CACHE"])
    if os.environ.get("XDG_CACHE_HOME"):
        return expand_home(os.environ["XDG_CACHE_HOME"]) / "kseg"
    return home_folder() / ".cache" / "kseg"


def jar_folder(name: str) -> Path:
    """The folder of a set's jars, whether or not it exists yet."""
    return cache_root() / "jars" / name
