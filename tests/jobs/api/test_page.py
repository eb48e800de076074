"""`kseg api docs`: the page on the protocol is what the definitions give."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from kseg.client.protocol.registry import API_BY_NAME
from kseg.jobs.api.coding import embedded_messages
from kseg.jobs.api.page import page
from kseg.jobs.cli import cli


def test_the_page_is_of_a_size_that_people_can_open() -> None:
    assert len(page().encode()) < 1_000_000


@pytest.mark.rule(267)
def test_every_api_is_in_the_index_and_has_a_table_of_its_own() -> None:
    text = page()
    for api in API_BY_NAME.values():
        lowest, highest = api.versions
        versions = str(lowest) if lowest == highest else f"{lowest}–{highest}"
        assert f"| {api.key} | [{api.name}](#{api.name.lower()}) | {versions} |" in text
        section = text.partition(f"\n## {api.name}\n")[2].partition("\n## ")[0]
        assert section.count("| field | type | versions | null | default | tag | |") == 1
        assert "| **request** |" in section
        assert "| **response** |" in section


def test_the_formats_inside_of_bytes_are_there() -> None:
    text = page().partition("\n## Formats inside of bytes\n")[2]
    assert len(embedded_messages()) > 80
    for name, cls in embedded_messages().items():
        versions = (
            str(cls.VERSIONS.lowest)
            if cls.VERSIONS.lowest == cls.VERSIONS.highest
            else "–".join(map(str, cls.VERSIONS))
        )
        assert f"\n**{name}**, v{versions}" in text


def test_a_field_has_its_type_versions_null_default_and_tag() -> None:
    text = page()
    fetch = text.partition("\n## Fetch\n")[2].partition("\n## ")[0]
    assert re.search(r"\| `clusterId` \| string \| 12\+ \| 12\+ \| null \| 0 \| ignorable \|", fetch)
    assert re.search(r"\| `isolationLevel` \| int8 \| (4|0)?\+? ?.*\| isolation level", fetch)
    assert "| `topics[].partitions[].currentLeaderEpoch` | int32 | 9+ |  | `-1` |  | ignorable |" in fetch


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    width = 0
    for line in page().splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not (width and cells) or cells == width, line
        width = cells


def test_the_command_prints_it() -> None:
    printed = CliRunner().invoke(cli, ["api", "docs"])
    assert (printed.exit_code, printed.stdout) == (0, page())
