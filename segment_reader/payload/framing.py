"""The frames of registries' serializers: which schema a payload was written with, and where the payload begins.

    byte 0 = 0   4 bytes  id of the schema, big-endian                 then the payload
    byte 0 = 1   16 bytes GUID of the schema                           then the payload
    a header `__key_schema_id` or `__value_schema_id` of one of the two forms, and the payload as it is

Apicurio's own serializers have larger ids, and other headers:

    byte 0 = 0   8 bytes  id of the schema, big-endian                 then the payload
    a header `apicurio.value.globalId` or `apicurio.value.contentId` (`apicurio.key.…`) with the 8 bytes, and the
    payload as it is

Those of version 3 write Confluent's 4 bytes by default. Which of Apicurio's two kinds of ids is before a payload, no
byte of it tells.

AWS Glue's serializers have a header of 18 bytes with the UUID of the schema's version (`payload.glue`).

https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
https://www.apicur.io/registry/docs/apicurio-registry/3.0.x/getting-started/assembly-configuring-kafka-client-serdes.html
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kseg.segment_reader.payload.buffers import byte_buffers, null_mask
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.schema_names import CONTENT_ID, GLOBAL_ID, id_of

KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
FrameForm = Literal["confluent", "apicurio", "glue"]
"""The serializers that wrote the frames."""

IdKind = Literal["content", "global"]
"""Which of its two kinds of ids Apicurio's serializer wrote."""

ID_FRAME: Final = 5
APICURIO_FRAME: Final = 9
GUID_FRAME: Final = 17
GLUE_FRAME: Final = 18
GLUE_VERSION: Final = 3
#: Ids of registries are small. Larger numbers are other data that begins with a zero byte.
_MOST_PLAUSIBLE_ID: Final = 2**24
_PREFIXES: Final[dict[IdKind, str]] = {"content": CONTENT_ID, "global": GLOBAL_ID}
#: A schema as frames name it: its id, or its GUID as text; or its id in Apicurio, as `global/7` or `content/7`.
SchemaKey = int | str


@dataclass(frozen=True)
class HeaderFrames:
    """Frames in headers: rows of the payloads, the headers' values, and how many bytes of each the frame takes."""

    rows: npt.NDArray[np.int64]
    values: pa.BinaryArray
    skip: npt.NDArray[np.int32]


@dataclass(frozen=True)
class Frames:
    """The frames of n payloads.

    schemas: the schemas that are named, ids ascending before GUIDs. which: n indexes into it, int32, -1 where the
    status is not DECODED. skip: where each payload begins, int32, in bytes. status: uint8: DECODED, NULL or BAD_FRAME.
    in_headers: those that are in headers.
    """

    schemas: tuple[SchemaKey, ...]
    which: npt.NDArray[np.int32]
    skip: npt.NDArray[np.int32]
    status: npt.NDArray[np.uint8]
    in_headers: HeaderFrames | None = None


def looks_framed(payload: bytes) -> bool:
    """Whether a payload of unknown format begins with a frame that names a plausible schema."""
    if payload[:1] == b"\1":
        return len(payload) >= GUID_FRAME
    return payload[:1] == b"\0" and len(payload) >= ID_FRAME and 0 < int.from_bytes(payload[1:5]) < _MOST_PLAUSIBLE_ID


def frames_of(payloads: pa.BinaryArray, form: FrameForm = "confluent") -> Frames:
    """The frame before each payload. Of Glue's form, payloads are uncompressed: see `payload.glue.unpacked`."""
    if form == "glue":
        return _glues_frames(payloads)
    size = ID_FRAME if form == "confluent" else APICURIO_FRAME
    offsets, data = byte_buffers(payloads)
    lengths = offsets[1:] - offsets[:-1]
    null = null_mask(payloads)
    starts = offsets[:-1]
    magic = np.full(len(payloads), 255, np.uint8)
    some = ~null & (lengths >= size)
    magic[some] = data[starts[some]]
    by_id = some & (magic == 0)
    by_guid = some & (magic == 1) & (lengths >= GUID_FRAME) & (form == "confluent")
    status = np.full(len(payloads), Status.BAD_FRAME, np.uint8)
    status[by_id | by_guid] = Status.DECODED
    status[null] = Status.NULL
    schemas, which = _named(data, starts + 1, by_id, by_guid, size - 1)
    skip = np.zeros(len(payloads), np.int32)
    skip[by_id] = size
    skip[by_guid] = GUID_FRAME
    return Frames(schemas, which, skip, status)


def _glues_frames(payloads: pa.BinaryArray) -> Frames:
    offsets, data = byte_buffers(payloads)
    null, starts = null_mask(payloads), offsets[:-1]
    by_guid = ~null & (offsets[1:] - starts >= GLUE_FRAME)
    by_guid[by_guid] = (data[starts[by_guid]] == GLUE_VERSION) & (data[starts[by_guid] + 1] == 0)
    status = np.where(by_guid, Status.DECODED, Status.BAD_FRAME).astype(np.uint8)
    status[null] = Status.NULL
    schemas, which = _named(data, starts + 2, np.zeros(len(payloads), np.bool_), by_guid, 0)
    return Frames(schemas, which, np.where(by_guid, GLUE_FRAME, 0).astype(np.int32), status)


def frames_of_records(
    payloads: pa.BinaryArray,
    headers: pa.ListArray | None,
    source: str,
    form: FrameForm = "confluent",
    *,
    global_ids: bool = False,
    ids: IdKind | None = None,
) -> Frames:
    """The frames of records' keys or values (source), in their headers or before the payloads.

    headers: see `frames_in_headers`; None if the records have none. global_ids: those in Apicurio's headers are told
    from other ids. ids: of which kind those before payloads are; then those in Apicurio's headers are told apart, too.
    """
    before = _of_kind(frames_of(payloads, form), ids)
    if headers is None or form == "glue":
        return before
    if form == "confluent":
        return _with_confluents(before, headers, payloads, KEY_HEADER if source == "key" else VALUE_HEADER)
    kinds = {
        f"apicurio.{source}.globalId": GLOBAL_ID if global_ids or ids else "",
        f"apicurio.{source}.contentId": CONTENT_ID if ids else "",
    }
    return _with_headers(before, headers, payloads, tuple(kinds), partial(_bare_ids, kinds))


def _of_kind(frames: Frames, ids: IdKind | None) -> Frames:
    """The same frames, whose ids are of this kind."""
    if ids is None:
        return frames
    prefix = _PREFIXES[ids]
    return replace(frames, schemas=tuple(f"{prefix}{one}" if isinstance(one, int) else one for one in frames.schemas))


def _bare_ids(kinds: dict[str, str], values: pa.BinaryArray, names: pa.Array) -> Frames:
    """Ids of 8 bytes without a byte before them. names: of their headers. kinds: by name, what begins the schema's name
    where its ids are told apart."""
    offsets, data = byte_buffers(values)
    whole = ~null_mask(values) & (offsets[1:] - offsets[:-1] == APICURIO_FRAME - 1)
    status = np.where(whole, Status.DECODED, Status.BAD_FRAME).astype(np.uint8)
    schemas, which = _named(data, offsets[:-1], whole, np.zeros(len(values), np.bool_), APICURIO_FRAME - 1)
    if any(kinds.values()):
        kind = np.asarray(pc.index_in(names, value_set=pa.array(list(kinds), names.type)))
        schemas, which = _told_apart(schemas, which, kind, list(kinds.values()))
    return Frames(schemas, which, np.full(len(values), APICURIO_FRAME - 1, np.int32), status)


def _told_apart(
    schemas: tuple[SchemaKey, ...],
    which: npt.NDArray[np.int32],
    kind: npt.NDArray[np.int32],
    prefixes: Sequence[str],
) -> tuple[tuple[SchemaKey, ...], npt.NDArray[np.int32]]:
    """The same ids, where each row's is of a kind. prefixes: of the kinds; an id of one without is an id alone."""
    count = len(prefixes)
    distinct, inverse = np.unique(np.where(which < 0, -1, count * which + kind), return_inverse=True)
    none = int(len(distinct) > 0 and distinct[0] < 0)
    ids = (divmod(int(code), count) for code in distinct[none:])
    named = tuple(f"{prefixes[of]}{schemas[number]}" if prefixes[of] else schemas[number] for number, of in ids)
    return named, (inverse - none).astype(np.int32)


def without_implausible(frames: Frames, known: Container[SchemaKey]) -> Frames:
    """Apicurio's frames, with BAD_FRAME for ids before payloads that are not known and need more than 4 bytes.

    Where Confluent's serializer wrote 4 bytes of an id, the 8 bytes read here end with the payload's first 4: each
    record would have an id of its own, and the registry would be asked for all of them. An id in a header is what it
    says.
    """
    ids = [id_of(key) for key in frames.schemas]
    unlikely = [n for n, number in enumerate(ids) if number is not None and not 0 <= number < 2**32]
    unlikely = [n for n in unlikely if frames.schemas[n] not in known]
    if not unlikely:
        return frames
    rows = np.isin(frames.which, unlikely)
    if frames.in_headers is not None:
        rows[frames.in_headers.rows] = False
    which = np.where(rows, -1, frames.which).astype(np.int32)
    status = np.where(rows, Status.BAD_FRAME, frames.status).astype(np.uint8)
    return replace(frames, which=which, status=status)


def frames_in_headers(headers: pa.ListArray, payloads: pa.BinaryArray, name: str) -> Frames:
    """The frame in the last header `name` of each record; the frame before the payload where a record has none, or one
    without a value.

    headers: list<struct<key: string, value: binary>>, as records are decoded.
    """
    return _with_confluents(frames_of(payloads), headers, payloads, name)


def _with_confluents(before: Frames, headers: pa.ListArray, payloads: pa.BinaryArray, name: str) -> Frames:
    return _with_headers(before, headers, payloads, (name,), lambda values, _: frames_of(values))


def _with_headers(
    before: Frames,
    headers: pa.ListArray,
    payloads: pa.BinaryArray,
    names: tuple[str, ...],
    frames: Callable[[pa.BinaryArray, pa.Array], Frames],
) -> Frames:
    """The frames in headers of one of these names, over those before the payloads. frames: of the headers' values and
    names."""
    entries = headers.flatten()
    if len(entries) == 0:
        return before
    keys, values = entries.field(0), entries.field(1)
    named = np.flatnonzero(np.asarray(pc.is_in(keys, value_set=pa.array(names, keys.type))))
    if len(named) == 0:
        return before
    rows = np.asarray(pc.list_parent_indices(headers))[named]
    last = np.append(rows[1:] != rows[:-1], True)  # entries are in their records' order
    rows, named = rows[last], named[last]
    there = ~null_mask(values)[named]
    rows, named = rows[there], named[there]
    if len(named) == 0:
        return before
    taken = pc.take(values, pa.array(named)).cast(pa.binary())
    carried = frames(taken, pc.take(keys, pa.array(named)))
    schemas = tuple(sorted({*before.schemas, *carried.schemas}, key=_order))
    place = {schema: index for index, schema in enumerate(schemas)}
    which, skip, status = before.which.copy(), before.skip.copy(), before.status.copy()
    which = _renumbered(which, before.schemas, place)
    which[rows] = _renumbered(carried.which, carried.schemas, place)
    skip[rows] = 0
    # A header that names no schema is as bad as a frame that names none; a record without a payload stays one.
    status[rows] = np.where(carried.status == Status.DECODED, Status.DECODED, Status.BAD_FRAME)
    null = null_mask(payloads)
    status[null] = Status.NULL
    which[status != Status.DECODED] = -1
    return Frames(schemas, which, skip, status, HeaderFrames(rows, taken, carried.skip))


def _named(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    by_id: npt.NDArray[np.bool_],
    by_guid: npt.NDArray[np.bool_],
    id_bytes: int,
) -> tuple[tuple[SchemaKey, ...], npt.NDArray[np.int32]]:
    """The schemas, and which of them each payload names. starts: where the ids begin; id_bytes: 4 or 8."""
    which = np.full(len(starts), -1, np.int32)
    schemas: list[SchemaKey] = []
    if by_id.any():
        at = starts[by_id, None] + np.arange(id_bytes)
        ids = np.ascontiguousarray(data[at]).view(f">i{id_bytes}").ravel()
        distinct, inverse = np.unique(ids, return_inverse=True)
        schemas += [int(one) for one in distinct]
        which[by_id] = inverse
    if by_guid.any():
        at = starts[by_guid, None] + np.arange(GUID_FRAME - 1)
        guids = np.ascontiguousarray(data[at]).view([("high", ">u8"), ("low", ">u8")]).ravel()
        distinct, inverse = np.unique(guids, return_inverse=True)
        which[by_guid] = inverse + len(schemas)
        schemas += [str(uuid.UUID(bytes=one.tobytes())) for one in distinct]
    return tuple(schemas), which


def _renumbered(
    which: npt.NDArray[np.int32], schemas: tuple[SchemaKey, ...], place: dict[SchemaKey, int]
) -> npt.NDArray[np.int32]:
    numbers = np.array([*(place[schema] for schema in schemas), -1], np.int32)
    return numbers[which]  # -1 is the last


def _order(schema: SchemaKey) -> tuple[bool, int, str]:
    return (True, 0, schema) if isinstance(schema, str) else (False, schema, "")
