"""Of a traceback through libraries, the user's own line is named, and the step of the job file that it belongs to."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kseg.etl.source.errors import ArrowStepError, PythonStepError
from kseg.etl.transform.arrow import ArrowStep
from kseg.etl.transform.python import PythonStep
from kseg.etl.transform.user_frames import Frame, step_of, user_frame

SOURCE = """
import json

def parse(batch):
    if batch.num_rows:
        json.loads("no JSON")
    return batch

def on_frame(rows):
    return json.loads("no JSON")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    package = tmp_path / "steps_of_a_test"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "orders.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "steps_of_a_test.orders"
    for name in [name for name in sys.modules if name.startswith("steps_of_a_test")]:
        del sys.modules[name]


def address(error: Any) -> tuple[Any, ...]:
    return (
        Path(str(error.address["file"])).name,
        error.address["function"],
        error.address["line"],
        error.address["step"],
    )


def test_an_arrow_steps_error_names_the_users_line_and_the_step(module: str) -> None:
    batch = pa.RecordBatch.from_pydict({"value": [b"x"]})
    with pytest.raises(ArrowStepError, match="JSONDecodeError") as caught:
        ArrowStep(f"{module}:parse", "transform[1].arrow").apply(batch, {"topic": "t", "partition": 0, "offset": 5})
    assert address(caught.value) == ("orders.py", "parse", 6, "transform[1].arrow")
    assert caught.value.address["offset"] == 5


def test_a_function_on_the_dataframe_that_raises_is_no_unexpected_error(module: str) -> None:
    with pytest.raises(PythonStepError, match=r"on_frame raised JSONDecodeError: Expecting value") as caught:
        PythonStep(f"{module}:on_frame", "transform[0].python").apply(None)  # type: ignore[arg-type]
    assert address(caught.value) == ("orders.py", "on_frame", 10, "transform[0].python")
    assert caught.value.remedy


FRAMES = [
    Frame("/spark/python/lib/pyspark.zip/pyspark/worker.py", 900, "main"),
    Frame("/job/steps/orders.py", 4, "clean"),
    Frame("/job/steps/text.py", 9, "strip"),
    Frame(str(Path(json.__file__)), 337, "decode"),
]


@pytest.mark.parametrize(
    ("frames", "references", "found"),
    [
        (FRAMES, ["steps.orders:clean"], FRAMES[2]),  # of the step's package, not of its module alone
        (FRAMES, [], FRAMES[2]),
        (FRAMES[:1], ["steps.orders:clean"], FRAMES[0]),  # nothing but libraries: better than nothing
        (
            [Frame("/env/lib/python3.11/site-packages/steps/orders.py", 4, "clean"), FRAMES[3]],
            ["steps.orders:clean"],
            None,
        ),
        ([], [], None),
    ],
)
def test_the_innermost_frame_of_the_user(frames: list[Frame], references: list[str], found: Frame | None) -> None:
    expected = found if found is not None or not frames else frames[0]  # an installed package of the user's
    assert user_frame(frames, references) == expected


def test_the_step_is_that_of_the_module_that_was_called() -> None:
    steps = {"transform[0].python": "steps.orders:clean", "transform[1].python": "steps.other:clean"}
    assert step_of(FRAMES, steps) == "transform[0].python"
    assert step_of(FRAMES[2:], steps) is None
    assert step_of(FRAMES, {**steps, "transform[2].python": "steps.orders:more"}) is None  # either of two


def test_no_module_is_found_in_another_of_the_same_end() -> None:
    assert step_of([Frame("/job/my_orders.py", 1, "f")], {"transform[0].python": "orders:f"}) is None
