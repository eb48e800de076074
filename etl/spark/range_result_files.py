"""Range results in files beside the table, where Spark has no accumulators (Spark Connect).

    <table>/_kseg_outcomes/<run>/<pass>/<task>-<attempt>.json

One small file for each attempt that read its task to the end: the same map that an accumulator collects, so the account
uses the same comparison (`etl.tasks.range_results`). Delta ignores folders that begin with an underscore;
`clear` removes the run's, also those of attempts that were killed.
"""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow.fs as pafs

from kseg.etl.source.range_result import RangeResult
from kseg.etl.tables.parquet.storage import TableLocation
from kseg.etl.tasks.range_results import Attempts

_FOLDER = "_kseg_outcomes"


@dataclass(frozen=True)
class RangeResultFiles:
    """Picklable: workers add, the driver asks for `value`."""

    location: TableLocation
    run_id: str
    one_pass: str = field(default_factory=lambda: uuid.uuid4().hex)
    _found: Attempts = field(default_factory=dict, repr=False, compare=False)

    def add(self, term: Attempts) -> None:
        """In a worker."""
        store = self.location.open()
        folder = store.path(f"{_FOLDER}/{self.run_id}/{self.one_pass}")
        store.fs.create_dir(folder, recursive=True)
        for (task, attempt), range_result in term.items():
            # Under its own name only when it is whole: an attempt that lost may still be writing when this is read.
            path = f"{folder}/{task}-{attempt}"
            with store.fs.open_output_stream(f"{path}.part") as out:
                out.write(json.dumps(range_result.to_json()).encode())
            store.fs.move(f"{path}.part", f"{path}.json")

    @property
    def value(self) -> Attempts:
        """In the driver: the results so far, in the order in which they were found."""
        store = self.location.open()
        folder = store.path(f"{_FOLDER}/{self.run_id}/{self.one_pass}")
        for info in store.fs.get_file_info(pafs.FileSelector(folder, allow_not_found=True)):
            task, _, attempt = info.base_name.removesuffix(".json").partition("-")
            if info.extension != "json" or (int(task), int(attempt)) in self._found:
                continue
            with store.fs.open_input_stream(info.path) as data:
                self._found[int(task), int(attempt)] = RangeResult.from_json(json.loads(data.read()))
        return self._found

    def clear(self) -> None:
        """Remove the files of all of the run's reads. Errors are ignored."""
        store = self.location.open()
        with suppress(OSError):
            store.fs.delete_dir(store.path(f"{_FOLDER}/{self.run_id}"))
            if not store.fs.get_file_info(pafs.FileSelector(store.path(_FOLDER), allow_not_found=True)):
                store.fs.delete_dir(store.path(_FOLDER))
