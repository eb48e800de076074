"""The destination of a page: a file, or a folder that gets a page a run; on a local disk or in an object store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kseg.jobs.output.files import replace_file

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
