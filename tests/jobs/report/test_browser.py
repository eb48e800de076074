"""A run's page and the index in a real browser: three widths, light, dark, on paper, and no error on its console."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.telemetry.recorder import Recorder
from kseg.jobs.report.outcome import CommandOutcome
from kseg.jobs.report.page import write_page

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
#: What pages and engines say on the console: `[…:INFO:CONSOLE:12] "Refused to …", source: …`
CONSOLE = re.compile(r"CONSOLE.*")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: apt install chromium)")


@pytest.fixture
def folder(tmp_path: Path, told: Callable[..., Any]) -> Path:
    """A folder with a page and its index."""
    run, listener = told(), Recorder()
    for fact in run.facts:
        listener.event(fact)
    write_page(f"{tmp_path}/reports/", CommandOutcome("ingest", listener.close(), run.document, 0))
    return tmp_path / "reports"


def browse(page: Path, *options: str) -> str:
    """What the browser says on stderr while it shows a page."""
    words = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    words += ["--enable-logging=stderr", f"--user-data-dir={page.parent / 'profile'}", *options, page.as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("width", "options"),
    [(1440, ()), (820, ("--blink-settings=preferredColorScheme=0",)), (390, ())],
    ids=["desk", "tablet, dark", "phone"],
)
def test_the_page_is_drawn_without_an_error(folder: Path, width: int, options: tuple[str, ...]) -> None:
    (page,) = folder.glob("orders-*.html")
    picture = folder / "page.png"
    said = browse(page, f"--window-size={width},2000", f"--screenshot={picture}", *options)
    assert not CONSOLE.findall(said)
    data = picture.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (width, 2000)
    assert len(data) > 30_000, "more than an empty page"


def test_the_index_is_printed_without_an_error(folder: Path) -> None:
    printed = folder / "index.pdf"
    assert not CONSOLE.findall(browse(folder / "index.html", f"--print-to-pdf={printed}"))
    assert printed.read_bytes().startswith(b"%PDF-")


def test_an_error_on_the_console_is_seen(folder: Path) -> None:
    (folder / "index.html").write_text("<script>console.error('seen')</script>")
    assert CONSOLE.findall(browse(folder / "index.html", f"--screenshot={folder / 'page.png'}"))
