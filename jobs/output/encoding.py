"""Characters that a stream's encoding does not have, as `–` in latin-1: escapes stand for them, and nothing raises."""

from __future__ import annotations

import codecs
import io
from typing import IO, Any, Final

_ERRORS: Final = "kseg-escape"


def escape_unencodable(*streams: IO[Any] | None) -> None:
    """From now on these streams write what they cannot encode as JSON's escapes (`\\u2013`).

    Python's own `backslashreplace` also writes `\\xfc`, which is no JSON: `kseg peek --json` prints to stdout as it is.
    streams: None for one that the process does not have; one that a test or a notebook has replaced stays as it is.
    """
    codecs.register_error(_ERRORS, _escaped)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    import json

    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end
