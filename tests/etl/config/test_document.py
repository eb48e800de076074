"""A job file's YAML is what PyYAML reads, or an error; whatever the text is. Its keys are their text."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kseg.etl.config.document import parse_document

LINES = [
    "a: &x {a: 1, b: 1}\n", "b: {<<: [&y {a: 2, 0: c}, {a: 3}]}\n",
    "c: {<<: *x, b: 3}\n", "e:\n", "  a: ~\n", "  - [1, b]\n",
    "? [a]\n", "a: 'b\n", "1: 0.5\n", "- true\n", "# a\n", "---\n", "f: !!binary a\n", "a: *x\n",
]  # fmt: skip


class _TextKeys(yaml.SafeLoader):
    """PyYAML with the text of each key in place of what it reads there."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        self.flatten_mapping(node)  # type: ignore[no-untyped-call]
        read = [self.construct_object(key) for key, _ in node.value]
        if any(key is None or not isinstance(key, str | int | float) for key in read):
            raise yaml.constructor.ConstructorError(None, None, "a key is no text", node.start_mark)
        return {key.value: self.construct_object(value, deep=True) for key, value in node.value}


_TextKeys.add_constructor("tag:yaml.org,2002:map", _TextKeys.construct_mapping)


@given(
    st.text(alphabet=st.sampled_from("ab:-[]{}&*<>!|#'\"\n \t,?%@01.$\\"), max_size=60)
    | st.lists(st.sampled_from(LINES), max_size=5, unique=True).map("".join)
)
@settings(max_examples=500)
def test_any_text_is_read_as_yaml_reads_it_or_is_a_fault(text: str) -> None:
    document = parse_document(text)
    assert all(fault.message for fault in document.faults)
    try:
        plain = yaml.load(text, _TextKeys)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError):
        assert document.faults
        assert document.value is None or document.faults[0].line
    else:
        own = {
            "is empty",
            "is given twice",
            "a key is not text or a number",
            "has a YAML tag that is not supported",
        }
        assert {fault.message for fault in document.faults} <= own
        assert document.faults or document.value == plain


@pytest.mark.parametrize("scalar", ["!!bool x", '!!int ""', '!!int "-"', '!!float ""'])
@pytest.mark.parametrize("place", ["a: {}", "{}: a"])
def test_a_tag_that_the_text_is_no_value_of_is_a_fault(scalar: str, place: str) -> None:
    messages = [fault.message for fault in parse_document(place.format(scalar)).faults]
    assert messages[0] == "has a YAML tag that is not supported"


def test_numbers_with_colons_are_text() -> None:
    long = "1" + ":59" * 60_000  # in base 60: seconds
    for text in ("1:30", "-12:30:45", "190:20:30.15", long):
        document = parse_document(f"a: {text}")
        assert document.value == {"a": text}
        assert not document.faults


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("a: 1\nb:\n\tc: 2\n", "is not YAML: it has a tab", "indent with spaces"),
        ("a: [1, 2\nb: 3", "is not YAML", "brackets"),
        ("a: \x01", "is not YAML", "UTF-8"),
    ],
)
def test_what_is_not_yaml_has_a_remedy(text: str, message: str, remedy: str) -> None:
    [fault] = parse_document(text).faults
    assert message in fault.message
    assert remedy in str(fault.remedy)
