"""Paths of tables and the ledger: one absolute spelling for each place, and which place lies within which.

Local paths become absolute and normal (`./lake/../lake/x`, `file:///…`); other stores keep their URL. Nothing here
touches a disk or a network.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from kseg.etl.places import one_scheme

TOPIC_PLACEHOLDER = "{topic}"

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://")
_ONE_TOPIC = r"(?P<topic>[A-Za-z0-9._-]{1,249})"


def scheme_of(path: str) -> str:
    """`file` for local paths, else the URL's scheme in small letters."""
    match = _SCHEME.match(path)
    return match["scheme"].lower() if match else "file"


def normal_path(text: str, folder: Path) -> str:
    """The one spelling of a place: an absolute local path without a trailing slash, or a URL. Raises ValueError."""
    text = text.strip()
    if "\0" in text or not text:
        raise ValueError("is not a path")
    if text.startswith("~"):
        raise ValueError("starts with ~, which only a shell understands")
    scheme = scheme_of(text)
    match = _SCHEME.match(text)
    if match is None and re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", text):
        raise ValueError("has a scheme without ://")
    if match is not None and scheme != "file":
        return _normal_url(text, scheme, match.end())
    if match is not None:
        rest = text[match.end() :]
        if rest.startswith("localhost/"):
            rest = rest.removeprefix("localhost")
        if not rest.startswith("/"):
            raise ValueError("names a host in a file URL")
        text = rest
    return posixpath.normpath(posixpath.join(folder.absolute().as_posix(), text))


def location(text: str, folder: Path) -> str:
    """The location of log files: an absolute local path, or a URL unchanged, since it may have options of the store
    after its path (`s3://bucket/folder?endpoint_override=…`). Raises ValueError."""
    text = text.strip()
    match = _SCHEME.match(text)
    if match is None or scheme_of(text) == "file":
        return normal_path(text, folder)
    if urlsplit(f"//{text[match.end() :].split('/', 1)[0]}").password:
        raise ValueError("has a password in it")
    return text.rstrip("/")


def _normal_url(text: str, scheme: str, start: int) -> str:
    host = text[start:].split("/", 1)[0]
    if urlsplit(f"//{host}").password:
        raise ValueError("has a password in it")
    _, _, path = text[start:].partition("/")
    normal = posixpath.normpath("/" + path).lstrip("/")
    if not host and scheme != "hdfs":
        raise ValueError("names no bucket or host")
    return f"{scheme}://{host}/{normal}".rstrip("/") if normal else f"{scheme}://{host}"


def lies_within(inner: str, outer: str) -> bool:
    """Whether `inner` is `outer` or lies below it; both normal. `{topic}` is a folder like any other, and `s3a://` the
    same store as `s3://`."""
    inner, outer = one_scheme(inner), one_scheme(outer)
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def folders_above(path: str) -> Iterator[str]:
    """What a normal path lies in, the nearest first, without a slash at the end."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def nearest_above(path: str, named: Mapping[str, str]) -> str | None:
    """What is named of the nearest folder that a normal path lies in; None where none is. named: by folder, without a
    slash at the end."""
    return next((named[folder] for folder in folders_above(path.rstrip("/")) if folder in named), None)


def topic_that_leads_to(template: str, place: str) -> str | None:
    """The topic name for which `template` is `place` or an ancestor of it; None if there is none."""
    parts, target = one_scheme(template).split("/"), one_scheme(place).split("/")
    if len(parts) > len(target):
        return None
    expected: str | None = None
    for part, given in zip(parts, target, strict=False):
        if TOPIC_PLACEHOLDER not in part:
            if part != given:
                return None
            continue
        match = re.fullmatch(_ONE_TOPIC.join(re.escape(p) for p in part.split(TOPIC_PLACEHOLDER, 1)), given)
        if match is None or expected not in (None, match["topic"]):
            return None
        expected = match["topic"]
    return expected
