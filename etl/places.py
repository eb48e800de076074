"""What the text of a place says, of a table or of the ledger: the one spelling of its store, and whether delta-rs can
have a table there at all.

delta-rs (1.6) makes a URL of a local path, and paths of URLs, and not in the same way each time. It writes to the
folder `/data/a%20b`, and reads what it has listed there from `/data/a b`, which may be another table. A backslash
becomes a slash, and brackets, `^` and `|` end in a panic. No other spelling of such a place helps, and neither does a
symbolic link, which it resolves.

Of an object store's URL it decodes the escapes, as Arrow and obstore do. A job file names such a table without escapes,
as Spark does; a ledger may know one by a name with them, from releases that took it, and it is opened by that name.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_CHARACTER = re.compile(r"[\[\]^|\\\x00-\x1f\x7f]")
_BEHIND_PATH = re.compile(r"[?#]")

WRITE_AS_IT_IS: Final = "write the path as it is, without escapes"
_NO_ESCAPES: Final = "give the folder a name without percent escapes (%XX)"


class Unusable(NamedTuple):
    """Why a place cannot be a table's or a ledger's: as the end of a sentence about it, and what to do."""

    message: str
    remedy: str


def unusable(place: str, *, may_escape: bool = False) -> Unusable | None:
    """Why there can be no table at a place; None: there can.

    place: an absolute path, or a URL. may_escape: whether an object store's URL may have escapes, as one that a ledger
    knows; else only a URL without them is usable.
    """
    start = _path_start(place)
    if (escape := _ESCAPE.search(place, start)) is not None and not (may_escape and start and _decodes(place)):
        folder = _folder_at(place, escape.start())
        if start and not is_file_url(place):
            return Unusable(f"has the escape {escape[0]} in {folder!r}", _url_remedy(place))
        message = f"has the escape {escape[0]} in {folder!r}, which delta-rs takes for another folder's name"
        return Unusable(message, WRITE_AS_IT_IS if start else _folder_remedy(folder))
    if (character := _CHARACTER.search(place, start)) is not None:
        return Unusable(
            f"has {character[0]!r} in {_folder_at(place, character.start())!r}, which delta-rs cannot open",
            "give the folder a name without brackets, backslashes, ^, | and control characters",
        )
    if start and (behind := _BEHIND_PATH.search(place)) is not None:
        return Unusable(
            f"has {behind[0]!r}, behind which nothing belongs to a URL's path",
            "give the folder a name without ? and #",
        )
    return None


def is_file_url(place: str) -> bool:
    return place[:5].lower() == "file:"


def has_escape(place: str) -> bool:
    return _ESCAPE.search(place) is not None


def literal(place: str) -> str:
    """An object store's URL with its escapes decoded, as its keys have it; a path as it is."""
    start = _path_start(place)
    return place[:start] + unquote(place[start:]) if start else place


def _path_start(place: str) -> int:
    """The index at which the path of a URL begins; 0 for a path."""
    _, separator, rest = place.partition("://")
    return len(place) - len(rest) + len(rest.partition("/")[0]) if separator else 0


def _decodes(place: str) -> bool:
    """Whether a URL's escapes are those of an object store's keys, which are UTF-8."""
    return not is_file_url(place) and "\ufffd" not in unquote(place)


def _url_remedy(place: str) -> str:
    decoded = literal(place)
    if "\ufffd" in decoded or unusable(decoded) is not None:
        return _NO_ESCAPES
    return f"write the URL without escapes: {decoded}"


def _folder_remedy(folder: str) -> str:
    decoded = unquote(folder)
    if "/" in decoded or "\ufffd" in decoded or decoded in (".", "..") or unusable(decoded) is not None:
        return _NO_ESCAPES
    return f"rename the folder, for instance to {decoded!r}, and write its name as it is"


def _folder_at(place: str, position: int) -> str:
    """The part of a place between two slashes that has this position."""
    end = place.find("/", position)
    return place[place.rfind("/", 0, position) + 1 : len(place) if end < 0 else end]


def store_scheme(scheme: str) -> str:
    """One spelling for each store: `s3a` and `s3n` are s3."""
    return "s3" if scheme in ("s3a", "s3n") else "gs" if scheme == "gcs" else scheme


def one_scheme(place: str) -> str:
    """A URL with the one spelling of its store's scheme; a path as it is."""
    scheme, separator, rest = place.partition("://")
    return f"{store_scheme(scheme)}://{rest}" if separator else place
