"""The picture of a benchmark's rates."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from kseg.etl.errors import ConfigurationError
from kseg.jobs.bench.plot import bars, plot

DOCUMENT: dict[str, Any] = {
    "matrix": [
        {"workload": "raw, zstd", "krows_per_second": {"ours": 900.0, "spark_tuned": 300.0}},
        {"workload": "raw, 64 partitions", "krows_per_second": {"ours": 1000.0, "spark_tuned": 50.0}},
    ],
    "typed": {
        "medians_krows_per_second": {
            "avro": {"ours": 1500.0, "ours_raw": 2000.0, "spark_decoded": 300.0},
            "protobuf": {"ours": 1500.0, "ours_raw": 2000.0},
        }
    },
}


def test_every_workload_with_a_peer_has_a_bar_and_its_ratio(tmp_path: Path) -> None:
    assert [bar.ours / bar.theirs for bar in bars(DOCUMENT)] == [20, 5, 3]
    plot(DOCUMENT, tmp_path / "rates.svg")
    texts = {
        node.text.strip() for node in ElementTree.parse(tmp_path / "rates.svg").iter() if (node.text or "").strip()
    }
    assert {
        "20.0×",
        "5.0×",
        "3.0×",
        "raw, zstd",
        "raw, 64 partitions",
        "typed columns from avro, beside from_avro",
    } <= texts


def test_the_same_figures_give_the_same_file(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        plot(DOCUMENT, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_nothing_to_draw_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nothing to draw"):
        plot({"decode": []}, tmp_path / "rates.svg")
