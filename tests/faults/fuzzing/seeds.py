"""Inputs that each target begins with: well-formed ones, from which damage is made."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import yaml

import log_files
from control_batches import encode_control_batch
from fuzzing import targets
from kseg.client.protocol.codec import encode
from kseg.client.protocol.registry import API_BY_KEY
from kseg.segment_reader.codecs.registry import BY_NAME, compress
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set, encode_wrapper
from kseg.segment_reader.payload.protobuf.compiler import compile_text

FOUND = Path(__file__).with_name("found")
"""What fuzzing has found, by target: each was a bug once, or reached what nothing else did."""

JOB_FILES = Path(__file__).parents[2] / "etl" / "config" / "data" / "job_files"
ROWS = [Record(b"k%d" % n, b"v" * n, [("h", None), ("ключ", b"x")][: n % 3], 1_700_000_000_000 + n) for n in range(4)]


def of(name: str) -> list[bytes]:
    """The seeds of a target, and what was found."""
    made = _MADE[name]() if name in _MADE else iter(())
    found = (path.read_bytes() for path in sorted((FOUND / name).glob("*")))
    return [b"", b"\0", *made, *found]


def _batches() -> Iterator[bytes]:
    for codec in BY_NAME:
        yield encode_batch(ROWS, base_offset=1, compression=codec)
        yield encode_batch(ROWS, base_offset=1, compression=codec, producer_id=1, transactional=True)
        bare = [row._replace(headers=()) for row in ROWS]
        for magic in (0, 1):
            yield encode_message_set(bare, magic=magic, base_offset=1, compression=codec)
        if codec != "none":
            inner = encode_message_set(bare, magic=1, compression=codec)
            yield encode_wrapper(inner, magic=1, offset=4, compression=codec)
    marker = encode_control_batch(0, base_offset=5, producer_id=1)
    yield encode_batch(ROWS, base_offset=1, producer_id=1, transactional=True) + marker
    yield encode_batch([], base_offset=1, last_offset_delta=3)


def _record_sets() -> Iterator[bytes]:
    for batch in _batches():
        yield b"\0" + batch
        yield b"\1" + batch


def _codecs() -> Iterator[bytes]:
    for codec in BY_NAME.values():
        yield bytes([codec.number]) + compress(codec.number, b"abcd" * 200)


def _responses() -> Iterator[bytes]:
    for place, key in enumerate(sorted(API_BY_KEY)):
        api = API_BY_KEY[key]
        for version in {api.versions.lowest, api.versions.highest}:
            try:
                yield bytes([place, version]) + encode(api.response(), version)
            except (TypeError, ValueError):
                yield bytes([place, version]) + bytes(20)


def _requests() -> Iterator[bytes]:
    for key in sorted(API_BY_KEY):
        api = API_BY_KEY[key]
        for version in {api.versions.lowest, api.versions.highest}:
            yield key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1\0\1a\0" + bytes(30)


def _internal() -> Iterator[bytes]:
    for place in range(len(targets.INTERNAL)):
        for kind in range(18):
            yield bytes([place, 2]) + kind.to_bytes(2, "big") + b"\0\0" + bytes(30)
            yield bytes([place, 10]) + kind.to_bytes(2, "big") + b"\0\3abc\0\1t" + b"\0\3" + bytes(30)
    yield bytes([3, 0]) + b"\1\2\0" + bytes(20)


def _logins() -> Iterator[bytes]:
    yield b"r=nserver,s=QSXCR+Q6sek8bf92,i=4096"
    yield b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="
    yield b"e=unknown-user"
    yield b"org.apache.kafka.common.security.plain.PlainLoginModule required username=\"a\" password='b\\n';"
    yield b"eyJhbGciOiJub25lIn0.eyJleHAiOjE3MDAwMDAwMDB9."


def _registry() -> Iterator[bytes]:
    references = [{"name": "a", "subject": "b", "version": 1}]
    document = {"schema": '"long"', "schemaType": "AVRO", "id": 7, "references": references, "guid": "x"}
    yield json.dumps(document).encode()


def _log_files() -> Iterator[bytes]:
    import tempfile

    kinds = {name: number for number, name in enumerate(targets.FILES)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "topic-0"
        marker = encode_control_batch(0, base_offset=5, producer_id=1)
        batch = encode_batch(ROWS, base_offset=1, producer_id=1, transactional=True)
        log_files.write_partition(path, [[encode_batch(ROWS[:1]), batch, marker]], interval=10)
        for file in sorted(path.iterdir()):
            name = "00000000000000000000.snapshot" if file.suffix == ".snapshot" else file.name
            if name in kinds:
                yield bytes([kinds[name]]) + file.read_bytes()
    for batch in _batches():
        yield bytes([kinds["00000000000000000000.log"]]) + batch
    texts = {
        "leader-epoch-checkpoint": "0\n2\n0 0\n3 17\n",
        "partition.metadata": "version: 0\ntopic_id: GgSvLhc3SLq5wTdpT4oxPQ\n",
        "meta.properties": "version=1\nnode.id=1\ncluster.id=abc\ndirectory.id=GgSvLhc3SLq5wTdpT4oxPQ\n",
        "quorum-state": '{"leaderId":1,"leaderEpoch":3,"votedId":-1,"currentVoters":[{"voterId":1}],"data_version":0}',
        "replication-offset-checkpoint": "0\n1\ntopic 0 17\n",
        "cleaner-offset-checkpoint": "0\n1\ntopic 0 17\n",
    }
    for name, text in texts.items():
        yield bytes([kinds[name]]) + text.encode()


def _manifests() -> Iterator[bytes]:
    index = {"type": "fixed", "originalChunkSize": 100, "originalFileSize": 1000, "transformedChunkSize": 110}
    index["finalTransformedChunkSize"] = 10
    indexes = {name: {"position": 0, "size": 1} for name in ("offset", "timestamp", "producerSnapshot", "leaderEpoch")}
    document = {"version": "1", "chunkIndex": index, "segmentIndexes": indexes, "compression": False}
    yield json.dumps(document).encode()


def _job_files() -> Iterator[bytes]:
    for path in sorted(JOB_FILES.glob("*.yaml")):
        for untrusted in (b"\0", b"\1"):
            yield untrusted + path.read_bytes()
    yield b"\0" + yaml.safe_dump({"version": 1, "name": "a", "kafka": {"ssl.key.password": "${PASSWORD}"}}).encode()


def _avro() -> Iterator[bytes]:
    values: dict[str, Any] = {
        "flat": {
            "i": 1, "l": 2**40, "s": "héllo", "b": b"\0", "f": 1.5, "d": 1e300, "o": "x", "t": 1_700_000_000_000,
            "n": b"\1\2",
        },
        "nested": {
            "a": [{"m": {"k": 7, "n": None, "e": "A"}, "u": "123e4567-e89b-12d3-a456-426614174000"}], "x": b"abc",
            "e": [None, None],
        },
    }  # fmt: skip
    for number, name in enumerate(sorted(targets.SCHEMAS)):
        schema = json.loads(targets.SCHEMAS[name])
        if name == "flat":  # as the bytes and the number that they are
            schema["fields"][7]["type"], schema["fields"][8]["type"] = "long", "bytes"
        written = io.BytesIO()
        fastavro.schemaless_writer(written, fastavro.parse_schema(schema), values[name])
        yield bytes([number]) + written.getvalue()


def _json() -> Iterator[bytes]:
    row = {
        "id": 1, "b": True, "s": "h\u00e9\U0001f600", "bin": "AAEC",
        "f": 1.5, "d": -1e300, "n": 12.34, "day": "2026-01-01", "at": "2026-01-01T00:00:00.5Z",
        "wall": "2026-01-01T00:00:00", "small": -128, "items": [{"sku": "a", "n": 1}], "m": {"k": [1, 2.5, None]},
    }  # fmt: skip
    for number in range(3):
        yield bytes([number]) + json.dumps(row).encode()
        yield bytes([number]) + json.dumps(row, ensure_ascii=False, indent=1).encode()
    yield b'\1{"at": "2026/01/01 12:30", "day": 20000}'
    yield b'\2{"at": 1700000000000, "s": {"a": [1]}, "n": "AQI=", "unknown": {"x": 1}}'


def _protobuf() -> Iterator[bytes]:
    # 1: varint, 2: zigzag, 3: fixed32, 4: double, 5: text, 9: packed, 11: map, 13 and 14: oneof, 15 to 19: messages
    yield bytes.fromhex("0801100118")[:4] + b"\x1d\1\0\0\0" + b"\x21" + bytes(8) + b"\x2a\3abc" + b"\x4a\2\1\2"
    yield b"\x5a\7\x0a\3key\x10\1" + b"\x68\1\x72\1x" + b"\x7a\4\x08\1\x10\2" + b"\x82\1\7\x0a\5\x0a\1a\x12\0"
    yield b"\x8a\1\2\x08\7" + b"\x90\1\1" + b"\x9a\1\7\x08\1\x15\0\0\0\0" + b"\x62\2\x08\1"


def _frames() -> Iterator[bytes]:
    yield b"\0\0\0\0\1\0abc"
    yield b"\2\0\2rest"


def _avro_schemas() -> Iterator[bytes]:
    for text in targets.SCHEMAS.values():
        yield text.encode()
    fields = b'"fields":[{"name":"x","type":["null","a.B"],"default":null}]'
    yield b'["null",{"type":"record","name":"a.B","aliases":["C"],' + fields + b"}]"
    duration = b'{"type":"fixed","name":"D","size":12,"logicalType":"duration"}'
    yield b'{"type":"array","items":{"type":"map","values":' + duration + b"}}"


def _other_schemas() -> Iterator[bytes]:
    referring = {"a": {"$ref": "#/$defs/x"}, "b": {"type": ["null", "integer"]}}
    yield b"\0" + json.dumps({"type": "object", "properties": referring, "$defs": {"x": {"type": "string"}}}).encode()
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    fields = [{"field": "a", "type": "int64", "optional": True}, {"field": "d", **decimal}]
    yield b"\1" + json.dumps({"type": "struct", "fields": fields}).encode()
    yield b"\2struct<a: array<map<string, decimal(10,2)>>, `b c`: timestamp_ntz>"
    yield b"\3" + compile_text(targets.MESSAGE)


_MADE = {
    "record_set": _record_sets, "salvage": _batches, "codec": _codecs, "response": _responses, "request": _requests,
    "internal_record": _internal, "login": _logins, "registry_answer": _registry, "log_file": _log_files,
    "manifest": _manifests, "job_file": _job_files, "avro": _avro, "json_payload": _json, "protobuf": _protobuf,
    "payload_frame": _frames, "avro_schema": _avro_schemas, "other_schema": _other_schemas,
}  # fmt: skip


def mutated(data: bytes, choice: random.Random, others: list[bytes]) -> bytes:
    """One to four changes: bytes set, flipped, cut, doubled, joined with another input's, numbers at their limits."""
    changed = bytearray(data)
    for _ in range(choice.choice([1, 1, 2, 4])):
        at = choice.randrange(len(changed) + 1)
        match choice.randrange(8):
            case 0 if at < len(changed):
                changed[at] ^= 1 << choice.randrange(8)
            case 1 if at < len(changed):
                changed[at] = choice.choice([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF])
            case 2:
                del changed[at : at + choice.choice([1, 2, 4, 16])]
            case 3:
                changed[at:at] = choice.randbytes(choice.choice([1, 4]))
            case 4:
                size = choice.choice([2, 4, 8])
                limit = 2 ** (8 * size - 1)
                number = choice.choice([0, 1, -1, limit - 1, -limit])
                changed[at : at + size] = number.to_bytes(size, "big", signed=True)
            case 5:
                changed[at:at] = changed[at : at + choice.choice([1, 8, 60])]
            case 6:
                other = choice.choice(others)
                start = choice.randrange(len(other) + 1)
                changed[at:] = other[start:]
            case _:
                changed[at:at] = choice.choice([b"\x80" * 4 + b"\x10", b"\xff" * 9 + b"\x01", b"\xff" * 5, b"\0\0\0\0"])
    return bytes(changed)
