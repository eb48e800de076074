"""Paths and URIs of logs, and the storage that each of them names.

storage, root = open_storage("/var/lib/kafka/data")
storage, root = open_storage("s3://backups/broker-1")           an object store: see object_stores.py
storage, root = open_storage("s3://tiered", "aiven")            segments of a tiered storage plug-in: see layouts
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kseg.segment_reader.log.files.storage import LAYOUT_OPTION, PLAIN, LocalStorage, Storage


def open_storage(location: str, layout: str = PLAIN, options: Mapping[str, str] | None = None) -> tuple[Storage, str]:
    """The storage of a path or URI, and the path in it.

    layout: the form of the logs there: "kafka", or a name of a layout (`log.layouts`).
    options: the store's settings (see object_stores.py), and below `layout.` the layout's.

    Raises ValueError: an unknown URI, layout or option; and as `Storage` does: a layout may read the store at once.
    """
    given = dict(options or {})
    of_layout = {name.removeprefix(LAYOUT_OPTION): given.pop(name) for name in list(given) if _is_layout_s(name)}
    scheme = urlsplit(location).scheme if "://" in location else ""
    if scheme in ("", "file"):
        path = unquote(urlsplit(location).path) if scheme else location
        storage, root = _local(path)
    else:
        from kseg.segment_reader.log.files.object_stores import open_objects

        storage, root = open_objects(location, given)
    if layout == PLAIN and not of_layout:
        return storage, root
    from kseg.segment_reader.log.layouts import open_layout

    local = of_layout.pop("local", None)
    return open_layout(layout, storage, root, of_layout, None if local is None else open_storage(local)), root


def open_file(location: str, layout: str = PLAIN, options: Mapping[str, str] | None = None) -> tuple[Storage, str]:
    """The same for one file of a partition's folder, `<where logs lie>/<topic>-<partition>/<file>`."""
    if layout == PLAIN:
        return open_storage(location, layout, options)
    folder, name = parent(location)
    root, partition = parent(folder)
    storage, path = open_storage(root, layout, options)
    return storage, f"{path}/{partition}/{name}"


def _is_layout_s(name: str) -> bool:
    return name.startswith(LAYOUT_OPTION)


def _local(path: str) -> tuple[Storage, str]:
    return LocalStorage(), str(Path(path).absolute())


def child(location: str, name: str) -> str:
    """The location of a name below a location; a URI's query stays at its end."""
    path, mark, query = location.partition("?") if "://" in location else (location, "", "")
    return f"{path.rstrip('/')}/{name}{mark}{query}"


def parent(location: str) -> tuple[str, str]:
    """The location around a location, and the name in it: what `child` was made from."""
    path, mark, query = location.partition("?") if "://" in location else (location, "", "")
    around, _, name = path.rstrip("/").rpartition("/")
    return f"{around or '/'}{mark}{query}", name
