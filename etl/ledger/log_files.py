"""A table's `_delta_log` on a local disk or in an object store, for `etl.delta_log`.

Object stores are read with obstore, which lists from a name on; Arrow's file systems and delta-rs' Python interface
cannot.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kseg.etl.delta_log.folder import BEHIND, LogFile, LogFolder
from kseg.etl.errors import KsegError, RetriableFailure
from kseg.etl.ledger.object_store import is_local, local_path, open_store
from kseg.etl.ledger.store_errors import store_error

if TYPE_CHECKING:
    from obstore.store import ObjectStore

LOG = "_delta_log"
DOING = "cannot read the table's log"
PAGE = 1000


class StoredLog(LogFolder):
    """The log of the target table at a location; use `log_folder`, which knows which locations can be opened."""

    def _failed(self, error: Exception) -> KsegError:
        return _failed(error, self.table)


class LocalLog(StoredLog):
    """On a local disk, without loading obstore for what is only read."""

    def read_all(self, names: Sequence[str]) -> list[bytes]:
        return [self.read(name) for name in names]  # threads take longer than a disk

    def _list(self, first: str) -> list[LogFile]:
        folder = Path(local_path(self.table), LOG)
        try:
            paths = [path for path in folder.iterdir() if path.name >= first]
            return [found for path in paths if (found := _local_file(path)) is not None]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._failed(error) from error

    def _read(self, name: str, first: int, length: int | None) -> bytes:
        try:
            with Path(local_path(self.table), LOG, name).open("rb") as file:
                file.seek(first)
                return file.read(-1 if length is None else length)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._failed(error) from error


class BucketLog(StoredLog):
    """In an object store."""

    def __init__(self, location: str, options: Mapping[str, str], store: ObjectStore) -> None:
        super().__init__(location)
        self._options = options
        self._store: ObjectStore | None = store

    def _opened(self) -> ObjectStore:
        """The store; opened again after a failure, since the environment may have other credentials by now."""
        if (store := self._store) is None:
            store = self._store = _opened(self.table, self._options)
            assert store is not None
        return store

    def _failed(self, error: Exception) -> KsegError:
        self._store = None
        return super()._failed(error)

    @property
    def _is_ordered(self) -> bool:
        """Whether the store lists in the order of names; S3's directory buckets do not."""
        return not urlsplit(self.table).netloc.endswith("--x-s3")

    def _list(self, first: str) -> list[LogFile]:
        import obstore
        from obstore.exceptions import BaseError

        found = []
        try:
            for page in obstore.list(self._opened(), LOG, offset=_before(first), chunk_size=PAGE):
                found += [LogFile(one["path"].partition(f"{LOG}/")[2], one["size"]) for one in page]
                # The listing goes on with the files of folders, such as a table's sidecars.
                if found and found[-1].name >= BEHIND and self._is_ordered:
                    break
        except (BaseError, OSError) as error:
            raise self._failed(error) from error
        return found

    def _read(self, name: str, first: int, length: int | None) -> bytes:
        import obstore
        from obstore.exceptions import BaseError, NotFoundError

        key, store = f"{LOG}/{name}", self._opened()
        try:
            if length is None and not first:
                return bytes(obstore.get(store, key).bytes())
            if length is None:
                return bytes(obstore.get(store, key, options={"range": {"offset": first}}).bytes())
            return bytes(obstore.get_range(store, key, start=first, length=length))
        except (NotFoundError, FileNotFoundError) as error:
            raise FileNotFoundError(name) from error
        except (BaseError, OSError) as error:
            raise self._failed(error) from error


def log_folder(location: str, options: Mapping[str, str] | None = None) -> StoredLog | None:
    """The log of a table; None where obstore does not open the store as delta-rs does (`open_store`).

    location: a local path or URL.

    Raises:
        ConfigurationError, RetriableFailure: the store rejects an option.
    """
    if is_local(location):
        return LocalLog(location)
    store = _opened(location, options or {})
    return None if store is None else BucketLog(location, options or {}, store)


def _opened(location: str, options: Mapping[str, str]) -> ObjectStore | None:
    from obstore.exceptions import BaseError

    try:
        return open_store(location, options)
    except (BaseError, OSError, ValueError) as error:
        raise _failed(error, location) from error


def _failed(error: Exception, table: str) -> KsegError:
    text = str(error).partition("\n\nDebug source")[0]
    return store_error(DOING, OSError(text), setting="sink", otherwise=RetriableFailure, table=table)


def _before(first: str) -> str:
    """A key before a name, and behind the names of earlier versions; a store lists what is behind a key."""
    return f"{LOG}/{first[:-1]}{chr(ord(first[-1]) - 1)}~"


def _local_file(path: Path) -> LogFile | None:
    """None: it is a folder, or was deleted since it was listed."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return LogFile(path.name, status.st_size) if stat.S_ISREG(status.st_mode) else None
