"""Every parser of bytes that others write, as a function that takes any bytes and fails if something is wrong.

Bytes are either read or refused with the parser's own error: any other exception is a finding, and so is a compiled
decoder that differs from its plain twin, or a message that reads differently when it is written again. The first bytes
of an input choose among a target's variants.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from kseg.client.errors import AuthenticationFailed
from kseg.client.protocol.api import decode_response
from kseg.client.protocol.codec import decode, encode
from kseg.client.protocol.embedded.control_records import decode_control_record
from kseg.client.protocol.embedded.internal_topics import decode_internal
from kseg.client.protocol.errors import DecodeError, UnsupportedVersionError
from kseg.client.protocol.registry import API_BY_KEY, decode_request
from kseg.client.registry.schemas import schema_of
from kseg.client.security.jaas import parse_jaas
from kseg.client.security.mechanism import Challenged
from kseg.client.security.scram import Scram
from kseg.client.security.secret import Secret
from kseg.client.security.tokens import Token
from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError
from kseg.segment_reader.codecs.codec import CodecFault
from kseg.segment_reader.codecs.registry import BY_NUMBER, decompress
from kseg.segment_reader.decode.batch import MAGIC_AT, FrameFault, frames
from kseg.segment_reader.decode.engine import Limits
from kseg.segment_reader.decode.next_offset import next_offset
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.decode.salvage import SalvagingDecoder
from kseg.segment_reader.encode.batches import seal
from kseg.segment_reader.errors import RecordFormatError
from kseg.segment_reader.log.damage.check import check_partition
from kseg.segment_reader.log.errors import LogFileError
from kseg.segment_reader.log.files.dump import Findings, dump
from kseg.segment_reader.log.files.storage import LocalStorage
from kseg.segment_reader.log.layouts.manifest import parse_manifest
from kseg.segment_reader.payload.avro.decoder import avro_decoder
from kseg.segment_reader.payload.avro.schema import parse_schema
from kseg.segment_reader.payload.avro.schema_json import schema_text
from kseg.segment_reader.payload.connect_schema import read_connect_schema
from kseg.segment_reader.payload.ddl import parse_columns, parse_type, type_text
from kseg.segment_reader.payload.decoder import PayloadDecoder, Status
from kseg.segment_reader.payload.errors import PayloadSchemaError
from kseg.segment_reader.payload.framing import frames_of
from kseg.segment_reader.payload.json.decoder import json_decoder
from kseg.segment_reader.payload.json.shape import JsonOptions
from kseg.segment_reader.payload.json_schema import read_json_schema
from kseg.segment_reader.payload.protobuf.compiler import compile_text
from kseg.segment_reader.payload.protobuf.decoder import protobuf_decoder
from kseg.segment_reader.payload.protobuf.descriptors import parse_descriptors
from kseg.segment_reader.payload.protobuf.framing import message_indexes

LIMITS = Limits(max_rows=5, max_bytes=3000, group_bytes=400, max_batch_bytes=1 << 20)

# --- records


def record_set(data: bytes) -> None:
    """Both engines agree on any record set, with its checksums as they are or put right."""
    if not data:
        return
    sealed, data = data[0] & 1, data[1:]
    data = _sealed(data) if sealed else data
    end = _end_of(data)
    committed = "read_committed" if end & 1 else "read_uncommitted"
    found = [_decoded(RangeDecoder, data, end, engine, isolation_level=committed) for engine in ("fast", "reference")]
    assert found[0] == found[1]


def salvage(data: bytes) -> None:
    """The same of what is read behind damage."""
    data = _sealed(data)
    end = _end_of(data)
    found = [
        _decoded(SalvagingDecoder, data, end, engine, isolation_level="read_committed")
        for engine in ("fast", "reference")
    ]
    assert found[0] == found[1]


def _end_of(data: bytes) -> int:
    """Where a reader would go on; some offsets further where the last batch does not say."""
    try:
        return min(next_offset(data, 1), 1 << 62)
    except RecordFormatError:
        return 9


def _decoded(make: Any, data: bytes, end: int, engine: str, **options: Any) -> Any:
    decoder = make("topic", 0, 1, end, engine=engine, limits=LIMITS, **options)
    try:
        batches = [*decoder.feed(data, [(1, 1)]), *decoder.finish()]
    except RecordFormatError as error:
        return type(error), error.address, error.reason, error.offset
    rows = [batch for batch in batches if isinstance(batch, pa.RecordBatch)]
    for batch in rows:
        batch.validate(full=True)
    counts = decoder.counts
    others = [batch for batch in batches if not isinstance(batch, pa.RecordBatch)]
    return [batch.to_pydict() for batch in map(_with_numbers, rows)], others, counts, list(decoder.gaps)


def _with_numbers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Times as numbers: Python has none beyond the year 9999."""
    place = batch.schema.get_field_index("timestamp")
    return batch.set_column(place, "timestamp", batch.column(place).cast(pa.int64()))


def _sealed(data: bytes) -> bytes:
    """With the checksum of each batch set right, so that damage reaches what the checksum guards."""
    changed = bytearray(data)
    with suppress(FrameFault):
        for frame in frames(data):
            stop = frame.position + frame.size
            if data[frame.position + MAGIC_AT] == 2 and stop <= len(data):
                changed[frame.position : stop] = seal(changed[frame.position : stop])
    return bytes(changed)


def codec(data: bytes) -> None:
    """Each codec's decompression, within its limit."""
    if data:
        number = data[0] % (max(BY_NUMBER) + 1)
        with suppress(CodecFault):
            assert len(decompress(number, data[1:], magic=data[0] >> 6, limit=1 << 16)) <= 1 << 16


# --- the protocol


def response(data: bytes) -> None:
    """Every API's answers, in every version; what was read is written and read again."""
    if len(data) < 2:
        return
    keys = sorted(API_BY_KEY)
    api, version = API_BY_KEY[keys[data[0] % len(keys)]], data[1] % 24
    with suppress(DecodeError, UnsupportedVersionError):
        decode_response(api, version, data[2:])
    with suppress(DecodeError, UnsupportedVersionError):
        body = decode(api.response, version, data[2:])
        _same(body, decode(api.response, version, encode(body, version)))


def request(data: bytes) -> None:
    """Requests, as a server or a trace reads them."""
    with suppress(DecodeError, UnsupportedVersionError):
        decode_request(data)


def _same(one: Any, other: Any) -> None:
    assert one == other or repr(one) == repr(other)  # NaN


INTERNAL = (
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
    "__cluster_metadata",
    "__remote_log_metadata",
)


def internal_record(data: bytes) -> None:
    """Records of Kafka's own topics, and control records."""
    if len(data) < 2:
        return
    size = data[1]
    key, value = data[2 : 2 + size], data[2 + size :]
    with suppress(DecodeError, UnsupportedVersionError):
        decode_internal(INTERNAL[data[0] % len(INTERNAL)], key, value if data[0] < 250 else None)
    with suppress(DecodeError, UnsupportedVersionError):
        decode_control_record(key, value)


def login(data: bytes) -> None:
    """What a server says in a SCRAM login, JAAS texts and tokens."""
    text = data.decode("utf-8", "surrogateescape")
    with suppress(ValueError):
        parse_jaas(text)
    with suppress(Challenged):
        # A nonce of ours that the input may begin with, and few rounds.
        answering = Scram("SCRAM-SHA-256", "user", Secret("password"), nonce="n")
        answering.respond(data.replace(b"i=1", b"i=4096").replace(b"i=40964096", b"i=4096"))
        answering.respond(data)
    with suppress(AuthenticationFailed):
        Token.of(text)


def registry_answer(data: bytes) -> None:
    """A registry's JSON of a schema."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(document, dict):
        with suppress(ValueError):
            assert schema_of(document).hash


# --- files

FILES = (
    "00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex",
    "00000000000000000000.txnindex", "00000000000000000000.snapshot", "leader-epoch-checkpoint", "partition.metadata",
    "meta.properties", "quorum-state", "replication-offset-checkpoint", "cleaner-offset-checkpoint",
    "00000000000000000009-0000000001.checkpoint",
)  # fmt: skip


def log_file(data: bytes) -> None:
    """Each file of a log directory, alone and as a partition's whole folder."""
    if not data:
        return
    name, data = FILES[data[0] % len(FILES)], data[1:]
    data = _sealed(data) if name.endswith((".log", ".checkpoint")) else data
    folder = _folder() / "topic-0"
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(data)
    try:
        storage = LocalStorage()
        findings = Findings()
        try:
            for entry in dump(storage, str(path), findings, deep=True):
                repr(entry)
        except LogFileError as error:
            repr(error)
        with suppress(LogFileError):
            check_partition(storage, str(folder), "topic", 0, deep=True)
    finally:
        path.unlink()


def manifest(data: bytes) -> None:
    """The manifest of a segment in tiered storage."""
    with suppress(LogFileError):
        parse_manifest(data, "manifest")


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="kseg-fuzz-"))


# --- job files


def job_file(data: bytes) -> None:
    """Any text as a job file; as one that is not trusted, too."""
    if not data:
        return
    untrusted, data = data[0] & 1, data[1:]
    path = _folder() / f"job-{os.getpid()}.yaml"
    path.write_bytes(data)
    environment = {"HOME": "/home/somebody", "NAME": "value", "PASSWORD": "hunter2-of-the-job"}
    if untrusted:
        environment |= {"KSEG_UNTRUSTED_JOBS": "1", "KSEG_UNTRUSTED_ROOT": str(_folder())}
    try:
        job = load_job(path, env=environment)
    except ConfigurationError as error:
        shown = str(error) + json.dumps(error.to_json())
    else:
        shown = repr(job) + json.dumps(job.pinned())
    assert "hunter2" not in shown or b"hunter2" in data


# --- payloads

SCHEMAS: Mapping[str, str] = {
    "flat": '{"type":"record","name":"R","fields":[{"name":"i","type":"int"},{"name":"l","type":"long"},'
    '{"name":"s","type":"string"},{"name":"b","type":"bytes"},{"name":"f","type":"float"},{"name":"d","type":"double"},'
    '{"name":"o","type":["null","string"]},{"name":"t","type":{"type":"long","logicalType":"timestamp-millis"}},'
    '{"name":"n","type":{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}}]}',
    "nested": '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"array","items":{"type":"record",'
    '"name":"I","fields":[{"name":"m","type":{"type":"map","values":["null","long",{"type":"enum","name":"E",'
    '"symbols":["A","B"]}]}},{"name":"u","type":{"type":"string","logicalType":"uuid"}}]}}},{"name":"x","type":'
    '{"type":"fixed","name":"F","size":3}},{"name":"e","type":{"type":"array","items":"null"}}]}',
}


@cache
def _avro_decoders(name: str) -> tuple[PayloadDecoder, PayloadDecoder]:
    schema = parse_schema(SCHEMAS[name])
    return avro_decoder(schema, engine="fast"), avro_decoder(schema, engine="reference")


def avro(data: bytes) -> None:
    if data:
        _both(_avro_decoders(sorted(SCHEMAS)[data[0] % len(SCHEMAS)]), data[1:])


COLUMNS = {
    "id": "bigint", "b": "boolean", "s": "string", "bin": "binary", "f": "float", "d": "double", "n": "decimal(12,2)",
    "day": "date", "at": "timestamp", "wall": "timestamp_ntz", "small": "tinyint",
    "items": "array<struct<sku:string,n:int>>", "m": "map<string,array<double>>",
}  # fmt: skip


@cache
def _json_decoders(number: int) -> tuple[PayloadDecoder, PayloadDecoder]:
    options = (
        JsonOptions(),
        JsonOptions(time_zone="Europe/Berlin", formats={"at": "yyyy/MM/dd HH:mm", "day": "epoch_days"}),
        JsonOptions(timestamp_format="epoch_millis", formats={"s": "json", "n": "base64"}, unknown_fields="rescue"),
    )[number]
    declared = parse_columns(COLUMNS)
    return json_decoder(declared, options, engine="fast"), json_decoder(declared, options, engine="reference")


def json_payload(data: bytes) -> None:
    if data:
        _both(_json_decoders(data[0] % 3), data[1:])


MESSAGE = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
message M {
  int32 i = 1; sint64 l = 2; fixed32 x = 3; double d = 4; string s = 5; bytes b = 6; uint64 u = 7; bool y = 8;
  repeated sint32 packed = 9; repeated string texts = 10; map<string, int64> m = 11; I within = 12;
  oneof one { int64 first = 13; string second = 14; }
  google.protobuf.Timestamp at = 15; google.protobuf.Struct document = 16; google.protobuf.Int64Value w = 17;
  enum E { A = 0; B = 1; } E e = 18;
  message I { int64 n = 1; float f = 2; } repeated I items = 19;
}
"""


@cache
def _protobuf_decoders() -> tuple[PayloadDecoder, PayloadDecoder]:
    schema = parse_descriptors(compile_text(MESSAGE))
    message = schema.message_at((0,))
    return protobuf_decoder(message, engine="fast"), protobuf_decoder(message, engine="reference")


def protobuf(data: bytes) -> None:
    _both(_protobuf_decoders(), data)


def _both(decoders: tuple[PayloadDecoder, PayloadDecoder], data: bytes) -> None:
    """Between two payloads that are well or not, both decoders agree on each, and explain what they refuse."""
    payloads = pa.array([b"", data, None, data[:-1]], pa.binary())
    fast, plain = (decoder.decode(payloads) for decoder in decoders)
    assert fast.status.tolist() == plain.status.tolist()
    fast.rows.validate(full=True)
    assert fast.rows.equals(plain.rows) or repr(_values(fast.rows)) == repr(_values(plain.rows))  # NaN
    for status, payload in zip(fast.status.tolist(), payloads.to_pylist(), strict=True):
        if status not in (Status.DECODED, Status.NULL):
            for decoder in decoders:
                assert decoder.explain(payload).status == status


def _values(rows: pa.Array) -> Any:
    try:
        return rows.to_pylist()
    except (OverflowError, ValueError):  # a time that Python has not
        return str(rows)


def payload_frame(data: bytes) -> None:
    """A registry's frame, with Protobuf's message indexes."""
    payloads = pa.array([data, b"\0\0\0\0\1" + data, None], pa.binary())
    found = frames_of(payloads)
    message_indexes(payloads, found.skip)


# --- schemas


def avro_schema(data: bytes) -> None:
    """What parses is written and parsed again, and can be read by itself."""
    try:
        schema = parse_schema(data)
        text = schema_text(schema)
        assert schema_text(parse_schema(text)) == text
        decoders = avro_decoder(schema, engine="fast"), avro_decoder(schema, engine="reference")
    except PayloadSchemaError:
        return
    _both(decoders, data[:20])


def other_schema(data: bytes) -> None:
    """JSON Schemas, Connect's schemas, column types and descriptors."""
    if not data:
        return
    kind, data = data[0] % 4, data[1:]
    text = data.decode("utf-8", "replace")
    with suppress(PayloadSchemaError):
        if kind == 0:
            json_decoder(read_json_schema(text).type, engine="fast")
        elif kind == 1:
            read_connect_schema(text)
        elif kind == 2:
            found = parse_type(text)
            assert parse_type(type_text(found)) == found
        else:
            schema = parse_descriptors(data)
            protobuf_decoder(schema.message_at((0,)))


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one
    for one in (
        record_set, salvage, codec, response, request, internal_record, login, registry_answer, log_file, manifest,
        job_file, avro, json_payload, protobuf, payload_frame, avro_schema, other_schema,
    )
}  # fmt: skip
