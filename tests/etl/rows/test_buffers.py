"""Arrays made from buffers are those that pyarrow makes of the same values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kseg.etl.rows.buffers import as_numpy, integers, texts


@pytest.mark.parametrize("values", [[], [""], ["a", "", "größer", "\N{SNOWMAN}" * 300]])
def test_texts_are_those_of_pyarrow(values: list[str]) -> None:
    made = texts(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.string()))


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()], ids=str)
def test_integers_are_those_of_pyarrow(kind: pa.DataType) -> None:
    for values in ([], [0], [-1, 2**31 - 1, -(2**31)]):
        made = integers(values, kind)
        made.validate(full=True)
        assert made.equals(pa.array(values, kind))
    assert integers(np.zeros(3, np.int64), kind).equals(pa.array([0, 0, 0], kind))


def test_integers_are_read_without_a_copy() -> None:
    for values in ([], [1], [3, -4, 5]):
        array = pa.array([9, *values], pa.int32())[1:]
        assert as_numpy(array).tolist() == values
        assert as_numpy(array).dtype == np.int32
    assert as_numpy(array).ctypes.data == array.buffers()[1].address + array.offset * 4


def test_a_number_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(OverflowError):
        integers([2**31], pa.int32())
