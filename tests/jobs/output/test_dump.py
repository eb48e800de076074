"""`kseg dump` as text: what producers chose is escaped."""

from __future__ import annotations

from typing import Any

from kseg.jobs.output.dump import as_text


def test_keys_values_and_keys_of_headers_are_escaped_alike() -> None:
    evil = "h\x1b[5m\n\u202e"
    entry: dict[str, Any] = {"kind": "record", "offset": 1, "headers": [(evil, b"\x1b[7m"), ("plain", b"v")]}
    entry |= {"key": evil.encode(), "value": b"v", "file": "a\x1b.log"}
    line = as_text(entry)
    assert line.isprintable()
    shown = f"0x{evil.encode().hex()}"
    assert f"headers: [{shown}:0x1b5b376d,plain:v]" in line
    assert f"key: {shown}" in line
    assert "file: a\\x1b.log" in line
