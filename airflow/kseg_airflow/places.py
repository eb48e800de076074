"""The one spelling of a table's place, as the reports of runs have it. `kseg` has the same in kseg.etl.config.paths."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def is_url(text: str) -> bool:
    """Whether a place is written as a URL; `file:` URLs are some."""
    return _URL.match(text.strip()) is not None


def normal_place(text: str, folder: Path) -> str:
    """An absolute local path, or a URL, without a slash at the end.

    folder: where relative paths begin. Raises ValueError for what `kseg` refuses as a place.
    """
    text = text.strip()
    if not text or "\0" in text:
        raise ValueError("is not a path")
    if text.startswith("~"):
        raise ValueError("starts with ~, which only a shell understands")
    match = _URL.match(text)
    if match is None:
        if _SCHEME.match(text):
            raise ValueError("has a scheme without ://")
        return _local(text, folder)
    scheme, rest = match[1].lower(), text[match.end() :]
    if scheme == "file":
        path = rest.removeprefix("localhost") if rest.startswith("localhost/") else rest
        if not path.startswith("/"):
            raise ValueError("names a host in a file URL")
        return _local(path, folder)
    host, _, path = rest.partition("/")
    if not host and scheme != "hdfs":
        raise ValueError("names no bucket or host")
    if urlsplit(f"//{host}").password:
        raise ValueError("has a password in it")
    return f"{scheme}://{host}/{posixpath.normpath('/' + path).lstrip('/')}".rstrip("/")


def _local(path: str, folder: Path) -> str:
    return posixpath.normpath(posixpath.join(folder.absolute().as_posix(), path))
