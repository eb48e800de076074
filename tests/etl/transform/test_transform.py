"""Steps as the job file has them: every kind is known, and a worker gets them without what reads job files."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pyarrow as pa

from kseg.etl.config.sections import STEP_KINDS
from kseg.etl.transform.arrow import ArrowStep
from kseg.etl.transform.transform import KINDS, BatchSteps

IN_A_WORKER = """
import pickle, sys
steps = pickle.loads(bytes.fromhex(sys.argv[1]))
print(len(steps.steps), {"pydantic", "pyspark", "kseg.etl.config"} & sys.modules.keys())
"""


def test_each_kind_of_the_job_file_has_its_step() -> None:
    assert tuple(KINDS) == STEP_KINDS
    for kind, make in KINDS.items():
        step = make("module:function", f"transform[0].{kind}")
        assert step.place == f"transform[0].{kind}"
        assert pickle.loads(pickle.dumps(step)) == step


def test_a_worker_loads_steps_without_spark_and_without_what_reads_job_files() -> None:
    pickled = pickle.dumps(BatchSteps((ArrowStep("module:function", "transform[0].arrow"),)))
    found = subprocess.run(
        [sys.executable, "-c", IN_A_WORKER, pickled.hex()], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "1 set()"


def test_a_step_passes_its_schema_on_to_the_next() -> None:
    def add(name: str) -> ArrowStep:
        return ArrowStep(lambda rows: rows.append_column(name, pa.nulls(rows.num_rows)), "transform[0].arrow")

    rows = pa.schema([("offset", pa.int64())])
    assert BatchSteps((add("a"), add("b"))).output_schema(rows).names == ["offset", "a", "b"]


def test_a_type_that_arrow_makes_no_column_of_from_values_may_pass_between_steps() -> None:
    union = pa.dense_union([pa.field("number", pa.int64()), pa.field("text", pa.string())])
    add = ArrowStep(lambda rows: rows.append_column("either", pa.nulls(rows.num_rows, union)), "transform[0].arrow")
    drop = ArrowStep(lambda rows: rows.drop_columns(["either"]), "transform[1].arrow")
    rows = pa.schema([("offset", pa.int64())])
    assert BatchSteps((add, drop)).output_schema(rows) == rows
