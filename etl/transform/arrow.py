"""Transform steps on Arrow batches, run in the worker: `module:function`, RecordBatch -> RecordBatch.

The schema that steps give is learnt in the driver from an empty batch, and every batch in a worker is held to it: a
function that builds a column without naming its type would otherwise give another type for another batch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from kseg.etl.errors import ConfigurationError
from kseg.etl.source.errors import ArrowStepError

Function = Callable[[pa.RecordBatch], pa.RecordBatch]

_REMEDY = "an Arrow step takes a pyarrow.RecordBatch and returns one, of the same columns and types for every batch"


@dataclass(frozen=True)
class ArrowSteps:
    """Steps in their order, each `module:function` or a function. Picklable; functions are imported where they run."""

    steps: tuple[str | Function, ...] = ()

    @classmethod
    def of(cls, steps: ArrowSteps | Sequence[str | Function]) -> ArrowSteps:
        return steps if isinstance(steps, ArrowSteps) else cls(tuple(steps))

    def __bool__(self) -> bool:
        return bool(self.steps)

    def __getstate__(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @cached_property
    def functions(self) -> tuple[tuple[str, Function], ...]:
        """Name and function of each step. Raises ConfigurationError where one cannot be imported."""
        return tuple(_load(step, number) for number, step in enumerate(self.steps))

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """The schema of what comes out, learnt from an empty batch of `rows`.

        Raises:
            ConfigurationError: a step cannot be imported, or fails on an empty batch, or gives no RecordBatch.
        """
        batch = pa.RecordBatch.from_pylist([], schema=rows)
        for number, (name, function) in enumerate(self.functions):
            path = f"transform[{number}].arrow"
            try:
                batch = function(batch)
            except Exception as error:
                text = f"{name} fails on a batch without rows: {type(error).__name__}: {error}"
                raise ConfigurationError.of(path, text, _REMEDY) from error
            if not isinstance(batch, pa.RecordBatch):
                raise ConfigurationError.of(path, f"{name} gave {type(batch).__name__}", _REMEDY)
        return batch.schema

    def apply(self, batch: pa.RecordBatch, expected: pa.Schema, address: dict[str, Any]) -> pa.RecordBatch:
        """All steps on one batch.

        expected: what `schema` told; address: where the batch's records come from, for errors.

        Raises:
            ArrowStepError: a step raised, or the outcome is no RecordBatch of the expected schema.
        """
        for name, function in self.functions:
            try:
                batch = function(batch)
            except Exception as error:
                raise ArrowStepError(f"{name} raised {type(error).__name__}: {error}", **address) from error
            if not isinstance(batch, pa.RecordBatch):
                raise ArrowStepError(f"{name} gave {type(batch).__name__}", remedy=_REMEDY, **address)
        if not batch.schema.equals(expected):
            told = f"the steps gave {_difference(expected, batch.schema)}"
            raise ArrowStepError(told, remedy=_REMEDY, **address)
        return batch


def _load(step: str | Function, number: int) -> tuple[str, Function]:
    if callable(step):
        return getattr(step, "__qualname__", repr(step)), step
    module, _, name = step.partition(":")
    path = f"transform[{number}].arrow"
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        remedy = "put the module where driver and workers find it: PYTHONPATH, --py-files, or an installed package"
        raise ConfigurationError.of(path, f"cannot load {step}: {error}", remedy) from error
    if not callable(function):
        raise ConfigurationError.of(path, f"{step} is no function")
    return step, function


def _difference(expected: pa.Schema, got: pa.Schema) -> str:
    if expected.names != got.names:
        return f"columns {got.names}, not {expected.names}"
    pairs = zip(expected, got, strict=True)
    return ", ".join(f"{_told(new)}, not {_told(old)}" for old, new in pairs if not new.equals(old))


def _told(field: pa.Field) -> str:
    return f"{field.name}: {field.type}" + ("" if field.nullable else " not null")
