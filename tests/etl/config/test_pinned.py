"""The job file in a plan: its keys keep the file's order, which plans of earlier releases do not have."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kseg.etl.config.pinned import as_text, pinned_document

DOCUMENTS = st.dictionaries(st.text(max_size=3), st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
), max_size=4)  # fmt: skip


def ordered(value: Any) -> str:
    return json.dumps(value)


@given(DOCUMENTS, DOCUMENTS)
def test_a_plan_has_the_files_own_order(planned: dict[str, Any], today: dict[str, Any]) -> None:
    if planned:
        assert ordered(pinned_document(as_text(planned), today)) == ordered(planned)


@given(DOCUMENTS, DOCUMENTS)
def test_a_plan_of_an_earlier_release_has_that_of_the_file_of_today(
    planned: dict[str, Any], today: dict[str, Any]
) -> None:
    of_before = json.dumps(planned, sort_keys=True)
    assert ordered(pinned_document(of_before, planned)) == ordered(planned)
    assert pinned_document(of_before, today) == planned, "and its own values"


def test_keys_that_only_the_plan_has_come_last() -> None:
    today = {"z": {"b": 1, "a": 2}, "a": 1, "steps": [{"y": 1, "x": 1}]}
    before = json.dumps({"a": 1, "c": 0, "steps": [{"x": 1, "y": 1}], "z": {"a": 2, "b": 1, "d": 3}}, sort_keys=True)
    assert ordered(pinned_document(before, today)) == ordered(
        {"z": {"b": 1, "a": 2, "d": 3}, "a": 1, "steps": [{"y": 1, "x": 1}], "c": 0}
    )
