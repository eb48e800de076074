"""The same bytes and the same JSON as Kafka's own classes, for every message in every version, both ways."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from typing import Any

from client.protocol.codec import decode, encode
from client.protocol.jsonform import to_json
from client.protocol.schema import Message


def as_json(message: Message, version: int) -> dict[str, Any]:
    return to_json(message, version, names=False)


def sizes_for_records(node: Any) -> Any:
    """Kafka's converters write of a record set its size alone."""
    if isinstance(node, list):
        return [sizes_for_records(item) for item in node]
    if not isinstance(node, dict):
        return node
    copy = {key: sizes_for_records(value) for key, value in node.items()}
    if copy.get("records") is not None:
        copy["recordsSizeInBytes"] = len(base64.b64decode(copy.pop("records")))
    return copy


def java_class(cls: type[Message]) -> str:
    """The generated class: those of requests, responses and headers have a suffix."""
    suffix = "Data" if cls.__name__.endswith(("Request", "Response", "Header")) else ""
    return f"org.apache.kafka.common.message.{cls.__name__}{suffix}"


def test_bytes_are_the_ones_that_kafka_writes_and_reads(
    pairs: list[tuple[type[Message], int]],
    any_message: Callable[[random.Random, type[Message], int], Any],
    java: Callable[[str, str], list[str]],
    scale: Callable[[int, int], int],
) -> None:
    rng = random.Random(20260117)
    cases = [(any_message(rng, cls, version), version) for cls, version in pairs for _ in range(scale(5, 100))]
    lines = [
        "\t".join((java_class(type(message)), str(version), json.dumps(as_json(message, version)), data.hex()))
        for message, version in cases
        for data in [encode(message, version)]
    ]
    answers = java("GoldenMessages.java", "\n".join(lines) + "\n")
    assert len(answers) == len(cases)
    for (message, version), answer in zip(cases, answers, strict=True):
        hexed, text = answer.split("\t")
        name = f"{type(message).__name__} v{version}"
        assert encode(message, version).hex() == hexed, name
        assert decode(type(message), version, bytes.fromhex(hexed)) == message, name
        assert json.loads(text) == sizes_for_records(as_json(message, version)), name
