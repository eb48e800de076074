"""Records of Kafka's own topics as JSON documents, in the form of Kafka's dump tool (4.3.1).

    __consumer_offsets, __transaction_state,   key    {"type": "1", "data": {…}}
    __share_group_state                        value  {"version": "3", "data": {…}}
    __cluster_metadata, __remote_log_metadata  value  {"type": "TOPIC_RECORD", "version": 0, "data": {…}}

There are two differences from Kafka's tool. Secrets are hidden unless they are requested. And an unknown type or
version is reported as unknown; showing its bytes is left to the caller.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from kseg.client.protocol.embedded.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from kseg.client.protocol.embedded.control_records import ControlRecordType, decode_control_record
from kseg.client.protocol.embedded.framing import TypedMessage, version_of
from kseg.client.protocol.embedded.group_records import GroupMetadataValue
from kseg.client.protocol.embedded.internal_topics import (
    CLUSTER_METADATA,
    REMOTE_LOG_METADATA,
    decode_internal,
    known_type,
    log_head,
)
from kseg.client.protocol.embedded.metadata_records import ConfigRecord, UserScramCredentialRecord
from kseg.client.protocol.errors import ProtocolError
from kseg.client.protocol.fields import ByteString
from kseg.client.protocol.json_form import to_json
from kseg.client.protocol.schema import Message

Document = dict[str, Any]

HIDDEN: Final = "(hidden)"
#: Configurations whose values are secrets (Kafka's type PASSWORD), by the words in their names.
_SENSITIVE: Final = re.compile(
    r"password|passphrase|secret|jaas\.config|(keystore|private|master)\.key$|certificate\.chain|"
    r"truststore\.certificates",
    re.IGNORECASE,
)
_LOGS: Final = (CLUSTER_METADATA, REMOTE_LOG_METADATA)


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A decoded record. `type` is the value's message class without "Value" or "Record", None if it is unknown.

    `key` or `value` is None if it is null in the record, or could not be decoded: then `unknown` says why.
    `hidden`: the value has a secret, which was left out.
    """

    type: str | None
    key: Document | None
    value: Document | None
    unknown: str | None = None
    hidden: bool = False


def is_sensitive(setting: str) -> bool:
    """Whether a setting's value is a secret, by its name."""
    return _SENSITIVE.search(setting) is not None


def decode_to_json(
    topic: str, key: ByteString | None, value: ByteString | None, *, secrets: bool = False
) -> DecodedRecord:
    """A record of an internal topic. Raises `DecodeError` for damage, `KeyError` for a topic that is not internal."""
    record = decode_internal(topic, key, value)
    if topic in _LOGS:
        if not isinstance(record.value, TypedMessage):
            return DecodedRecord(None, None, None, None if value is None else _unknown_in_log(topic, value))
        name = type(record.value).__name__
        data = _data(record.value, record.value_version)
        hidden = not secrets and _hide(record.value, data)
        document = {"type": _java_name(name), "version": record.value_version, "data": data}
        return DecodedRecord(name.removesuffix("Record"), None, document, hidden=hidden)
    if not isinstance(record.key, TypedMessage):
        unknown = "the record has no key" if key is None else f"key type {version_of(key)} is not known"
        return DecodedRecord(None, None, None, unknown)
    name = type(record.key).__name__.removesuffix("Key")
    known_key = {"type": str(record.key.KEY), "data": to_json(record.key, 0, names=False)}
    if isinstance(record.value, bytes):
        return DecodedRecord(name, known_key, None, f"version {version_of(record.value)} of {name}Value is not known")
    if record.value is None:
        return DecodedRecord(name, known_key, None)
    data = _data(record.value, record.value_version)
    return DecodedRecord(name, known_key, {"version": str(record.value_version), "data": data})


def decode_control_to_json(key: ByteString | None, value: ByteString | None) -> DecodedRecord:
    """A control record: `type` is a `ControlRecordType`'s name, the value its message. Raises `DecodeError`."""
    kind, message = decode_control_record(key or b"", value or b"")
    if isinstance(message, bytes):
        known = kind in tuple(ControlRecordType)
        unknown = (
            f"this version of {ControlRecordType(kind).name} is not known" if known else f"type {kind} is not known"
        )
        return DecodedRecord(None, None, None, unknown)
    version: int = getattr(message, "version", 0)
    return DecodedRecord(ControlRecordType(kind).name, None, to_json(message, version, names=False))


def _data(message: Message, version: int) -> Document:
    document = to_json(message, version, names=False)
    if isinstance(message, GroupMetadataValue) and message.protocol_type == PROTOCOL_TYPE:
        for member, shown in zip(message.members, document["members"], strict=True):
            shown["subscription"] = _opened(decode_subscription, member.subscription, shown["subscription"])
            shown["assignment"] = _opened(decode_assignment, member.assignment, shown["assignment"])
    return document


def _hide(message: Message, document: Document) -> bool:
    """Replace secrets by `HIDDEN`; returns whether there were any."""
    if isinstance(message, UserScramCredentialRecord):
        document |= dict.fromkeys(("salt", "storedKey", "serverKey"), HIDDEN)
        return True
    if isinstance(message, ConfigRecord) and message.value is not None and is_sensitive(message.name):
        document["value"] = HIDDEN
        return True
    return False


def _opened(decode: Any, data: bytes, otherwise: Any) -> Any:
    """A subscription or assignment as an object; `otherwise` if a member used another format."""
    try:
        message = decode(data)
        version = min(version_of(data), message.VERSIONS.highest) if data else message.VERSIONS.highest
        return to_json(message, version, names=False)
    except ProtocolError:
        return otherwise


def _unknown_in_log(topic: str, value: ByteString) -> str:
    frame, number, version = log_head(value)
    if number is None:
        return f"frame version {frame} is not known"
    name = known_type(topic, number)
    return f"type {number} is not known" if name is None else f"version {version} of {name} is not known"


def _java_name(name: str) -> str:
    """`TopicRecord` is `TOPIC_RECORD`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()
