"""A run as one HTML file: nothing in it refers to anything outside, so it opens without a network, and for years.

Topics, errors and paths are untrusted text: the templates escape everything, and the page's own content security policy
forbids scripts and requests.
"""

from __future__ import annotations

from pathlib import Path

from kseg.jobs.report.destination import page_name, page_path, write_text
from kseg.jobs.report.index import summary_of, write_index
from kseg.jobs.report.outcome import Outcome
from kseg.jobs.report.templating import templates
from kseg.jobs.report.view import view_of


def write_page(path: str, outcome: Outcome) -> str:
    """Write the page to a file or into a folder, whose index is written again; returns its path or URL. Raises OSError.

    A folder in an object store has no index.
    """
    run = outcome.run_id or f"{outcome.command}-{outcome.telemetry.began:.0f}"
    place = page_path(path, page_name(outcome.job, run))
    in_folder = place != path
    written = write_text(place, render(outcome, in_folder=in_folder))
    if in_folder and "://" not in written:
        write_index(Path(written).parent)
    return written


def render(outcome: Outcome, *, in_folder: bool = False) -> str:
    """The page's HTML. in_folder: beside it is an index of runs."""
    values = view_of(outcome) | {"summary": summary_of(outcome), "in_folder": in_folder}
    return templates().get_template("page.html.jinja").render(values)
