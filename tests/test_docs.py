"""What the docs name is there: modules and functions that they import, dotted names, files of the repository."""

from __future__ import annotations

import ast
import importlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NOW = [page for page in PAGES if page.name != "CHANGELOG.md"]  # which tells of names that were

IMPORT = re.compile(
    r"^ *(?:from +(?P<module>(?:kseg|pyspark_kseg)\b[\w.]*) +)?import +(?P<names>[\w., ()]+)$", re.MULTILINE
)
DOTTED = re.compile(r"(?<![\w./-])kseg(?:\.[A-Za-z_]\w*)+")
COMMIT_INFO = {"kseg.commit", "kseg.job", "kseg.kinds", "kseg.sequence"}
#: Properties of Kafka, of tables and of their commits, which look like modules.
PROPERTIES = {"client.dns.lookup", "client.id", "client.rack", "kseg.txn"} | COMMIT_INFO
PROPERTIES |= {"client.software.name", "client.software.version", "client.keystore.p12", "client.truststore.jks"}
PROPERTIES |= {"kseg.columnRules", "kseg.decodingRules", "kseg.fence"}
FILE = re.compile(r"`((?:client|etl|jobs|segment_reader|tests|airflow|docs)/[\w./*-]+)(?:::\w+)?`")


LINK = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)")
#: Pages that `make docs` makes from the source.
GENERATED = {f"docs/reference/{name}.md" for name in ("cli", "errors", "protocol", "protocol-rules", "requests")}


def is_there(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[end:]:
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False


def imports(text: str) -> Iterator[str]:
    """The dotted names of ours that lines of a page import."""
    for match in IMPORT.finditer(text):
        try:
            (statement,) = ast.parse(match[0].strip()).body
        except SyntaxError:
            continue  # prose
        if isinstance(statement, ast.ImportFrom):
            yield from (f"{statement.module}.{alias.name}" for alias in statement.names)
        elif isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names if alias.name.split(".")[0] == "kseg")


@pytest.mark.parametrize("page", NOW, ids=lambda page: page.name)
def test_what_a_page_imports_is_there(page: Path) -> None:
    assert [name for name in imports(page.read_text()) if not is_there(name)] == []


@pytest.mark.parametrize("page", NOW, ids=lambda page: page.name)
def test_names_in_a_page_are_there(page: Path) -> None:
    names = {name.rstrip(".") for name in DOTTED.findall(page.read_text())}
    names = {name for name in names if not name.endswith(".json")} - PROPERTIES
    assert [name for name in sorted(names) if not is_there(name)] == []


@pytest.mark.parametrize("page", NOW, ids=lambda page: page.name)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    named = [name.replace("NAME", "*") for name in FILE.findall(page.read_text())]
    folders = (ROOT, ROOT / "tests")
    assert [name for name in named if not any(any(folder.glob(name)) for folder in folders)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_of_the_repository_or_to_pages_that_are_made(page: Path) -> None:
    """Anchors are checked by `make docs`, as are links in the pages that it makes."""
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    targets = {path: os.path.relpath(page.parent / path, ROOT) for path in LINK.findall(text)}
    assert [path for path, target in targets.items() if target not in GENERATED and not (ROOT / target).exists()] == []


def test_docstrings_and_comments_name_modules_that_are_there() -> None:
    """Names such as `etl.spark.session`, written without `kseg`: in backquotes, or with two dots or more."""
    quoted = re.compile(r"`((?:client|etl|jobs|segment_reader)(?:\.[a-z_]\w*)+)`")
    plain = re.compile(r"(?<![\w./`-])(?:kseg\.)?((?:client|etl|jobs|segment_reader)\.[a-z_]\w*(?:\.\w+)+)")
    parts = ("client", "etl", "jobs", "segment_reader", "tests")
    files = [path for part in parts for path in (ROOT / part).rglob("*.py")]
    named = {
        (str(path.relative_to(ROOT)), name)
        for path in files
        for pattern in (quoted, plain)
        for name in pattern.findall(path.read_text())
    }
    assert sorted((file, name) for file, name in named if name not in PROPERTIES and not is_there(f"kseg.{name}")) == []
