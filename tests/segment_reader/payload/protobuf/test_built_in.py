"""Files that schemas import without a reference."""

from __future__ import annotations

import base64
import importlib
import re
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2

from kseg.segment_reader.payload.protobuf.built_in import BUILT_IN
from kseg.segment_reader.payload.protobuf.compiler import compile_file, compile_text
from kseg.segment_reader.payload.protobuf.descriptors import parse_descriptors
from kseg.segment_reader.payload.protobuf.registered import registered_descriptors

USES = """syntax = "proto3";
package shop;
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/type/date.proto";
option (confluent.file_meta) = { doc: "orders" };
message Order {
  option (confluent.message_meta).tags = "PII";
  int64 id = 1 [(confluent.field_meta) = { doc: "its number", params: [ { key: "k", value: "v" } ] }];
  confluent.type.Decimal amount = 2;
  google.type.Date day = 3;
}
"""


def files(data: bytes) -> list[Any]:
    return list(descriptor_pb2.FileDescriptorSet.FromString(data).file)


def plain(file: Any) -> str:
    """What decoding depends on."""
    file.ClearField("options")
    return re.sub(r'\s*json_name: "[^"]*"', "", str(file))


def test_they_are_as_they_are_published() -> None:
    imports = "".join(f'import "{path}";' for path in BUILT_IN)
    compiled = {file.name: file for file in files(compile_text(f'syntax = "proto3"; {imports}'))}
    modules = {path: path.removesuffix(".proto").replace("/", ".") + "_pb2" for path in BUILT_IN}
    for path, module in modules.items():
        package = "confluent_kafka.schema_registry." if path.startswith("confluent/") else ""
        published = descriptor_pb2.FileDescriptorProto()
        importlib.import_module(package + module).DESCRIPTOR.CopyToProto(published)
        assert plain(compiled[path]) == plain(published)


def test_schemas_that_import_them_are_read(tmp_path: Path) -> None:
    """As text, as a descriptor, and as a file."""
    compiled = registered_descriptors(USES, {})
    descriptor = base64.b64encode(files(compiled)[-1].SerializeToString()).decode()
    (tmp_path / "order.proto").write_text(USES)
    for data in (compiled, registered_descriptors(descriptor, {}), compile_file(tmp_path / "order.proto")):
        order = parse_descriptors(data).message("shop.Order")
        amount, day = (order.fields[at].message for at in (1, 2))
        assert amount is not None
        assert day is not None
        assert [field.name for field in amount.fields] == ["value", "precision", "scale"]
        assert [field.name for field in day.fields] == ["year", "month", "day"]


def test_a_reference_goes_before_the_built_in_file() -> None:
    own = 'syntax = "proto3"; package google.type; message Date { string text = 1; }'
    text = 'syntax = "proto3"; import "google/type/date.proto"; message Order { google.type.Date day = 1; }'
    references = {"google/type/date.proto": own}
    compiled = registered_descriptors(text, references)
    descriptors = [base64.b64encode(file.SerializeToString()).decode() for file in files(compiled)]
    for data in (compiled, registered_descriptors(descriptors[1], {"google/type/date.proto": descriptors[0]})):
        day = parse_descriptors(data).message("Order").fields[0].message
        assert day is not None
        assert [field.name for field in day.fields] == ["text"]
