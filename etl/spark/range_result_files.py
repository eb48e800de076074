"""What tasks have read, told through files beside the table where Spark has no accumulators to offer (Spark Connect).

    <table>/_kseg_outcomes/<run>/<pass>/<task>-<attempt>.json

One small file for each attempt that read its task to the end: the very map that an accumulator gathers, so the account
rests on the same comparison (`etl.spark.range_results`). Delta passes over folders that begin with an underscore;
`clear` removes the run's, also what an attempt of it left that was killed.
"""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow.fs as pafs

from kseg.etl.source.range_result import RangeResult
from kseg.etl.spark.range_results import Attempts
from kseg.etl.tables.parquet.storage import TableLocation

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
        for (task, attempt), outcome in term.items():
            # Under its own name only when it is whole: an attempt that lost may still be writing when this is read.
            path = f"{folder}/{task}-{attempt}"
            with store.fs.open_output_stream(f"{path}.part") as out:
                out.write(json.dumps(outcome.to_json()).encode())
            store.fs.move(f"{path}.part", f"{path}.json")

    @property
    def value(self) -> Attempts:
        """In the driver: what has been told so far, in the order in which it was found."""
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
        """Remove what all passes of the run have told. What cannot be removed is passed over."""
        store = self.location.open()
        with suppress(OSError):
            store.fs.delete_dir(store.path(f"{_FOLDER}/{self.run_id}"))
            if not store.fs.get_file_info(pafs.FileSelector(store.path(_FOLDER), allow_not_found=True)):
                store.fs.delete_dir(store.path(_FOLDER))
