"""Protobuf fields as Arrow types, and the table in docs/reference/types.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kseg.segment_reader.payload.errors import UnsupportedSchema
from kseg.segment_reader.payload.protobuf.columns import columns_of
from kseg.segment_reader.payload.protobuf.compiler import compile_text
from kseg.segment_reader.payload.protobuf.descriptors import parse_descriptors

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "types.md").read_text()
IMPORTS = "".join(
    f'import "google/protobuf/{name}.proto";' for name in ("any", "duration", "struct", "timestamp", "wrappers")
)
TYPES = "enum Kind { A = 0; } message Line { string sku = 1; } message Nothing {}"


def test_the_page_says_the_types_that_there_are() -> None:
    """Rows of the page's table whose first cell is a field, and whose second is the Arrow type."""
    section = PAGE.partition("\n## Protobuf\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+ = 1)` \| `([^`]+)` \|", section, re.MULTILINE)
    assert len(rows) > 17
    messages = "".join(f"message M{n} {{ {field}; }}" for n, (field, _) in enumerate(rows))
    schema = parse_descriptors(compile_text(f'syntax = "proto3"; {IMPORTS} {TYPES} {messages}'))
    found = [str(columns_of(schema.message(f"M{n}")).type.field(0).type) for n in range(len(rows))]
    assert list(zip((field for field, _ in rows), found, strict=True)) == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("message Empty {}", "Empty: a message without fields has no columns"),
    ],
)
def test_what_has_no_columns_is_refused_with_its_place(text: str, message: str) -> None:
    schema = parse_descriptors(compile_text(f'syntax = "proto3"; {text}'))
    with pytest.raises(UnsupportedSchema, match=message):
        columns_of(schema.top[0])


def test_more_columns_than_memory_holds_are_refused() -> None:
    messages = "".join(f"message M{n} {{ M{n + 1} a = 1; M{n + 1} b = 2; }}" for n in range(30))
    schema = parse_descriptors(compile_text(f'syntax = "proto3"; {messages} message M30 {{ int32 a = 1; }}'))
    with pytest.raises(UnsupportedSchema, match="more than 100,000 columns"):
        columns_of(schema.message("M0"))
