"""Where a page is written, in a bucket and on a disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kseg.jobs.report.page import write_text


@pytest.mark.parametrize(
    ("name", "key"), [("r", "r"), ("a%20b", "a b"), ("a b", "a b"), ("ä{}", "ä{}"), ("100%", "100%"), ("a#b", "a#b")]
)
def test_an_escape_in_a_url_is_decoded(memory_s3: Any, name: str, key: str) -> None:
    url = f"s3a://logs/{name}/x.html"
    assert write_text(url, "<p>") == url
    assert dict(memory_s3.objects).keys() == {f"{key}/x.html"}


def test_options_of_the_store_behind_a_folder_are_used(memory_s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    where = urlsplit(os.environ["AWS_ENDPOINT_URL"]).netloc
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    write_text(f"s3://logs/r?endpoint_override={where}&scheme=http&region=us-east-1/x.html", "<p>")
    assert dict(memory_s3.objects).keys() == {"r/x.html"}


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%20b"])
def test_a_file_url_is_the_path_behind_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert write_text(f"file://{tmp_path}/{name}/x.html", "<p>") == f"{tmp_path}/{name}/x.html"
    assert (tmp_path / name / "x.html").read_text() == "<p>"
    assert [folder.name for folder in tmp_path.iterdir()] == [name]
