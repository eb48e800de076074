"""The forms of logs in a remote store: those of tiered storage plug-ins, and your own.

    open_storage("s3://bucket/tiered", "aiven")                  a `Storage` with a broker's folder structure

    kafka     a broker's own folders, and copies of them
    copies    segment files one by one, under names with more than an offset; Kafka's own LocalTieredStorage (copies.py)
    aiven     objects of Aiven's plug-in: manifest, chunks, one object for all indexes (aiven.py)

A layout of your own is a function `(storage, root, options) -> Layout` (see `remote.Layout`: list partitions, list
segments, open a segment, read a small file), found by an entry point:

    [project.entry-points."kafka_segment_etl.layouts"]
    mine = "my_package.tiered:open_layout"

What all of them share, above all which of several copies of an offset is read, is in `remote` and `lineage`.
The option `local` of every layout names the folder of `log.dirs` whose newer segments go on where the remote ones end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from kseg.segment_reader.log.files.storage import PLAIN, Storage

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

    from kseg.segment_reader.log.layouts.remote import Layout

GROUP: Final = "kafka_segment_etl.layouts"
_OWN: Final = {
    "aiven": "kseg.segment_reader.log.layouts.aiven:Aiven",
    "copies": "kseg.segment_reader.log.layouts.copies:CopiedFolders",
}

Factory = Callable[[Storage, str, Mapping[str, str]], "Layout"]


def layout_names() -> list[str]:
    """The names of all layouts, built in or installed."""
    return sorted({PLAIN, *_OWN, *(point.name for point in _installed())})


def open_layout(
    name: str, storage: Storage, root: str, options: Mapping[str, str], local: tuple[Storage, str] | None = None
) -> Storage:
    """The logs below `root` of a storage, as folders of partitions. Raises ValueError: no such layout, bad options.

    local: the storage and path of the broker's folder whose newer segments continue the remote ones.
    """
    from kseg.segment_reader.log.layouts.remote import RemoteStorage  # it compiles what reads logs

    layout = _factory(name)(storage, root, options)
    return RemoteStorage(layout, storage, root, local)


def _factory(name: str) -> Factory:
    if name in _OWN:
        module, _, attribute = _OWN[name].partition(":")
        own: Factory = getattr(import_module(module), attribute)
        return own
    for point in _installed().select(name=name):
        found: Factory = point.load()
        return found
    if name == PLAIN:
        raise ValueError("layout.… options belong to a layout of remote objects, not to a broker's own folders")
    raise ValueError(f"{name!r} is not a layout: there are {', '.join(layout_names())}")


def _installed() -> EntryPoints:
    from importlib.metadata import entry_points  # loads the package `email`; few jobs name a layout

    return entry_points(group=GROUP)
