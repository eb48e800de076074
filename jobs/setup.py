"""The second half of ``make setup``: Java, the jars, and what makes Spark start fast. ``python -m kseg.jobs.setup``."""

from __future__ import annotations

import contextlib
import subprocess
import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from kseg.etl.spark import class_archive, jvm
from kseg.jobs.broker import class_archive as broker_class_archive
from kseg.jobs.broker import jars, shared_classes
from kseg.jobs.broker.errors import BrokerError
from kseg.jobs.broker.java import find_java, use_java


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
    try:
        use_java()
        fetch_jars(jars.KAFKA, jars.DELTA)
        compile_decoder()
        compile_payload_decoders()
    except BrokerError as error:
        print(f"{error} {error.remedy or ''}".strip(), file=sys.stderr)
        return int(error.exit_code)
    keep_classes()
    return 0


def keep_classes() -> None:
    """Keep the classes of a Spark and of a broker that start, where that was not done yet; without, starts are slow."""
    archives = {
        "Spark": (jvm.archive_path(), class_archive.make_archive),
        "Kafka": (shared_classes.archive_path(find_java()), broker_class_archive.make_archive),
    }
    for name, (path, make) in archives.items():
        if not path.exists():
            print(f"Archiving {name}'s classes for a faster start …", file=sys.stderr)
            with contextlib.suppress(OSError, subprocess.SubprocessError, BrokerError):
                make()


if __name__ == "__main__":
    sys.exit(main())
