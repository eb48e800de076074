"""A folder of pages, served on the loopback: its pages, and nothing else."""

from __future__ import annotations

import http.client
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kseg.jobs.cli import cli
from kseg.jobs.report.outcome import CommandOutcome
from kseg.jobs.report.page import write_page
from kseg.jobs.report.serve import HOST, PageServer


@pytest.fixture
def served(tmp_path: Path, told: Callable[..., Any]) -> Iterator[PageServer]:
    """A server of a folder with one page."""
    folder = tmp_path / "reports"
    run = told()
    from kseg.etl.telemetry.recorder import Recorder

    listener = Recorder()
    for fact in run.facts:
        listener.event(fact)
    write_page(f"{folder}/", CommandOutcome("ingest", listener.close(), run.document, 0))
    (folder / "secret.txt").write_text("not a page")
    (tmp_path / "outside.html").write_text("outside")
    (folder / "link.html").symlink_to(tmp_path / "outside.html")
    with PageServer(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(server: PageServer, path: str, method: str = "GET", host: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection(HOST, server.server_port, timeout=60)
    try:
        connection.request(method, path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_the_index_and_its_pages_are_served(served: PageServer) -> None:
    code, index = get(served, "/")
    assert code == 200
    (page,) = [path.name for path in served.folder.glob("orders-*.html")]
    assert page in index
    assert "rows written by tasks" in get(served, f"/{page}")[1]
    assert get(served, f"/{page}", "HEAD") == (200, "")
    (served.folder / page).unlink()
    assert page not in get(served, "/index.html")[1], "the index is that of now"


def test_serving_writes_nothing(served: PageServer) -> None:
    """The index was written at each request, over what somebody else had put there; 404 in a folder to read alone."""
    (served.folder / "index.html").write_text("<title>Our website</title>")
    (page,) = [path.name for path in served.folder.glob("orders-*.html")]
    assert page in get(served, "/")[1]
    assert (served.folder / "index.html").read_text() == "<title>Our website</title>"


@pytest.mark.parametrize(
    "path", ["/secret.txt", "/../outside.html", "/%2e%2e/outside.html", "/link.html", "/none.html", "/a/b.html"]
)
def test_nothing_else_is(served: PageServer, path: str) -> None:
    assert get(served, path)[0] == 404


def test_other_names_of_this_machine_are_rejected(served: PageServer) -> None:
    assert get(served, "/", host=f"evil.example:{served.server_port}")[0] == 421
    assert get(served, "/", host=f"localhost:{served.server_port}")[0] == 200
    assert get(served, "/", "POST")[0] == 501


def test_a_port_that_is_in_use_is_an_error_with_a_remedy(served: PageServer) -> None:
    done = CliRunner().invoke(cli, ["report", "--serve", os.fspath(served.folder), "--port", str(served.server_port)])
    assert done.exit_code == 2
    assert "give another one" in done.output


def test_without_a_job_and_without_a_folder_it_says_what_to_give() -> None:
    done = CliRunner().invoke(cli, ["report"])
    assert done.exit_code == 2
    assert "--serve FOLDER" in done.output
