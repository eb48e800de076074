"""Schemas in the ledger: lineages only grow, a run's pinned schemas change while nothing of it has been accounted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kseg.etl.ledger.schemas import Lineage, LineageChange, SchemaText, changed_lineages

FIRST = LineageChange("http://sr", 1, "v1", {"7": "a"}, {"orders-value": {"1": "7"}})


def test_a_lineage_grows_by_one_version_at_a_time() -> None:
    lineage = changed_lineages({}, {"value": FIRST})["value"]
    assert lineage == Lineage("http://sr", ("v1",), {"7": "a"}, {"orders-value": {"1": "7"}})
    grown = lineage.after(LineageChange("http://sr", 2, "v2", {"9": "b"}, {"orders-value": {"2": "9"}}))
    assert grown.readers == ("v1", "v2")
    assert grown.writers == {"7": "a", "9": "b"}
    assert grown.subjects == {"orders-value": {"1": "7", "2": "9"}}
    assert grown.after(LineageChange("http://sr", 2, writers={"11": "c"})).readers == ("v1", "v2")
    for number, text in ((1, "v3"), (2, "v3"), (4, "v3"), (3, None)):
        with pytest.raises(ValueError, match=f"version {number} .* cannot follow 2"):
            grown.after(LineageChange("http://sr", number, text))


def test_ids_of_another_registry_are_other_schemas() -> None:
    lineage = Lineage("http://sr", ("v1",), {"7": "a"}, {"orders-value": {"1": "7"}})
    moved = lineage.after(replace(FIRST, registry="http://other", reader=None, writers={"1": "b"}, subjects={}))
    assert moved == Lineage("http://other", ("v1",), {"1": "b"}, {})


def test_a_text_is_known_by_all_that_it_uses() -> None:
    texts = [SchemaText("a"), SchemaText("a", ("b",)), SchemaText("a", ("b", "c")), SchemaText("a", ("c", "b"))]
    assert len({text.hash for text in texts}) == 4
    assert SchemaText("a", ("b",)).hash == texts[1].hash
