"""``kseg setup``, the second half of ``make setup``: Java, the jars, compiled decoders, archives of Java classes.

It makes what is missing, and writes the stamp by which ``make`` sees that it need not run again
(`jobs/setup_stamp.py`).
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from kseg.etl.spark import class_archive, jvm
from kseg.jobs import setup_stamp
from kseg.jobs.broker import class_archive as broker_class_archive
from kseg.jobs.broker import jars, shared_classes
from kseg.jobs.broker.errors import LocalServerError
from kseg.jobs.broker.java import find_java, use_java

JARS = (jars.KAFKA, jars.DELTA)


def fetch_jars(*names: str) -> None:
    """Fetch what is missing of these jar sets, with a bar on standard error while it takes time.

    Raises JavaMissing, JarsUnavailable.
    """
    missing = [name for name in names if not jars.present(name)]
    if not missing:
        return
    columns = (TextColumn("Fetching {task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("jars"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks = {name: bars.add_task(name, total=len(jars.locked_sets()[name])) for name in missing}
        for name in missing:
            jars.ensure(name, progress=lambda name, done, _: bars.update(tasks[name], completed=done))


def compile_decoders() -> None:
    """Compile the functions that decode records and payloads, those that are not compiled yet."""
    compile_decoder()
    compile_payload_decoders()


def compile_decoder() -> None:
    """Decode one record of each kind, so that the compiled code is in its cache before a job's workers need it."""
    from kseg.segment_reader.decode.range_decoder import RangeDecoder
    from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set

    batch = encode_batch([Record(b"key", b"value", (("header", b"value"),), 0)])
    message = encode_message_set([Record(b"key", b"value", (), 0)], magic=1)
    for records in (batch, message):
        for provenance in (False, True):
            decoder = RangeDecoder("topic", 0, 0, 1, isolation_level="read_committed", provenance=provenance)
            rows = [*decoder.feed(records), *decoder.finish()]
            assert sum(batch.num_rows for batch in rows) == 1


def compile_payload_decoders() -> None:
    """The same for payloads: one kernel a format takes every schema."""
    import pyarrow as pa

    from kseg.segment_reader.payload.avro.decoder import avro_decoder
    from kseg.segment_reader.payload.avro.schema import parse_schema
    from kseg.segment_reader.payload.json.decoder import json_decoder

    record = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}'
    for decoder, payload in (
        (avro_decoder(parse_schema(record)), b"\x02"),
        (json_decoder(pa.struct([("n", pa.int64())])), b'{"n": 1}'),
    ):
        assert decoder.decode(pa.array([payload], pa.binary())).rows[0]["n"].as_py() == 1


def main() -> int:
    made_from = setup_stamp.inputs()
    try:
        use_java()
        fetch_jars(*JARS)
        compile_decoders()
    except LocalServerError as error:
        print(f"{error} {error.remedy or ''}".strip(), file=sys.stderr)
        return int(error.exit_code)
    keep_classes()
    with contextlib.suppress(OSError):  # an environment that others own: only slower the next time
        setup_stamp.write(made_from, outputs())
    return 0


def keep_classes() -> None:
    """Archive the classes of a Spark and of a broker that start, unless it was done; without, they start slowly."""
    makers = (("Spark", class_archive.make_archive), ("Kafka", broker_class_archive.make_archive))
    for path, (name, make) in zip(archives(), makers, strict=True):
        if not path.exists():
            print(f"Archiving {name}'s classes for a faster start …", file=sys.stderr)
            with contextlib.suppress(OSError, subprocess.SubprocessError, LocalServerError):
                make()


def archives() -> tuple[Path, Path]:
    """The archives of Spark's and of Kafka's classes, whether or not they exist yet."""
    return jvm.archive_path(), shared_classes.archive_path(find_java())


def outputs() -> Iterator[Path]:
    """The files that a setup leaves behind."""
    from kseg.segment_reader.decode.jit import cache_entries

    for name in JARS:
        yield from (jars.directory(name) / jar.kept for jar in jars.locked_sets()[name])
    yield from archives()
    yield from cache_entries()


if __name__ == "__main__":
    sys.exit(main())
