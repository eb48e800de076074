"""A store that loses answers after commits, repeats, delays and refuses: no row is missing, and none is there twice."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from fault_suite import stores
from skips import full_scale_only


@full_scale_only
@pytest.mark.slow
def test_stores(suite: Callable[..., Any], kafka: Any, s3: Any, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {**s3.environment, "AWS_ALLOW_HTTP": "true"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    name = uuid.uuid4().hex[:8]
    (s3.folder / name / "lake").mkdir(parents=True)
    world = suite(
        kafka.bootstrap_servers,
        stores.LANES,
        stores.Store(s3).perform,
        allowed=stores.ALLOWED,
        root=f"s3://logs/{name}",
        seen_at=s3.folder / name,
        environment=environment,
    )
    assert world.findings.sound, world.findings.examples
    assert world.findings.rows
    assert world.findings.faults
