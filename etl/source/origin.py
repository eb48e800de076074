"""The origin of records: brokers, or files that brokers left behind. Values alone; `logs` and `reader` open them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from kseg.client.config import ClientConfig
from kseg.etl.errors import ConfigurationError
from kseg.segment_reader.log.files.locations import open_storage, parent
from kseg.segment_reader.log.files.storage import PLAIN, Storage

Untimed = Literal["refuse", "include"]
"""Records of message format 0 where a range is asked for by time: refused, as by a broker (error 43), or all taken."""


@dataclass(frozen=True, slots=True)
class LogFiles:
    """Folders of `log.dirs`, or copies of them: paths, or URIs of object stores. Picklable; takes the place of a
    worker's `ClientConfig`, which is for brokers.

    layout: in which form the logs lie there, as `segment_reader.log.layouts` names it; "kafka" is a broker's own.
    options: options of the store and of the layout. They may hold secrets: they are not shown, but they are sent to
        the workers.
    past_damage: damage does not end a log (`segment_reader.log.damage.salvage`).
    untimed: what a range by time means where records have none.
    """

    log_dirs: tuple[str, ...]
    layout: str = PLAIN
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    past_damage: bool = False
    untimed: Untimed = "refuse"

    def open(self, location: str) -> tuple[Storage, str]:
        """The storage that holds a folder of `log_dirs`, and the folder's path in it. Raises ConfigurationError."""
        try:
            return _opened(location, self.layout, self.options)
        except ValueError as error:
            raise ConfigurationError.of("log.dirs", str(error)) from error

    def open_folder(self, folder: str) -> tuple[Storage, str]:
        """The same for a partition's folder, which is where `RangeTask.folder` says. Raises ConfigurationError."""
        log_dir, name = parent(folder)
        storage, path = self.open(log_dir)
        return storage, f"{path}/{name}"


@lru_cache(maxsize=16)
def _opened(location: str, layout: str, options: tuple[tuple[str, str], ...]) -> tuple[Storage, str]:
    """Kept: a client of an object store has connections, and a layout what it has read of the store."""
    return open_storage(location, layout, dict(options))


#: Where a task's bytes come from. Picklable: it goes to the workers.
Origin = ClientConfig | LogFiles
