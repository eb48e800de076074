"""Protobuf schemas as decoders need them: messages, fields and enums with all features resolved.

proto2, proto3 and editions differ in defaults of the same features, so a field says what holds for it:
whether its presence is known, whether its enum is closed, whether its messages are groups.

https://protobuf.dev/reference/protobuf/edition-2023-spec/ · https://protobuf.dev/editions/features/
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from kseg.segment_reader.payload.errors import InvalidSchema


class FieldKind(IntEnum):
    """Types of fields, by their numbers in descriptor.proto."""

    DOUBLE = 1
    FLOAT = 2
    INT64 = 3
    UINT64 = 4
    INT32 = 5
    FIXED64 = 6
    FIXED32 = 7
    BOOL = 8
    STRING = 9
    GROUP = 10
    MESSAGE = 11
    BYTES = 12
    UINT32 = 13
    ENUM = 14
    SFIXED32 = 15
    SFIXED64 = 16
    SINT32 = 17
    SINT64 = 18


@dataclass(frozen=True)
class EnumType:
    """symbols: name by number, in the order of the schema; of two names with one number the first.

    closed: a number without a symbol is an unknown field.
    """

    name: str
    symbols: dict[int, str]
    closed: bool


@dataclass(frozen=True, eq=False)
class ProtobufField:
    """One field. message, enum: its type, where it has one (set when all messages are known).

    presence: whether a message can be without it, so that it is null then. oneof: its oneof's index in the message.
    """

    name: str
    number: int
    kind: FieldKind
    repeated: bool
    required: bool
    presence: bool
    oneof: int | None
    message: MessageType | None = None
    enum: EnumType | None = None


@dataclass(eq=False)
class MessageType:
    """name: with its package, `shop.Order.Line`. map_entry: the type of a map's entries, made by the compiler."""

    name: str
    map_entry: bool = False
    fields: list[ProtobufField] = field(default_factory=list)
    nested: list[MessageType] = field(default_factory=list)

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class ProtobufSchema:
    """messages: all by full name. top: the top-level ones of the last file, the schema itself, in their order there."""

    messages: dict[str, MessageType]
    top: tuple[MessageType, ...]

    def message(self, name: str | None) -> MessageType:
        """By full name, or by name without a package where one alone has it; None: the only one of the schema's file.

        Raises InvalidSchema.
        """
        if name is None:
            if len(self.top) == 1:
                return self.top[0]
            raise InvalidSchema("", f"which message is it? The file has {_names(self.top) or 'none'}")
        if (found := self.messages.get(name.removeprefix("."))) is not None:
            return found
        short = [message for message in self.messages.values() if message.name.endswith(f".{name}")]
        if len(short) == 1:
            return short[0]
        raise InvalidSchema("", f"there is no one message {name}; the file has {_names(self.top) or 'none'}")

    def message_at(self, indexes: tuple[int, ...]) -> MessageType:
        """The message that a frame of Confluent's serializers names: its place in the file, then in the message.

        Raises InvalidSchema, also for the entries of a map, which are no payloads.
        """
        among: list[MessageType] = list(self.top)
        found = None
        for index in indexes:
            if not 0 <= index < len(among):
                raise InvalidSchema("", f"message indexes {list(indexes)}: the schema has no such message")
            found = among[index]
            among = found.nested
        if found is None:
            raise InvalidSchema("", "no message index")
        if found.map_entry:
            raise InvalidSchema("", f"message indexes {list(indexes)}: {found.name} are the entries of a map")
        return found


def _names(messages: tuple[MessageType, ...]) -> str:
    return ", ".join(message.name for message in messages)
