"""Whether this process has a Spark already."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from kseg.etl.executors.engine import _spark_here


@pytest.mark.parametrize(
    ("attributes", "here"),
    [
        (None, "none"),
        ({}, "none"),  # half imported, or pyspark-client
        ({"SparkContext": SimpleNamespace()}, "none"),
        ({"SparkContext": SimpleNamespace(_active_spark_context=None)}, "none"),
        ({"SparkContext": SimpleNamespace(_active_spark_context=object())}, "running"),
    ],
)
def test_a_spark_runs_where_pyspark_has_a_context(
    attributes: dict[str, object] | None, here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    if attributes is not None:
        module = ModuleType("pyspark")
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, "pyspark", module)
    assert _spark_here() == here


def test_spark_submit_has_started_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert _spark_here() == "submitted"
