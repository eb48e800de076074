"""`make docs`: the site builds without a warning, needs no network to be read, and finds what people search for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("mkdocs", reason="needs the extra `docs`")

ROOT = Path(__file__).parents[3]


def build(site: Path, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """`make docs`, into another folder."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site)],
        cwd=folder,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build(folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def texts(site: Path) -> dict[str, str]:
    """What the search finds: the text of each page, headings included."""
    index: dict[str, Any] = json.loads((site / "search" / "search_index.json").read_text())
    found: dict[str, str] = {}
    for entry in index["docs"]:
        page = entry["location"].partition("#")[0]
        found[page] = found.get(page, "") + " " + entry["title"] + " " + re.sub("<[^>]*>", "", entry["text"])
    return {page: text.lower() for page, text in found.items()}


def test_pages_made_from_the_source_and_those_of_the_root_are_there(site: Path) -> None:
    for page in ("index", "reference/cli", "reference/protocol", "reference/requests", "reference/protocol-rules"):
        assert (site / f"{page}.html").is_file()
    for page in ("explanation/architecture", "project/contributing", "project/changelog", "project/benchmarks"):
        assert (site / f"{page}.html").is_file()


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("list topics", "reference/api.html"),
        ("consumer lag", "guides/reports.html"),
        ("checkpoint", "guides/streaming.html"),
        ("retry", "guides/airflow.html"),
        ("retried", "explanation/exactly-once.html"),
        ("exactly once", "explanation/exactly-once.html"),
        ("backfill", "guides/intervals.html"),
        ("replay", "guides/replacing.html"),
    ],
)
def test_what_people_search_for_is_found_by_its_usual_word(texts: dict[str, str], words: str, page: str) -> None:
    assert words in texts[page]


def test_the_search_works_on_a_page_that_is_opened_from_a_disk(site: Path, tmp_path: Path) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs chromium")
    shown = subprocess.run(
        [
            chromium,
            *("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"),
            *(f"--user-data-dir={tmp_path}", "--dump-dom"),
            f"file://{site}/index.html?q={quote('consumer lag')}",
        ],
        capture_output=True,
        text=True,
    ).stdout
    assert re.search(r'md-search-result__meta">\d+ matching documents', shown)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("[x](nowhere.md)", "'nowhere.md'"),
        ("[x](#nowhere)", "'#nowhere'"),
        ("![x](https://example.com/x.png)", "loads https://example.com/x.png"),
    ],
)
def test_a_broken_link_or_something_of_another_host_fails_the_build(tmp_path: Path, written: str, message: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text(f"# A guide\n\n{written}\n")
    settings = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[0]
    (tmp_path / "mkdocs.yml").write_text(settings.replace("jobs/website/hooks.py", "hooks.py"))
    (tmp_path / "hooks.py").write_text("from kseg.jobs.website import hooks\non_post_page = hooks.on_post_page\n")
    built = build(tmp_path / "site", tmp_path)
    assert built.returncode != 0
    assert message in built.stdout + built.stderr
