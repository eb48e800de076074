"""Each parser on its seeds, on what fuzzing has found, and on some damage: `make fuzz` goes on from there."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from fuzzing import seeds, targets


@pytest.mark.parametrize("target", sorted(targets.TARGETS))
def test_any_bytes_are_read_or_refused(target: str, scale: Callable[[int, int], int]) -> None:
    inputs = seeds.of(target)
    for data in inputs:
        targets.TARGETS[target](data)
    choice = random.Random(18)
    for _ in range(scale(60, 20_000)):
        targets.TARGETS[target](seeds.mutated(choice.choice(inputs), choice, inputs))


@pytest.mark.parametrize("target", ["avro", "json_payload", "protobuf"])
def test_the_seeds_of_payloads_are_decoded(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else only refusals would be compared."""
    decoded = 0
    compare = targets._both

    def counting(decoders: tuple[targets.PayloadDecoder, targets.PayloadDecoder], data: bytes) -> None:
        nonlocal decoded
        compare(decoders, data)
        decoded += int(decoders[0].decode(targets.pa.array([data], targets.pa.binary())).status[0] == 0)

    monkeypatch.setattr(targets, "_both", counting)
    for data in seeds.of(target):
        targets.TARGETS[target](data)
    assert decoded > 1
