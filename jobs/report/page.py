"""A run as one HTML file: nothing in it refers to anything outside, so it opens without a network, and for years.

Topics, errors and paths are untrusted text: the templates escape everything, and the page's own content security policy
forbids scripts and requests.

Its destination is a file, or a folder that gets a page a run, on a local disk or in an object store.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from kseg.jobs.output.files import replace_file
from kseg.jobs.report.index import NAME, may_be_written, summary_of, write_index
from kseg.jobs.report.outcome import CommandOutcome
from kseg.jobs.report.templating import templates
from kseg.jobs.report.view import view_of

PAGE_ENDINGS: Final = (".html", ".htm")


def page_path(path: str, name: str) -> str:
    """The page's own path or URL: `path` itself where it ends like a page, else a file of this name in that folder."""
    if urlsplit(path).path.lower().endswith(PAGE_ENDINGS):
        return path
    return f"{path.rstrip('/')}/{name}.html"


def page_name(*parts: str | None) -> str:
    """A file name of what identifies a run: `orders-3f9c46bd`."""
    return "-".join(re.sub(r"[^A-Za-z0-9_.-]+", "_", part) for part in parts if part)


def write_text(path: str, text: str) -> str:
    """Write a file as a whole, its folder too; returns its absolute path, or its URL.

    Raises:
        OSError: the disk or the store does not take it.
    """
    data = text.encode("utf-8")
    if (local := local_path(path)) is not None:
        replace_file(local, data)
        return str(local)
    from kseg.etl.tables.parquet.storage import TableLocation

    folder, _, name = path.rpartition("/")
    store = TableLocation.of(folder).open_for_writing()
    with store.fs.open_output_stream(store.path(name)) as stream:
        stream.write(data)
    return path


def local_path(path: str) -> Path | None:
    """The absolute path of a file on a local disk, by its path or URL; None of one in an object store."""
    if "://" not in path:
        return Path(path).absolute()
    from kseg.etl.tables.parquet.storage import TableLocation

    folder, _, name = path.rpartition("/")
    location = TableLocation.of(folder)
    return Path(location.uri) / name if location.is_local else None


class WrittenPage(NamedTuple):
    """place: the page's path or URL. note: why its folder's index was not written, where that is worth a word."""

    place: str
    note: str | None = None


def write_page(path: str, outcome: CommandOutcome) -> WrittenPage:
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


def render(outcome: CommandOutcome, *, in_folder: bool = False) -> str:
    """The page's HTML. in_folder: beside it is an index of runs."""
    values = view_of(outcome) | {"summary": summary_of(outcome), "in_folder": in_folder}
    return templates().get_template("page.html.jinja").render(values)
