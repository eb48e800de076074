"""What the text of a place says, of a table or of the ledger: the one spelling of its store, and whether delta-rs can
have a table there at all.

delta-rs (1.6) makes a URL of a local path, and paths of URLs, and not in the same way each time. It writes to the
folder `/data/a%20b`, and reads what it has listed there from `/data/a b`, which may be another table. Of a URL it
decodes the escape, and what else reads and writes the table does not. A backslash becomes a slash, and brackets, `^`
and `|` end in a panic. No other spelling of such a place helps, and neither does a symbolic link, which it resolves.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_CHARACTER = re.compile(r"[\[\]^|\\\x00-\x1f\x7f]")
_BEHIND_PATH = re.compile(r"[?#]")


class Unusable(NamedTuple):
    """Why a place cannot be a table's or a ledger's: as the end of a sentence about it, and what to do."""

    message: str
    remedy: str


def unusable(place: str) -> Unusable | None:
    """Why delta-rs cannot open a place; None: it can. place: an absolute path, or a URL."""
    if (escape := _ESCAPE.search(place)) is not None:
        folder = _folder_at(place, escape.start())
        return Unusable(
            f"has the escape {escape[0]} in {folder!r}, which delta-rs takes for another folder's name",
            f"rename the folder, for instance to {unquote(folder)!r}, and write its name as it is",
        )
    if (character := _CHARACTER.search(place)) is not None:
        return Unusable(
            f"has {character[0]!r} in {_folder_at(place, character.start())!r}, which delta-rs cannot open",
            "give the folder a name without brackets, backslashes, ^, | and control characters",
        )
    if "://" in place and (behind := _BEHIND_PATH.search(place)) is not None:
        return Unusable(
            f"has {behind[0]!r}, behind which nothing belongs to a URL's path",
            "give the folder a name without ? and #",
        )
    return None


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
