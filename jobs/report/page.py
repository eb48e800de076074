"""A run as one HTML file: nothing in it refers to anything outside, so it opens without a network, and for years.

Topics, errors and paths are untrusted text: the templates escape everything, and the page's own content security policy
forbids scripts and requests.
"""

from __future__ import annotations

from typing import NamedTuple

from kseg.jobs.report.destination import local_path, page_name, page_path, write_text
from kseg.jobs.report.index import NAME, may_be_written, summary_of, write_index
from kseg.jobs.report.outcome import Outcome
from kseg.jobs.report.templating import templates
from kseg.jobs.report.view import view_of


class WrittenPage(NamedTuple):
    """place: the page's path or URL. note: why its folder's index was not written, where that is worth a word."""

    place: str
    note: str | None = None


def write_page(path: str, outcome: Outcome) -> WrittenPage:
    """Write the page to a file or into a folder, whose index is written again. Raises OSError.

    A folder in an object store has no index, nor has one with an `index.html` of somebody else.
    """
    run = outcome.run_id or f"{outcome.command}-{outcome.telemetry.began:.0f}"
    place = page_path(path, page_name(outcome.job, run))
    local = local_path(place) if place != path else None
    indexed = local is not None and may_be_written(local.parent)
    written = write_text(place, render(outcome, in_folder=indexed))
    if local is None:
        return WrittenPage(written)
    if not indexed:
        return WrittenPage(written, f"no index of runs was written: {local.parent / NAME} is not one of kseg's")
    write_index(local.parent)
    return WrittenPage(written)


def render(outcome: Outcome, *, in_folder: bool = False) -> str:
    """The page's HTML. in_folder: beside it is an index of runs."""
    values = view_of(outcome) | {"summary": summary_of(outcome), "in_folder": in_folder}
    return templates().get_template("page.html.jinja").render(values)
