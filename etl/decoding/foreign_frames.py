"""Frames of other serializers than the job file names, recognised for an error's message.

A frame is never guessed for decoding: bytes of any payload may look like one.
"""

from __future__ import annotations

import pyarrow as pa

from kseg.segment_reader.payload.framing import APICURIO_FRAME
from kseg.segment_reader.payload.glue import has_glue_frame


def other_frame(payload: bytes | None, headers: pa.ListArray | None, frame: str) -> str:
    """A message's end that names the frame which this payload seems to have, and the job file's key for it; or empty.

    headers: of its record. frame: what the job file says.
    """
    if payload is None:
        return ""
    if frame != "glue" and has_glue_frame(payload):
        return "; it seems to have the header of AWS Glue's serializer: `frame: glue`, with `schema: {file: …}`"
    if frame == "apicurio":
        return ""
    names = [] if headers is None else headers.flatten().field(0).to_pylist()
    if any(name is not None and name.startswith("apicurio.") for name in names):
        return "; it has headers of Apicurio's serializer: `frame: apicurio`, with `schema: registry`"
    if len(payload) >= APICURIO_FRAME and payload[:5] == bytes(5) and payload[5:9] != bytes(4):
        return "; it seems to have Apicurio's frame, an id of 8 bytes: `frame: apicurio`, with `schema: registry`"
    return ""
