"""The pages that `make docs` makes from the source, and links between pages."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kseg.jobs.cli import COMMANDS, cli
from kseg.jobs.website import cli_page
from kseg.jobs.website.links import links_of_the_site


def test_the_command_line_has_a_section_for_each_command_with_its_help() -> None:
    text = cli_page.page()
    for name in COMMANDS:
        assert f"\n## kseg {name}\n" in text
        assert f"- [`kseg {name}`](#kseg-{name}): " in text
    section = text.partition("\n## kseg broker stop\n")[2].partition("\n## ")[0]
    printed = CliRunner().invoke(cli, ["broker", "stop", "--help"]).stdout
    assert section.split()[1:-1] == printed.replace("Usage: cli ", "Usage: kseg ").split()


@pytest.mark.parametrize(
    ("page", "link", "in_the_site"),
    [
        ("index.md", "docs/guides/airflow.md", "guides/airflow.md"),  # README.md
        ("guides/airflow.md", "../../README.md", "../index.md"),
        ("guides/airflow.md", "../tutorials/airflow.md", "../tutorials/airflow.md"),
        ("guides/airflow.md", "../images/airflow.png", "../images/airflow.png"),
        ("explanation/architecture.md", "docs/explanation/exactly-once.md", "exactly-once.md"),  # ARCHITECTURE.md
        ("project/contributing.md", "ARCHITECTURE.md", "../explanation/architecture.md"),
        ("reference/ledger.md", "../../etl/cli.py", "../../etl/cli.py"),  # no page: mkdocs finds that it is not there
    ],
)
def test_a_link_of_the_repository_becomes_one_of_the_site(page: str, link: str, in_the_site: str) -> None:
    assert links_of_the_site(f"see [it]({link}#part), [it]({link})", page) == (
        f"see [it]({in_the_site}#part), [it]({in_the_site})"
    )


def test_links_to_other_hosts_within_a_page_and_in_code_stay() -> None:
    text = "[a](https://kafka.apache.org/x.md), [b](#part), [c](mailto:x@example.com)\n```python\nx[a](b.md)\n```\n"
    assert links_of_the_site(text, "guides/airflow.md") == text
