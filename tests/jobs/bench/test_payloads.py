"""The benchmark of payloads: every shape, by both decoders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kseg.etl.telemetry.progress import NULL_PROGRESS
from kseg.jobs.bench import avro_payloads, extremes, payloads, protobuf_payloads
from kseg.jobs.bench.efforts import QUICK
from kseg.jobs.bench.measuring import measure


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "DISTINCT", 20)
    monkeypatch.setattr(payloads, "PER_CALL", 40)


def test_every_shape_is_decoded_by_both_decoders() -> None:
    found: list[dict[str, Any]] = measure(QUICK, ("payload",), NULL_PROGRESS)["payload"]
    own = [entry for entry in found if entry["decoder"] in payloads.ENGINES]
    expected = [(case.format, case.shape, engine) for case in payloads.cases() for engine in ("fast", "reference")]
    assert [(entry["format"], entry["shape"], entry["decoder"]) for entry in own] == expected
    assert {case.format for case in payloads.cases()} == {"avro", "json", "protobuf"}
    google = [entry["shape"] for entry in found if entry["decoder"] == "google's protobuf"]
    assert google == [shape.name for shape in protobuf_payloads.SHAPES]
    assert all(entry["million_rows_per_second"] > 0 for entry in found)


def test_an_error_in_a_payload_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_payloads, "encode_default", lambda value, schema: b"\xff")
    with pytest.raises(AssertionError, match="does not decode"):
        list(payloads.measure(1))


def test_unusual_sizes_are_measured_in_processes_of_their_own(
    monkeypatch: pytest.MonkeyPatch, scale: Callable[[Any, Any], Any]
) -> None:
    cases = scale(["baseline", "schemas"], list(extremes.CASES))
    monkeypatch.setattr(extremes, "CASES", {name: extremes.CASES[name] for name in cases})
    found: list[dict[str, Any]] = extremes.measure(scale=0.01)
    assert [entry["case"] for entry in found] == cases
    assert all(entry["peak_mib"] >= entry["before_mib"] > 0 for entry in found)
    assert {entry["case"]: entry["payloads"] for entry in found}["schemas"] == 1000
