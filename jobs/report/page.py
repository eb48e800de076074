"""A run as one HTML file: nothing in it refers to anything outside, so it opens without a network, and for years.

Topics, errors and paths are other people's text: the templates escape everything, and the page's own policy lets no
script run and nothing be fetched.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kseg.jobs.report.destination import page_name, page_path, write_text
from kseg.jobs.report.outcome import Outcome
from kseg.jobs.report.view import view_of

if TYPE_CHECKING:
    from jinja2 import Environment


def write_page(path: str, outcome: Outcome) -> str:
    """Write the page to a file or into a folder; returns its path or URL. Raises OSError."""
    run = outcome.run_id or f"{outcome.command}-{outcome.telemetry.began:.0f}"
    return write_text(page_path(path, page_name(outcome.job, run)), render(outcome))


def render(outcome: Outcome) -> str:
    """The page's HTML."""
    return _templates().get_template("page.html.jinja").render(view_of(outcome))


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("kseg.jobs.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
