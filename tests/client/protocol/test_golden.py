"""The same bytes and the same JSON as Kafka's own classes, for every message in every version, both ways."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from kseg.client.protocol.codec import decode, encode
from kseg.client.protocol.json_form import to_json
from kseg.client.protocol.schema import Message


def as_json(message: Message, version: int) -> dict[str, Any]:
    return to_json(message, version, names=False)


def sizes_for_records(node: Any) -> Any:
    """Kafka's converters write of a record set its size alone."""
    if isinstance(node, list):
        return [sizes_for_records(item) for item in node]
    if not isinstance(node, dict):
        return node
    copy = {key: sizes_for_records(value) for key, value in node.items()}
    for name in ("records", "unalignedRecords"):
        if copy.get(name) is not None:
            copy[f"{name}SizeInBytes"] = len(base64.b64decode(copy.pop(name)))
    return copy


@pytest.fixture(scope="module")
def golden(
    pairs: list[tuple[type[Message], int]],
    any_message: Callable[[random.Random, type[Message], int], Any],
    empty_message: Callable[[type[Message], int], Any],
    definitions: Any,
    java: Callable[[str, str], list[str]],
    old_java: Callable[[str, str], list[str]],
    scale: Callable[[int, int], int],
) -> dict[tuple[str, int], list[tuple[Any, str, str]]]:
    """Per message and version: messages of ours, and the bytes and the JSON that Kafka's classes make of each.

    The newest release's classes where they have the version, the old one's for what has been dropped.
    """
    rng = random.Random(20260117)
    answered: dict[tuple[str, int], list[tuple[Any, str, str]]] = {}
    for source, ask in ((definitions.newest, java), (definitions.old, old_java)):
        here = [pair for pair in pairs if definitions.of(pair[0].__name__, pair[1]) is source.get(pair[0].__name__)]
        cases = [(empty_message(*pair), pair[1]) for pair in here]
        cases += [(any_message(rng, *pair), pair[1]) for pair in here * scale(4, 12)]
        lines = []
        for message, version in cases:
            java_class = definitions.java_class(type(message).__name__)
            text = json.dumps(as_json(message, version))
            lines.append("\t".join((java_class, str(version), text, encode(message, version).hex())))
        answers = ask("GoldenMessages.java", "\n".join(lines) + "\n")
        for (message, version), answer in zip(cases, answers, strict=True):
            answered.setdefault((type(message).__name__, version), []).append((message, *answer.split("\t")))
    return answered


@pytest.mark.rule("88-91", 213, 214, 243, 255, 257, "276-320")
def test_bytes_are_the_ones_that_kafka_writes_and_reads(
    message_class: type[Message], golden: dict[tuple[str, int], list[tuple[Any, str, str]]], comparisons: Any
) -> None:
    for version in range(message_class.VERSIONS.lowest, message_class.VERSIONS.highest + 1):
        answered = golden[message_class.__name__, version]
        assert len(answered) > 1
        for message, hexed, text in answered:
            name = f"{message_class.__name__} v{version}"
            assert encode(message, version).hex() == hexed, name
            assert decode(message_class, version, bytes.fromhex(hexed)) == message, name
            assert json.loads(text) == sizes_for_records(as_json(message, version)), name
        comparisons.compared("bytes", message_class.__name__, version)
