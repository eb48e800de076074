"""What the name of a target leads to."""

from __future__ import annotations

import pytest

from kseg.etl.catalogs.port import Resolved
from kseg.etl.catalogs.registry import catalog_of, resolve


@pytest.mark.parametrize("path", ["/lake/orders", "s3://lake/orders", "./orders", "lake/orders", "/lake/{topic}"])
def test_a_path_is_its_own_location_and_any_writer_commits_there(path: str) -> None:
    assert resolve(path) == Resolved(path)
    assert catalog_of(path).commits == "any"


@pytest.mark.parametrize("name", ["orders", "sales.orders", "lake.sales.orders", "sales.{topic}"])
def test_a_name_belongs_to_sparks_catalog(name: str) -> None:
    assert resolve(name) == Resolved(None)
    assert catalog_of(name).commits == "spark"


def test_credentials_are_not_shown() -> None:
    assert "hidden" not in repr(Resolved("s3://b/t", {"secret_access_key": "hidden"}))
