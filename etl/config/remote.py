"""`spark.remote`: a Spark Connect server, in place of a Spark of our own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Final
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator

from kseg.etl.config.secrets import MASK
from kseg.etl.config.values import fault

EXAMPLE = "as in sc://spark.example.com:15002"
_TOKEN: Final = re.compile(r"(?i)\btoken=([^;\s]+)")


def connect_url(text: str) -> str:
    """A Connect server's address. Raises PydanticCustomError, in our own words."""
    parts = urlsplit(text.strip())
    if parts.scheme != "sc" or not parts.hostname:
        raise fault("is not the address of a Spark Connect server", EXAMPLE)
    return text.strip()


def tokens_in(text: str) -> Iterator[str]:
    """The tokens of a server's address, or of a text with one: as they are written and as they are sent."""
    for match in _TOKEN.finditer(text):
        yield from {match[1], unquote(match[1])}


def without_tokens(text: str) -> str:
    """The text with its tokens masked, before anything has been loaded that knows them."""
    return _TOKEN.sub(lambda match: match[0].removesuffix(match[1]) + MASK, text)


def _without_secrets(text: str) -> str:
    if "token=" in text.lower():
        raise fault(
            "has a token, and this value appears in output", "give the whole address in SPARK_REMOTE, or by --remote"
        )
    return text


ConnectUrl = Annotated[str, AfterValidator(connect_url), AfterValidator(_without_secrets)]
