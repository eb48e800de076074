"""What the name of a target leads to."""

from __future__ import annotations

import pytest

from kseg.etl.tables.catalogs import Resolved, resolve


@pytest.mark.parametrize("path", ["/lake/orders", "s3://lake/orders", "./orders", "lake/orders"])
def test_a_path_is_its_own_location_and_any_writer_commits_there(path: str) -> None:
    assert resolve(path) == Resolved(path)


@pytest.mark.parametrize("name", ["orders", "sales.orders", "lake.sales.orders"])
def test_a_name_belongs_to_sparks_catalog(name: str) -> None:
    assert resolve(name) == Resolved(None, commits="spark")
