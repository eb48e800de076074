"""Rows as the decoder gives them, and a table's readers: Spark, delta-rs, DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kseg.etl.tables.delta.commit import DeltaTarget
from kseg.etl.tables.file_names import FileOwner
from kseg.etl.tables.parquet.data_file import WriterOptions
from kseg.etl.tables.parquet.schema import sink_schema
from kseg.etl.tables.parquet.task_output import WrittenFile, read_task_output, written_files
from kseg.etl.tables.parquet.writer import LandingPlan, land
from kseg.etl.tables.removal import Removal
from kseg.etl.tables.values import FoundCommit, NewCommit, RunCommit
from kseg.segment_reader.decode.schema import arrow_schema

if TYPE_CHECKING:
    import duckdb

APP = "kseg/ledger/job"


def kafka_rows(
    start: int = 0, end: int = 100, *, topic: str = "orders", partition: int = 0, value: bytes = b"value"
) -> pa.RecordBatch:
    """Decoded rows of the offsets [start, end): keys are the offsets, every third value is null."""
    offsets = range(start, end)
    columns = {
        "key": [b"%d" % n for n in offsets],
        "value": [None if n % 3 == 0 else value + b"-%d" % n for n in offsets],
        "topic": [topic] * len(offsets),
        "partition": [partition] * len(offsets),
        "offset": list(offsets),
        "timestamp": [1_767_225_600_000_000 + n * 1_000 for n in offsets],
        "timestampType": [0] * len(offsets),
        "headers": [[{"key": "h", "value": b"%d" % n}] if n % 2 else None for n in offsets],
    }
    schema = arrow_schema(headers=True, provenance=False)
    arrays = [pa.array(columns[f.name], f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass
class Lander:
    """Writes and commits in one process what Spark's tasks and the driver do together."""

    target: DeltaTarget

    @property
    def path(self) -> str:
        return self.target.location.uri

    def write(
        self,
        batches: Sequence[pa.RecordBatch],
        run_id: str = "run-1",
        *,
        task: int = 0,
        attempt: int = 0,
        partition_by: Sequence[str] = (),
        merge_schema: bool = False,
        options: WriterOptions | None = None,
        schema: pa.Schema | None = None,
        addresses: bool = True,
        number: int | None = 1,
    ) -> list[WrittenFile]:
        sink = sink_schema(schema or batches[0].schema, addresses=addresses)
        ready = self.target.ensure(sink, partition_by=partition_by, merge_schema=merge_schema)
        table = ready.write
        plan = LandingPlan(FileOwner(run_id, number), sink, (table,), None, options or WriterOptions())
        return list(written(land(iter(batches), plan, task=task, attempt=attempt)))

    def commit(
        self,
        files: Sequence[WrittenFile],
        run_id: str = "run-1",
        number: int = 1,
        *,
        app: str = APP,
        remove: Removal | None = None,
        **more: Any,
    ) -> NewCommit | FoundCommit:
        return self.target.commit(files, RunCommit(run_id, app, number, {"ranges": []}), remove=remove, **more)

    def land(
        self,
        *batches: pa.RecordBatch,
        run_id: str = "run-1",
        number: int = 1,
        app: str = APP,
        remove: Removal | None = None,
        **how: Any,
    ) -> NewCommit | FoundCommit:
        return self.commit(self.write(batches, run_id, number=number, **how), run_id, number, app=app, remove=remove)

    def offsets(self) -> list[tuple[str, int, int]]:
        """All addresses in the table, sorted; duplicates stay."""
        table = self.target.load()
        assert table is not None
        rows = pa.table(table.scan(columns=["topic", "partition", "offset"]).read_all()).to_pylist()
        return sorted((r["topic"], r["partition"], r["offset"]) for r in rows)


def written(facts: Iterable[pa.RecordBatch]) -> list[WrittenFile]:
    return written_files(fact for batch in facts for fact in read_task_output(batch.to_pylist()))


@pytest.fixture
def rows() -> Callable[..., pa.RecordBatch]:
    """`rows(start, end, topic=, partition=)`: a decoded batch."""
    return kafka_rows


@pytest.fixture
def lander(tmp_path: Path) -> Callable[..., Lander]:
    """`lander(name)`: a table in this test's folder."""
    return lambda name="table", **how: Lander(DeltaTarget(str(tmp_path / name), **how))


@pytest.fixture(scope="session")
def new_lander(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Lander]:
    """`new_lander()`: a table in a folder of its own, for tests that run many examples."""
    return lambda: Lander(DeltaTarget(str(tmp_path_factory.mktemp("lander") / "table")))


@pytest.fixture(scope="session")
def duck() -> duckdb.DuckDBPyConnection:
    """DuckDB with its Delta extension, which is a build of delta-kernel: a third reader of its own make."""
    import duckdb
    import duckdb_ext

    (extension,) = (e for root in duckdb_ext.__path__ for e in Path(root).rglob("delta.duckdb_extension"))
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection
