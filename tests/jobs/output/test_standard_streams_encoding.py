"""Characters that a stream's encoding does not have are escapes, which JSON reads as these characters."""

from __future__ import annotations

import io
import json

import pytest

from kseg.jobs.output.standard_streams import escape_unencodable

TEXT = "ä – € 😀 \udcff"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_cannot_be_encoded_is_written_as_json_escapes_it(encoding: str) -> None:
    stream = io.TextIOWrapper(written := io.BytesIO(), encoding=encoding)
    escape_unencodable(stream, None, io.StringIO())
    stream.write(json.dumps(TEXT, ensure_ascii=False))
    stream.flush()
    assert json.loads(written.getvalue().decode(encoding)) == TEXT
