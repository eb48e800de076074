"""Files that schemas import without a reference, beside google/protobuf/*.proto, which protoc has itself.

Confluent's serializers and its registry know them (`io.confluent.kafka.schemaregistry.protobuf.ProtobufSchema`). Here
are names, numbers and types alone; what the values mean: https://github.com/googleapis/googleapis/tree/master/google/type
and https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/serdes-protobuf.html
"""

from __future__ import annotations

from typing import Final

_EXTENSIONS = {
    "File": "file",
    "Message": "message",
    "Field": "field",
    "Enum": "enum",
    "EnumValue": "enum_value",
}

_CONFLUENT: Final = {
    "meta": 'package confluent; import "google/protobuf/descriptor.proto";'
    "message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3;"
    "repeated Rule rules = 4; } message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }"
    + "".join(f"extend google.protobuf.{of}Options {{ Meta {name}_meta = 1088; }}" for of, name in _EXTENSIONS.items()),
    "type/decimal": "package confluent.type;"
    "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }",
    "type/variant": "package confluent.type; message Variant { bytes metadata = 1; bytes value = 2; }",
}

_DAYS = "MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY"
_MONTHS = "JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER"
_TIME = "int32 hours = {}; int32 minutes = {}; int32 seconds = {}; int32 nanos = {};"
_DATE = "int32 year = 1; int32 month = 2; int32 day = 3;"


def _enum(name: str, prefix: str, symbols: str) -> str:
    listed = " ".join(f"{symbol} = {number};" for number, symbol in enumerate(symbols.split(), 1))
    return f"enum {name} {{ {prefix}_UNSPECIFIED = 0; {listed} }}"


_GOOGLE: Final = {
    "calendar_period": _enum("CalendarPeriod", "CALENDAR_PERIOD", "DAY WEEK FORTNIGHT MONTH QUARTER HALF YEAR"),
    "color": 'import "google/protobuf/wrappers.proto";'
    "message Color { float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }",
    "date": f"message Date {{ {_DATE} }}",
    "datetime": 'import "google/protobuf/duration.proto";'
    f"message DateTime {{ {_DATE} {_TIME.format(4, 5, 6, 7)}"
    "oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; } }"
    "message TimeZone { string id = 1; string version = 2; }",
    "dayofweek": _enum("DayOfWeek", "DAY_OF_WEEK", _DAYS),
    "decimal": "message Decimal { string value = 1; }",
    "expr": "message Expr { string expression = 1; string title = 2; string description = 3; string location = 4; }",
    "fraction": "message Fraction { int64 numerator = 1; int64 denominator = 2; }",
    "interval": 'import "google/protobuf/timestamp.proto"; message Interval {'
    "google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }",
    "latlng": "message LatLng { double latitude = 1; double longitude = 2; }",
    "localized_text": "message LocalizedText { string text = 1; string language_code = 2; }",
    "money": "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }",
    "month": _enum("Month", "MONTH", _MONTHS),
    "phone_number": "message PhoneNumber { oneof kind { string e164_number = 1; ShortCode short_code = 2; }"
    "string extension = 3; message ShortCode { string region_code = 1; string number = 2; } }",
    "postal_address": "message PostalAddress { int32 revision = 1; string region_code = 2; string language_code = 3;"
    "string postal_code = 4; string sorting_code = 5; string administrative_area = 6; string locality = 7;"
    "string sublocality = 8; repeated string address_lines = 9; repeated string recipients = 10;"
    "string organization = 11; }",
    "quaternion": "message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }",
    "timeofday": f"message TimeOfDay {{ {_TIME.format(1, 2, 3, 4)} }}",
}

#: Their texts, by the path that an `import` has.
BUILT_IN: Final = {
    **{f"confluent/{name}.proto": f'syntax = "proto3"; {text}' for name, text in _CONFLUENT.items()},
    **{
        f"google/type/{name}.proto": f'syntax = "proto3"; package google.type; {text}' for name, text in _GOOGLE.items()
    },
}


def is_built_in(path: str) -> bool:
    """Whether protoc finds this file without a reference."""
    return path in BUILT_IN or path.startswith("google/protobuf/")
