"""One version: of both distributions and their packages, and of the files that the documentation names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
NAMED = re.compile(r"kafka_segment_etl(?:_airflow)?-(\d+\.\d+\.\d+)")


def test_both_distributions_and_the_documentation_have_one_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for module in ("client/wire/version.py", "airflow/kseg_airflow/__init__.py"):
        written = re.search(r'^(?:VERSION: Final|__version__) = "(.+)"$', (ROOT / module).read_text(), re.MULTILINE)
        assert written is not None
        assert written[1] == version
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs/guides/kubernetes").iterdir()]
    named = {(page.name, found) for page in pages for found in NAMED.findall(page.read_text())}
    assert len(named) > 3
    assert {found for _, found in named} == {version}, named
