"""Frames of other serializers than the job file names, recognised for an error's message.

A frame is never guessed for decoding: bytes of any payload may look like one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from kseg.segment_reader.payload.framing import APICURIO_FRAME, KEY_HEADER, VALUE_HEADER, looks_framed
from kseg.segment_reader.payload.glue import has_glue_frame

_SCHEMAS: Final = {"confluent": "registry", "apicurio": "registry", "glue": "{file: …}"}
"""The `schema:` by which each serializer's schemas can be given."""


def other_frame(payload: bytes | None, headers: pa.ListArray | None, frame: str) -> str:
    """A message's end that names the frame which this payload seems to have, and the job file's key for it; or empty.

    headers: of its record. frame: what the job file says.
    """
    if payload is None:
        return ""
    names = [] if headers is None else [name or "" for name in headers.flatten().field(0).to_pylist()]
    seems = next((other for other in _frames_like(payload, names) if other[0] != frame), None)
    return f"; it {seems[1]}: `frame: {seems[0]}`, with `schema: {_SCHEMAS[seems[0]]}`" if seems else ""


def other_ids(frame: str, ids: str | None) -> str:
    """A message's end that names the job file's key, where a payload's id may be of the other kind; or empty.

    frame, ids: what the job file says.
    """
    if frame != "apicurio":
        return ""
    other = "content" if ids == "global" else "global"
    kept = f"`ids: {ids}` is set" if ids else "`ids` is not set"
    return f"; {kept}, and Apicurio's serializer may have written {other} ids: `ids: {other}`"


def _frames_like(payload: bytes, headers: list[str]) -> Iterator[tuple[str, str]]:
    """The serializers that a record looks like one of, as `frame` names them, and why; the surest first."""
    if has_glue_frame(payload):
        yield "glue", "seems to have the header of AWS Glue's serializer"
    if any(name.startswith("apicurio.") for name in headers):
        yield "apicurio", "has headers of Apicurio's serializer"
    if KEY_HEADER in headers or VALUE_HEADER in headers:
        yield "confluent", "has headers of Confluent's serializer"
    if len(payload) >= APICURIO_FRAME and payload[:5] == bytes(5) and payload[5:9] != bytes(4):
        yield "apicurio", "seems to have Apicurio's frame, an id of 8 bytes"
    if looks_framed(payload):
        what = "an id of 4 bytes" if payload[:1] == b"\0" else "a GUID"
        yield "confluent", f"seems to have Confluent's frame, {what}"
