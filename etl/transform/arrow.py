"""Steps that call a function on Arrow batches: `module:function`, RecordBatch -> RecordBatch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kseg.etl.errors import ConfigurationError
from kseg.etl.source.errors import ArrowStepError, OutOfMemoryError
from kseg.etl.transform.step import ONE_SCHEMA, Address, BatchStep
from kseg.etl.transform.user_frames import raised_at
from kseg.etl.transform.user_function import load_function

if TYPE_CHECKING:
    from kseg.etl.decoding.bad_records import BadRecords

Function = Callable[[pa.RecordBatch], pa.RecordBatch]

_WHERE = "put the module on the path of driver and workers: PYTHONPATH, --py-files, or an installed package"


@dataclass(frozen=True)
class ArrowStep(BatchStep):
    """function: `module:function`, imported where the step runs; or a function, which is pickled."""

    function: str | Function
    place: str

    def __getstate__(self) -> dict[str, Any]:
        return {"function": self.function, "place": self.place}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def references(self) -> tuple[str, ...]:
        return (self.function,) if isinstance(self.function, str) else ()

    @property
    def name(self) -> str:
        if isinstance(self.function, str):
            return self.function
        return getattr(self.function, "__qualname__", repr(self.function))

    @cached_property
    def loaded(self) -> Function:
        """The function. Raises ConfigurationError if it cannot be imported."""
        function = self.function
        return load_function(function, self.place, remedy=_WHERE) if isinstance(function, str) else function

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """The schema that the function returns for a batch without rows."""
        function = self.loaded
        # Not `from_pylist`: it cannot make columns of all types that an earlier step may return (unions).
        empty = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in rows], schema=rows)
        try:
            batch = function(empty)
        except Exception as error:
            text = f"{self.name} fails on a batch without rows: {type(error).__name__}: {error}"
            raise ConfigurationError.of(self.place, text, ONE_SCHEMA) from error
        if not isinstance(batch, pa.RecordBatch):
            raise ConfigurationError.of(self.place, f"{self.name} returned {type(batch).__name__}", ONE_SCHEMA)
        return batch.schema

    def apply(self, batch: pa.RecordBatch, address: Address, bad_records: BadRecords | None = None) -> pa.RecordBatch:
        function = self.loaded
        try:
            out = function(batch)
        except MemoryError as error:
            where = raised_at(error, self.references)
            raise OutOfMemoryError(f"in {self.name}", error, **address, step=self.place, **where) from error
        except Exception as error:
            remedy = "fix the function, or let it accept such records; its traceback is in the log"
            message = f"{self.name} raised {type(error).__name__}: {error}"
            where = raised_at(error, self.references)
            failed = ArrowStepError(message, remedy=remedy, **address, step=self.place, **where)
            if not isinstance(error, OSError):  # an OSError is caused by the machine, not by a record
                failed.step, failed.raised = self.place, message
            raise failed from error
        if not isinstance(out, pa.RecordBatch):
            raise ArrowStepError(f"{self.name} returned {type(out).__name__}", remedy=ONE_SCHEMA, **address)
        return out
