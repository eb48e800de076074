"""Schemas from text and from descriptors: messages, imports, features, and what is refused."""

from __future__ import annotations

import base64
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kseg.segment_reader.payload.errors import InvalidSchema, UnsupportedSchema
from kseg.segment_reader.payload.protobuf.compiler import compile_file, compile_text
from kseg.segment_reader.payload.protobuf.descriptors import parse_base64, parse_descriptors
from kseg.segment_reader.payload.protobuf.schema import FieldKind, MessageType, ProtobufSchema

ORDERS = """
    syntax = "proto3";
    package shop;
    import "common/money.proto";
    import "google/protobuf/timestamp.proto";
    message Order { int64 id = 1; Line first = 2; common.Money price = 3; google.protobuf.Timestamp at = 4;
      message Line { string sku = 1; message Part { int32 n = 1; } } }
    message Refund { int64 id = 1; }
"""
MONEY = """
    syntax = "proto2"; package common;
    message Money { required int64 units = 1; optional Kind kind = 2; enum Kind { A = 3; } }
"""


def schema_of(text: str, **references: str) -> ProtobufSchema:
    return parse_descriptors(compile_text(text, {f"{name}.proto": own for name, own in references.items()}))


def only(text: str) -> MessageType:
    return schema_of(text).message(None)


@pytest.fixture(scope="module")
def orders() -> ProtobufSchema:
    return parse_descriptors(compile_text(ORDERS, {"common/money.proto": MONEY}))


def test_text_with_imports_has_all_messages_and_its_own_on_top(orders: ProtobufSchema) -> None:
    assert [message.name for message in orders.top] == ["shop.Order", "shop.Refund"]
    order = orders.message("shop.Order")
    assert [field.name for field in order.fields] == ["id", "first", "price", "at"]
    price = order.fields[2].message
    assert price is not None
    assert price is orders.message("common.Money")
    assert [(field.required, field.presence) for field in price.fields] == [(True, True), (False, True)]
    assert price.fields[1].enum is not None
    assert price.fields[1].enum.closed


def test_a_message_is_found_by_its_name_with_or_without_package(orders: ProtobufSchema) -> None:
    assert orders.message("Refund") is orders.message("shop.Refund") is orders.message(".shop.Refund")
    with pytest.raises(InvalidSchema, match=r"no one message Bill; the file has shop\.Order, shop\.Refund"):
        orders.message("Bill")
    with pytest.raises(InvalidSchema, match=r"which message is it\? The file has shop\.Order, shop\.Refund"):
        orders.message(None)


def test_message_indexes_count_within_file_and_message(orders: ProtobufSchema) -> None:
    assert orders.message_at((1,)).name == "shop.Refund"
    assert orders.message_at((0, 0, 0)).name == "shop.Order.Line.Part"
    for none in ((2,), (0, 1), (-1,), ()):
        with pytest.raises(InvalidSchema):
            orders.message_at(none)


def test_presence_is_what_each_syntax_says() -> None:
    fields = "int32 a = 1; {} int32 b = 2; oneof o {{ int32 c = 3; }} M d = 4; "
    fields += "repeated int32 e = 5; map<int32, int32> f = 6;"
    three = only(f'syntax = "proto3"; message M {{ {fields.format("optional")} }}')
    assert [field.presence for field in three.fields] == [False, True, True, True, False, False]
    assert [field.oneof for field in three.fields] == [None, None, 0, None, None, None]
    edition = 'edition = "2023"; message M { int32 a = 1; int32 b = 2 [features.field_presence = IMPLICIT]; }'
    assert [field.presence for field in only(edition).fields] == [True, False]
    whole = 'edition = "2023"; option features.field_presence = IMPLICIT; message M { int32 a = 1; M b = 2; }'
    assert [field.presence for field in only(whole).fields] == [False, True]


def test_groups_are_groups_in_proto2_and_by_their_feature() -> None:
    two = only('syntax = "proto2"; message M { optional group G = 1 { optional int32 a = 1; } }')
    assert two.fields[0].kind is FieldKind.GROUP
    edition = 'edition = "2023"; message M { M a = 1 [features.message_encoding = DELIMITED]; M b = 2; }'
    assert [field.kind for field in only(edition).fields] == [FieldKind.GROUP, FieldKind.MESSAGE]


def test_a_file_imports_what_is_above_it(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "shop").mkdir()
    (tmp_path / "common" / "money.proto").write_text(MONEY)
    (tmp_path / "shop" / "orders.proto").write_text(ORDERS)
    schema = parse_descriptors(compile_file(tmp_path / "shop" / "orders.proto", tmp_path))
    assert schema.message("shop.Order").fields[2].message is schema.message("common.Money")
    with pytest.raises(InvalidSchema, match=r"common/money\.proto: File not found"):
        compile_file(tmp_path / "shop" / "orders.proto", tmp_path / "shop")


def test_what_protoc_refuses_says_where_and_why() -> None:
    with pytest.raises(InvalidSchema) as caught:
        compile_text('syntax = "proto3";\nmessage A { Missing m = 1; }')
    assert str(caught.value) == 'schema.proto:2:13: "Missing" is not defined.'


@pytest.mark.parametrize("name", ["/etc/a.proto", "../a.proto", "a.txt", "a\0.proto"])
def test_references_stay_in_their_folder(name: str) -> None:
    with pytest.raises(InvalidSchema, match="no path of an imported file"):
        compile_text('syntax = "proto3";', {name: ""})


def test_without_protoc_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedSchema, match=r"kafka-segment-etl\[protobuf\]"):
        compile_text('syntax = "proto3";')


@pytest.mark.parametrize(
    "data", [b"", b"\x0a", b"\x0a\x05ab", b"text", b"\x0a\x00\x0a\x02\x62\x7f", bytes(50), b"\xff" * 50]
)
def test_bytes_that_are_no_descriptors_are_refused(data: bytes) -> None:
    try:
        schema = parse_descriptors(data)
    except InvalidSchema:
        return
    with pytest.raises(InvalidSchema):
        schema.message(None)


def test_damaged_descriptors_are_a_schema_or_refused() -> None:
    good = compile_text(ORDERS, {"common/money.proto": MONEY})
    for at in range(0, len(good), 3):
        for damaged in (good[:at], good[:at] + b"\xff" + good[at + 1 :], good[:at] + b"\0" + good[at + 1 :]):
            try:
                parse_descriptors(damaged)
            except InvalidSchema:
                continue


def test_descriptors_without_an_import_name_the_type() -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    files = FileDescriptorSet.FromString(compile_text(ORDERS, {"common/money.proto": MONEY}))
    alone = FileDescriptorSet(file=[files.file[-1]]).SerializeToString()
    with pytest.raises(InvalidSchema, match=r"shop\.Order\.price: the type common\.Money is missing"):
        parse_descriptors(alone)


def test_text_that_is_no_base64_is_no_schema() -> None:
    with pytest.raises(InvalidSchema, match=r"give a \.proto file"):
        parse_base64('{"type": "record"}')
    assert parse_base64(base64.b64encode(compile_text('syntax = "proto3"; message A {}')).decode()).message("A")


def _without_a_type(file: Any) -> None:
    file.message_type[0].field[0].type = 11  # a message, and no name of one


def _with_an_enum_of_no_name(file: Any) -> None:
    file.message_type[0].field[0].type = 14


def _with_a_key_that_is_a_message(file: Any) -> None:
    key = file.message_type[0].nested_type[0].field[0]
    key.type, key.type_name = 11, ".A"


def _with_a_key_that_is_a_double(file: Any) -> None:
    file.message_type[0].nested_type[0].field[0].type = 1


def _with_keys_alone(file: Any) -> None:
    del file.message_type[0].nested_type[0].field[1]


def _with_other_numbers(file: Any) -> None:
    file.message_type[0].nested_type[0].field[1].number = 3


def _with_several_values(file: Any) -> None:
    file.message_type[0].nested_type[0].field[1].label = 3


@pytest.mark.parametrize(
    "change",
    [
        _without_a_type, _with_an_enum_of_no_name, _with_a_key_that_is_a_message, _with_a_key_that_is_a_double,
        _with_keys_alone, _with_other_numbers, _with_several_values,
    ],
)  # fmt: skip
def test_descriptors_that_no_compiler_makes_are_refused_with_their_place(change: Callable[[Any], None]) -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    text = 'syntax = "proto3"; message A { int32 i = 1; map<string, A> m = 2; }'
    files = FileDescriptorSet.FromString(compile_text(text))
    change(files.file[0])
    with pytest.raises(InvalidSchema, match=r"^A\."):
        parse_descriptors(files.SerializeToString())
