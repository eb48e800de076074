"""Arrow steps: resolved by name, held to one schema, errors with an address."""

from __future__ import annotations

import pickle
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kseg.etl.errors import ConfigurationError
from kseg.etl.source.errors import ArrowStepError
from kseg.etl.transform.arrow import ArrowStep, Function
from kseg.etl.transform.transform import NO_STEPS, BatchSteps

ROWS = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())])
ADDRESS = {"topic": "orders", "partition": 1, "offset": 5}


def steps_of(*functions: str | Function) -> BatchSteps:
    return BatchSteps(tuple(ArrowStep(one, f"transform[{number}].arrow") for number, one in enumerate(functions)))


def batch() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([ADDRESS | {"value": b"ab"}, ADDRESS | {"offset": 6, "value": None}], schema=ROWS)


def lengths(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.append_column("length", pc.binary_length(rows.column("value")))


def long_ones(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.filter(pc.greater(rows.column("length"), 1))


def untyped(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.append_column(
        "upper", pa.array([value and value.upper() for value in rows.column("value").to_pylist()])
    )


def breaks(rows: pa.RecordBatch) -> pa.RecordBatch:
    if rows.num_rows:
        raise KeyError("no such field")
    return rows


def gives_a_table(rows: pa.RecordBatch) -> Any:
    return pa.Table.from_batches([rows])


@pytest.fixture
def module() -> Iterator[str]:
    """An importable module with these steps; pytest's own names for test modules cannot be imported."""
    made = types.ModuleType("steps_of_a_user")
    for step in (lengths, long_ones, untyped, breaks, gives_a_table):
        setattr(made, step.__name__, step)
    made.constant = 1  # type: ignore[attr-defined]
    sys.modules[made.__name__] = made
    yield made.__name__
    del sys.modules[made.__name__]


def test_steps_run_in_their_order(module: str) -> None:
    steps = steps_of(f"{module}:lengths", f"{module}:long_ones")
    schema = steps.output_schema(ROWS)
    assert schema.names == [*ROWS.names, "length"]
    out = steps.apply(batch(), schema, ADDRESS)
    assert out.to_pylist() == [ADDRESS | {"value": b"ab", "length": 2}]


def test_steps_pickle_without_their_functions(module: str) -> None:
    steps = steps_of(f"{module}:lengths")
    assert steps.output_schema(ROWS)  # imports its functions
    back = pickle.loads(pickle.dumps(steps))
    assert back == steps
    assert back.output_schema(ROWS) == steps.output_schema(ROWS)


def test_no_steps_keep_the_schema() -> None:
    assert not NO_STEPS
    assert NO_STEPS.output_schema(ROWS) == ROWS


@pytest.mark.parametrize("name", ["missing_module:f", "{module}:missing", "{module}:constant"])
def test_a_step_that_cannot_be_loaded_is_bad_configuration(module: str, name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        steps_of(lengths, name.format(module=module)).output_schema(ROWS)
    assert caught.value.faults[0].path == "transform[1].arrow"


@pytest.mark.parametrize(
    ("step", "message"), [(gives_a_table, "returned Table"), (lambda rows: rows.column("nothing"), "KeyError")]
)
def test_a_step_that_fails_without_rows_is_bad_configuration(
    step: Callable[[pa.RecordBatch], pa.RecordBatch], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        steps_of(step).output_schema(ROWS)


def test_a_failing_step_tells_which_batch() -> None:
    steps = steps_of(breaks)
    with pytest.raises(ArrowStepError, match="breaks raised KeyError: 'no such field'") as caught:
        steps.apply(batch(), steps.output_schema(ROWS), ADDRESS)
    assert ADDRESS.items() <= caught.value.address.items()
    assert (caught.value.address["step"], caught.value.address["function"]) == ("transform[0].arrow", "breaks")
    assert pickle.loads(pickle.dumps(caught.value)).address == caught.value.address


def test_a_type_that_depends_on_the_rows_is_told() -> None:
    steps = steps_of(untyped)
    with pytest.raises(ArrowStepError, match=r"upper: binary, not .*upper: null"):
        steps.apply(batch(), steps.output_schema(ROWS), ADDRESS)


def test_other_columns_are_told() -> None:
    steps = steps_of(lambda rows: lengths(rows) if rows.num_rows else rows)
    with pytest.raises(ArrowStepError, match="columns"):
        steps.apply(batch(), steps.output_schema(ROWS), ADDRESS)
