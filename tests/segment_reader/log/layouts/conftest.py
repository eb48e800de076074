"""What real brokers and plug-ins wrote (written.tar.xz), and objects of Aiven's layout made here, not by the reader."""

from __future__ import annotations

import base64
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from struct import pack
from uuid import UUID

import pytest
import zstandard

from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.log.files.segments import open_log
from kseg.segment_reader.log.files.storage import Storage
from kseg.segment_reader.log.scan.bounds import last_stable_offset, log_end_offset
from kseg.segment_reader.log.scan.record_sets import record_sets

TOPIC_ID = UUID("11111111-2222-3333-4444-555555555555")


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders `aiven-plain`, `aiven-compressed`, `aiven-encrypted` and `local-tiered-storage`, and `private.pem`.

    Each was written by a Kafka 3.9.2 with tiered storage on: `remote` is what its plug-in uploaded of partition 0 of
    topic orders (1.0.0 of Aiven's, with chunks of 8 KiB; Kafka's own LocalTieredStorage), `local` its log directory's
    newer segments, `rows.json` what librdkafka consumed of the whole partition, by isolation level.
    """
    folder = tmp_path_factory.mktemp("written")
    with tarfile.open(Path(__file__).with_name("written.tar.xz")) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="session")
def read() -> Callable[..., list[tuple[int, bytes | None, bytes | None]]]:
    """All rows (offset, key, value) of partition 0 of topic orders, or those of [start, end)."""

    def rows(
        storage: Storage, root: str, isolation: str = "read_uncommitted", start: int = 0, end: int | None = None
    ) -> list[tuple[int, bytes | None, bytes | None]]:
        log = open_log(storage, f"{root}/orders-0", "orders", 0)
        committed = isolation == "read_committed"
        if end is None:
            end = last_stable_offset(storage, log) if committed else log_end_offset(storage, log)
        decoder = RangeDecoder(
            "orders", 0, start, end, isolation_level="read_committed" if committed else "read_uncommitted"
        )
        found = []
        for records in record_sets(storage, log, start, end, read_committed=committed):
            for batch in decoder.feed(records.records, records.aborted):
                found += batch.select(["offset", "key", "value"]).to_pylist()
        for batch in decoder.finish():
            found += batch.select(["offset", "key", "value"]).to_pylist()
        return [(row["offset"], row["key"], row["value"]) for row in found]

    return rows


def kafka_text(identity: UUID) -> str:
    return base64.urlsafe_b64encode(identity.bytes).decode().rstrip("=")


def packed_sizes(sizes: Sequence[int]) -> bytes:
    """Chunk sizes as the plug-in packs them."""
    if len(sizes) < 2:
        return pack(">i", len(sizes)) + b"".join(pack(">i", size) for size in sizes)
    base = min(sizes[:-1])
    width = next(width for width in (1, 2, 3, 4) if max(sizes[:-1]) - base < 256**width)
    middle = b"".join((size - base).to_bytes(width, "big") for size in sizes[:-1])
    return pack(">iib", len(sizes), base, width) + middle + pack(">i", sizes[-1])


@dataclass(frozen=True)
class Uploads:
    """Uploads segments of topic orders, partition 0, in Aiven's layout."""

    root: Path

    def upload(
        self,
        first: int,
        last: int,
        *,
        epochs: Mapping[int, int],
        lineage: Mapping[int, int] | None = None,
        mark: bytes = b"",
        batch: int = 5,
        segment_id: int = 0,
        uploaded_ms: int = 0,
        topic_id: UUID = TOPIC_ID,
        compressed: bool = True,
    ) -> Path:
        """Offsets [first, last], in batches that begin at multiples of `batch`, of the epochs {epoch: first offset}.

        lineage: what the leader epoch file says, by default the epochs. mark: is put into each value.
        Returns the manifest's path.
        """
        folder = self.root / f"orders-{kafka_text(topic_id)}" / "0"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{first:020d}-{kafka_text(UUID(int=(segment_id << 64) + first + 1))}"
        data, offset = b"", first
        while offset <= last:
            end = min(last + 1, offset - offset % batch + batch)
            epoch = max(epoch for epoch, start in epochs.items() if start <= offset)
            values = [Record(value=b"%d%s" % (number, mark)) for number in range(offset, end)]
            made = encode_batch(values, base_offset=offset)
            data += made[:12] + pack(">i", epoch) + made[16:]  # the checksum does not cover a batch's leader epoch
            offset = end
        size = 100
        chunks = [data[at : at + size] for at in range(0, len(data), size)]
        if compressed:
            chunks = [zstandard.ZstdCompressor().compress(chunk) for chunk in chunks]
        index = {"type": "fixed", "transformedChunkSize": size, "finalTransformedChunkSize": len(chunks[-1])}
        if compressed:
            sizes = zstandard.ZstdCompressor().compress(packed_sizes([len(chunk) for chunk in chunks]))
            index = {"type": "variable", "transformedChunks": base64.b64encode(sizes).decode()}
        told = lineage or epochs
        leader_epochs = "\n".join(
            ["0", str(len(told)), *(f"{epoch} {start}" for epoch, start in told.items())]
        ).encode()
        nothing = {"position": 0, "size": 0}
        manifest = {
            "version": "1",
            "chunkIndex": index | {"originalChunkSize": size, "originalFileSize": len(data)},
            "segmentIndexes": {
                "offset": nothing,
                "timestamp": nothing,
                "producerSnapshot": nothing,
                "leaderEpoch": {"position": 0, "size": len(leader_epochs)},
                "transaction": None,
            },
            "compression": compressed,
            "remoteLogSegmentMetadata": {
                "remoteLogSegmentId": {
                    "topicIdPartition": {
                        "topicId": kafka_text(topic_id),
                        "topicPartition": {"topic": "orders", "partition": 0},
                    },
                    "id": name[21:],
                },
                "startOffset": first,
                "endOffset": last,
                "maxTimestampMs": 0,
                "brokerId": 1,
                "eventTimestampMs": uploaded_ms,
                "segmentLeaderEpochs": {
                    str(epoch): max(start, first) for epoch, start in epochs.items() if start <= last
                },
            },
        }
        (folder / f"{name}.log").write_bytes(b"".join(chunks))
        (folder / f"{name}.indexes").write_bytes(leader_epochs)
        path = folder / f"{name}.rsm-manifest"
        path.write_text(json.dumps(manifest))
        return path


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path / "remote")


@pytest.fixture(scope="session")
def pack_sizes() -> Callable[[Sequence[int]], bytes]:
    return packed_sizes


@pytest.fixture(scope="session")
def contents() -> Callable[[Storage, str], bytes]:
    def whole(storage: Storage, path: str) -> bytes:
        with closing(storage.open(path)) as file:
            return bytes(file.read(0, file.size))

    return whole
