"""In which format keys or values are."""

from __future__ import annotations

import json
import struct
import uuid

import pytest

from kseg.jobs.inference.payloads import recognise

UUIDS = [str(uuid.uuid5(uuid.NAMESPACE_DNS, str(number))).encode() for number in range(3)]


@pytest.mark.parametrize(
    ("payloads", "expected"),
    [
        ([None, None], "none"),
        ([b'{"a": 1}', None, b" {} "], "json"),
        ([b"one", b"two words"], "string"),
        ([b"1", b"22"], "string"),
        ([b"[1]", b"[2]"], "string"),
        (UUIDS, "uuid"),
        ([struct.pack(">q", number) for number in (0, 1, -1, 2**40)], "long"),
        ([struct.pack(">d", number) for number in (0.5, 1e6, -3.25)], "double"),
        ([struct.pack(">i", number) for number in (0, 7, -9)], "int"),
        ([struct.pack(">f", number) for number in (0.5, 1e3, -3.25)], "float"),
        ([struct.pack(">h", number) for number in (1, -2)], "short"),
        ([b"\0\0\0\0\7payload", b"\0\0\0\0\x09x"], "framed"),
        ([b"\1" + bytes(range(16)) + b"payload"], "framed"),
        ([b"\xff\xfe", b"abc"], "bytes"),
        ([b"\x1b[31m"], "bytes"),
        ([b'{"a": NaN}'], "string"),
    ],
)
def test_a_format_is_recognised(payloads: list[bytes | None], expected: str) -> None:
    assert recognise(payloads).format == expected


def test_schemas_of_framed_payloads_are_named() -> None:
    assert recognise([b"\0\0\0\0\7abc", b"\0\0\0\0\x09x", b"\0\0\0\0\7"]).schemas == (7, 9)


def test_mixed_formats_are_counted() -> None:
    found = recognise([b'{"a": 1}', b'{"a": 2}', b"text", None])
    assert (found.format, found.count, found.nulls) == ("string", 3, 1)
    assert found.mixed == (("JSON objects", 2), ("UTF-8 text", 1))
    assert recognise([b'{"a": 1}', b"\xff"]).format == "bytes"


@pytest.mark.parametrize("most", [b'{"a": 1}', b"\0\0\0\0\7abcd"])
def test_a_tenth_of_values_may_be_of_another_format(most: bytes) -> None:
    found = recognise([most] * 9 + [b"text", None], set_aside=True)
    assert (found.format, found.count, found.nulls, found.others) == (recognise([most]).format, 10, 1, 1)
    assert found.schemas == recognise([most]).schemas
    assert recognise([most] * 9 + [b"text"]).others == 0
    assert recognise([most] * 8 + [b"text"], set_aside=True).format in ("string", "bytes")


def test_each_payload_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = json.loads
    seen: list[str] = []
    monkeypatch.setattr(json, "loads", lambda text, **kinds: seen.append(text) or loads(text, **kinds))
    found = recognise([b'{"a": 1}', b'{"a": 2}', None])
    assert seen == ['{"a": 1}', '{"a": 2}']
    assert [dict(document) for document in found.documents] == [{"a": "1"}, {"a": "2"}]
