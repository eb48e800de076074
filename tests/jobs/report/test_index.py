"""The index of a folder of pages, and both in a real browser: three widths, light and dark, nothing on the console."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.errors import Refused
from kseg.etl.telemetry.recorder import Recorder
from kseg.jobs.invocation.failures import failure_of
from kseg.jobs.report.index import NAME, may_be_written, write_index
from kseg.jobs.report.options import ReportOptions
from kseg.jobs.report.outcome import CommandOutcome
from kseg.jobs.report.page import write_page
from kseg.jobs.report.reporter import Reporter

HOSTILE = "\"'><script>alert(1)</script>"


@pytest.fixture
def pages(told: Callable[..., Any], tmp_path: Path) -> Path:
    """Three runs of one job; the second one failed."""
    folder = tmp_path / "pages"
    run = told()
    error = failure_of(Refused("some-code", f"found {HOSTILE}", remedy="do it")).to_json()
    for number, document in enumerate((run.document, error, run.document)):
        listener = Recorder()
        for fact in run.facts:
            listener.event(fact)
        telemetry = listener.close()
        telemetry.began = 1_767_225_600.0 + 3600 * number
        telemetry.ended = telemetry.began + 10 * (number + 1)
        telemetry.plan = replace(telemetry.plan, run_id=f"run-{number}")
        write_page(str(folder), CommandOutcome("ingest", telemetry, document, 3 if document is error else 0))
    return folder


def test_a_folder_of_pages_has_an_index_with_the_newest_run_first(pages: Path) -> None:
    html = (pages / NAME).read_text()
    linked = re.findall(r'<a href="([^"]+)"><code>(run-\d)</code>', html)
    assert [run for _, run in linked] == ["run-2", "run-1", "run-0"]
    assert all((pages / page).is_file() for page, _ in linked)
    assert "3 pages in this folder" in html
    assert "Last success: 2026-01-01 02:00:30 UTC" in html
    assert "1 of 3 failed" in html
    assert html.count("<rect ") == 3
    assert "exit code 3: Refused: found" in html
    assert "<script" not in html


def test_the_index_is_made_of_the_pages_that_are_there(pages: Path) -> None:
    (pages / "notes.html").write_text("<p>of somebody else</p>")
    (pages / "broken.html").write_text('<meta name="kseg-run" content="{&quot;job&quot;: 1}">')
    next(pages.glob("*run-1*")).unlink()
    write_index(pages)
    html = (pages / NAME).read_text()
    assert "2 pages in this folder" in html
    assert "run-1" not in html


def test_an_index_of_somebody_else_stays(told: Callable[..., Any], tmp_path: Path, capsys: Any) -> None:
    """`kseg report` in a folder of a website replaced its first page without a word."""
    (tmp_path / NAME).write_text("<title>Our website</title>")
    run = told()
    reporter = Reporter(ReportOptions(report=str(tmp_path)), "ingest")
    for fact in run.facts:
        reporter.event(fact)
    reporter.close(document := dict(run.document), 0)
    assert (tmp_path / NAME).read_text() == "<title>Our website</title>"
    note = f"no index of runs was written: {tmp_path / NAME} is not one of kseg's"
    assert document["notes"][-1] == note
    assert note in capsys.readouterr().err
    assert f'href="{NAME}"' not in Path(document["report"]).read_text(), "it would not lead to the runs"


def test_an_index_of_before_it_had_its_mark_is_replaced(pages: Path) -> None:
    marked = (pages / NAME).read_text()
    (pages / NAME).write_text(re.sub(r'<meta name="kseg-index".*\n', "", marked))
    assert may_be_written(pages)
    (pages / NAME).write_text(marked)
    assert may_be_written(pages)


def test_the_index_needs_no_more_of_a_page_than_its_beginning(told: Callable[..., Any], tmp_path: Path) -> None:
    """Also where all of the error has to be escaped twice."""
    run = told()
    listener = Recorder()
    for fact in run.facts:
        listener.event(fact)
    error = failure_of(Refused("some-code", "😀" * 400, remedy="do it")).to_json()
    place = Path(write_page(str(tmp_path), CommandOutcome("ingest", listener.close(), error, 3)).place)
    place.write_bytes(place.read_bytes()[:4000])
    write_index(tmp_path)
    assert "1 page in this folder" in (tmp_path / NAME).read_text()


def test_a_page_with_a_name_of_its_own_has_no_index(told: Callable[..., Any], tmp_path: Path) -> None:
    run = told()
    listener = Recorder()
    for fact in run.facts:
        listener.event(fact)
    write_page(str(tmp_path / "one.html"), CommandOutcome("ingest", listener.close(), run.document, 0))
    assert [path.name for path in tmp_path.glob("*.html")] == ["one.html"]


SHOW = """<!doctype html><title>?</title><script>
const found = [], wanted = PAGES.flatMap(page => [360, 768, 1280].map(width => [page, width]));
function next() {
  if (!wanted.length) { document.title = JSON.stringify(found); return; }
  const [page, width] = wanted.shift(), frame = document.createElement("iframe");
  frame.style.width = width + "px"; frame.style.height = "900px"; frame.style.border = "0";
  frame.onload = () => {
    const shown = frame.contentDocument, style = frame.contentWindow.getComputedStyle(shown.body);
    const headings = shown.querySelectorAll("h1").length;
    found.push([page, width, shown.documentElement.scrollWidth, headings, style.backgroundColor]);
    frame.remove(); next();
  };
  frame.src = page; document.body.append(frame);
}
addEventListener("DOMContentLoaded", next);
</script><body></body>"""


@pytest.mark.parametrize("dark", [False, True])
def test_in_a_browser_both_fit_three_widths_in_light_and_dark(pages: Path, tmp_path: Path, dark: bool) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs chromium")
    names = sorted(path.name for path in pages.glob("*.html"))
    (pages / "show.htm").write_text(SHOW.replace("PAGES", json.dumps(names)))
    shown = subprocess.run(
        [
            chromium,
            *("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--window-size=1400,1000"),
            *("--allow-file-access-from-files", "--enable-logging=stderr", f"--user-data-dir={tmp_path / 'profile'}"),
            *(["--blink-settings=preferredColorScheme=0"] if dark else ["--blink-settings=preferredColorScheme=1"]),
            *("--dump-dom", f"file://{pages}/show.htm"),
        ],
        capture_output=True,
        text=True,
    )
    found = json.loads(re.search(r"<title>(.*?)</title>", shown.stdout, re.DOTALL)[1])  # type: ignore[index]
    assert len(found) == 3 * len(names) == 12
    assert [line for line in found if line[2] > line[1] or line[3] != 1] == []
    assert {line[4] for line in found} == {"rgb(14, 20, 27)" if dark else "rgb(246, 247, 249)"}
    assert [line for line in shown.stderr.splitlines() if "CONSOLE" in line] == []
