"""A table's `_delta_log` through Arrow's file systems, for stores that obstore does not open (`etl.ledger.log_files`):
HDFS, and Amazon S3 with credentials that only the AWS SDK finds.
"""

from __future__ import annotations

from kseg.etl.delta_log.folder import LogFile, LogFolder
from kseg.etl.ledger.log_files import DOING, LOG, log_folder
from kseg.etl.tables.parquet.storage import Opened, TableLocation


class ArrowLog(LogFolder):
    """See the module. A listing is of the whole folder."""

    def __init__(self, store: Opened) -> None:
        super().__init__(store.uri)
        self._store = store

    def _list(self, first: str) -> list[LogFile]:
        import pyarrow.fs as pafs

        with self._store.asked(DOING):
            found = self._store.fs.get_file_info(pafs.FileSelector(self._store.path(LOG), allow_not_found=True))
        files = (info for info in found if info.type == pafs.FileType.File and info.base_name >= first)
        return [LogFile(one.base_name, one.size) for one in files]

    def _read(self, name: str, first: int, length: int | None) -> bytes:
        path = self._store.path(f"{LOG}/{name}")
        with self._store.asked(DOING), self._store.fs.open_input_file(path) as file:
            file.seek(first)
            return bytes(file.read(length))


def log_of(location: TableLocation) -> LogFolder:
    """The log of a target table.

    Raises:
        ConfigurationError, RetriableFailure: the store rejects an option, or there is no client for it.
    """
    return log_folder(location.uri, dict(location.options)) or ArrowLog(location.open())
