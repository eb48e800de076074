"""The notation of message definitions: one function call per field.

    class FetchPartition(Struct):
        partition: int = int32("0+")
        current_leader_epoch: int = int32("9+", default=-1, ignorable=True)

The first argument is the range of versions in which the field exists ("4+", "0-12", "3"). `nullable` is the range in
which it may be null. `tag` puts it into the tagged section (KIP-482), in all of its versions unless `tagged` says
which. `ignorable`: in a version without the field, a value is silently left out instead of rejected.

For a type checker each function returns a value of the attribute's type, which makes a definition read as a class
with typed attributes that have defaults; what it really returns is a `Field`, which `schema.StructType` collects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar, cast, overload
from uuid import UUID

from kseg.client.protocol.schema import NEVER, Field, Struct, Versions

T = TypeVar("T")
ByteString: TypeAlias = bytes | bytearray | memoryview
ZERO_UUID = UUID(int=0)

#: Kinds of one fixed width: format letter of the `struct` module and size in bytes.
FIXED = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
}


def _field(
    kind: str,
    versions: str,
    default: Any,
    *,
    of: Any = None,
    nullable: str = "none",
    tag: int | None = None,
    tagged: str | None = None,
    flexible: str | None = None,
    ignorable: bool = False,
) -> Any:
    return Field(
        kind=kind,
        versions=Versions.parse(versions),
        default=default,
        of=of,
        nullable=Versions.parse(nullable),
        tag=tag,
        tagged=NEVER if tag is None else Versions.parse(tagged or versions),
        flexible=None if flexible is None else Versions.parse(flexible),
        ignorable=ignorable,
    )


def boolean(versions: str, *, default: bool = False, tag: int | None = None, ignorable: bool = False) -> bool:
    """One byte; anything but zero is true."""
    return cast(bool, _field("bool", versions, default, tag=tag, ignorable=ignorable))


def int8(versions: str, *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> int:
    """One byte, signed."""
    return cast(int, _field("int8", versions, default, tag=tag, ignorable=ignorable))


def int16(versions: str, *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> int:
    """Two bytes, signed, big-endian as all numbers of the protocol."""
    return cast(int, _field("int16", versions, default, tag=tag, ignorable=ignorable))


def uint16(versions: str, *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> int:
    """Two bytes, unsigned."""
    return cast(int, _field("uint16", versions, default, tag=tag, ignorable=ignorable))


def int32(versions: str, *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> int:
    """Four bytes, signed."""
    return cast(int, _field("int32", versions, default, tag=tag, ignorable=ignorable))


def int64(versions: str, *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> int:
    """Eight bytes, signed."""
    return cast(int, _field("int64", versions, default, tag=tag, ignorable=ignorable))


def float64(versions: str, *, default: float = 0.0, tag: int | None = None, ignorable: bool = False) -> float:
    """Eight bytes, IEEE 754."""
    return cast(float, _field("float64", versions, default, tag=tag, ignorable=ignorable))


def uuid(versions: str, *, tag: int | None = None, ignorable: bool = False) -> UUID:
    """Sixteen bytes; all zero if there is none."""
    return cast(UUID, _field("uuid", versions, ZERO_UUID, tag=tag, ignorable=ignorable))


@overload
def string(
    versions: str, *, default: str = "", flexible: str | None = None, tag: int | None = None, ignorable: bool = False
) -> str: ...
@overload
def string(
    versions: str,
    *,
    nullable: str,
    default: str | None = "",
    flexible: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
) -> str | None: ...
def string(versions: str, *, default: str | None = "", **options: Any) -> str | None:
    """UTF-8 of at most 32,767 bytes."""
    return cast("str | None", _field("string", versions, default, **options))


@overload
def byte_string(versions: str, *, tag: int | None = None, ignorable: bool = False) -> bytes: ...
@overload
def byte_string(
    versions: str, *, nullable: str, default: bytes | None = b"", tag: int | None = None, ignorable: bool = False
) -> bytes | None: ...
def byte_string(versions: str, *, default: bytes | None = b"", **options: Any) -> bytes | None:
    """Opaque bytes, copied when read."""
    return cast("bytes | None", _field("bytes", versions, default, **options))


def record_set(
    versions: str, *, nullable: str = "none", tag: int | None = None, ignorable: bool = False
) -> ByteString | None:
    """A record set, opaque here. When read it is a memoryview of the given data: nothing is copied."""
    return cast("ByteString | None", _field("records", versions, None, nullable=nullable, tag=tag, ignorable=ignorable))


S = TypeVar("S", bound=Struct)


@overload
def struct(of: type[S], versions: str, *, tag: int | None = None, ignorable: bool = False) -> S: ...
@overload
def struct(
    of: type[S],
    versions: str,
    *,
    nullable: str,
    default: Literal["empty"] | None = "empty",
    tag: int | None = None,
    ignorable: bool = False,
) -> S | None: ...
def struct(of: type[S], versions: str, *, default: str | None = "empty", **options: Any) -> S | None:
    """One nested struct. The default is one whose fields all have theirs."""
    return cast("S | None", _field("struct", versions, default, of=of, **options))


@overload
def array(of: Callable[..., T], versions: str, *, tag: int | None = None, ignorable: bool = False) -> list[T]: ...
@overload
def array(
    of: Callable[..., T],
    versions: str,
    *,
    nullable: str,
    default: Literal["empty"] | None = "empty",
    tag: int | None = None,
    ignorable: bool = False,
) -> list[T] | None: ...
def array(of: Any, versions: str, *, default: str | None = "empty", **options: Any) -> Any:
    """A list of structs (`of` is their class) or of values (`of` is one of the functions here: `array(int32, …)`)."""
    element = of if isinstance(of, type) else _ELEMENTS[of]
    return _field("array", versions, default, of=element, **options)


_ELEMENTS: dict[Any, str] = {
    boolean: "bool",
    int8: "int8",
    int16: "int16",
    uint16: "uint16",
    int32: "int32",
    int64: "int64",
    float64: "float64",
    uuid: "uuid",
    string: "string",
    byte_string: "bytes",
}
