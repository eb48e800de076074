"""What processes do that race in tests. A module of its own: a new process finds it on the path that it is given."""

from kseg.etl.tables.delta.commit import DeltaTarget
from kseg.etl.tables.parquet.schema import sink_schema


def commit(path, rounds, barrier, results):
    """In each round commit some files for some run, together with the others; put the run and the outcome's name."""
    for files, run in rounds:
        barrier.wait(120)
        results.put((run.run_id, type(DeltaTarget(path).commit(files, run)).__name__))


def ensure(schema, paths, barrier, results):
    """Make each table together with the others; put its path, id and version."""
    for path in paths:
        barrier.wait(120)
        ready = DeltaTarget(path).ensure(sink_schema(schema))
        results.put((path, ready.state.id, ready.state.version))
