"""Files that change while they are read: a broker's work is let happen between any two operations of the reader.

The broker here is a script of single steps, each as small as a file system makes it: a piece of a batch is appended, a
segment is rolled, cleaned (`.cleaned`, `.swap`, `.deleted`, in a broker's own order), removed by retention. Hypothesis
chooses how many steps are taken before each operation. Whatever it chooses, rows are those that were written, whole up
to the end that was planned, without any of a transaction that was aborted; or the error is one that a retry helps.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_batches import encode_control_batch
from kseg.client import TopicPartition
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.errors import OffsetsLost
from kseg.etl.source.files.log_directories import LogCatalog
from kseg.etl.source.origin import LogFiles
from kseg.etl.source.reader import RangeReader
from kseg.etl.source.tasks import RangeTask
from kseg.segment_reader.decode.batch import ABORT_MARKER, COMMIT_MARKER
from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.log.errors import SegmentGone
from kseg.segment_reader.log.files.storage import StorageEntry

FOLDER = "root/topic-0"
Step = Callable[[], None]
Row = tuple[int, bytes | None, bytes | None]


@dataclass
class Batch:
    """What a cleaner needs to know of a batch: its records by offset (None: a marker), its transaction's end."""

    base: int
    records: dict[int, Record]
    last: int
    data: bytes
    producer: int = -1


@dataclass
class Inode:
    """A file's bytes, whatever its name is by now."""

    data: bytes = b""
    batches: list[Batch] = field(default_factory=list)


class Broker:
    """Files by name, and steps that change them. `truth`: what was written, by offset; `hidden`: what was aborted."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names: dict[str, Inode] = {f"{0:020d}.log": Inode()}
        self.offset = 0
        self.truth: dict[int, Row] = {}
        self.hidden: set[int] = set()
        self.superseded: set[int] = set()
        self.opened: dict[int, list[int]] = {}
        self.steps: Iterator[Step] = iter(())

    def take(self, count: int) -> None:
        for step in itertools.islice(self.steps, count):
            step()

    def logs(self) -> list[str]:
        return sorted(name for name in self.names if name.endswith(".log"))

    def script(self, work: list[str]) -> Iterator[Step]:
        for what in work:
            yield from getattr(self, what)()

    # --- what a broker does, step by step

    def data(self) -> Iterator[Step]:
        yield from self._append(self._batch(-1))

    def transaction(self) -> Iterator[Step]:
        producer = self.rng.choice([1, 2])
        batch = self._batch(producer)
        self.opened.setdefault(producer, []).extend(batch.records)
        yield from self._append(batch)

    def end(self) -> Iterator[Step]:
        if not self.opened:
            return
        producer = self.rng.choice(sorted(self.opened))
        aborted = self.rng.random() < 0.5
        offsets = self.opened.pop(producer)
        if aborted:
            self.hidden.update(offsets)
        marker = ABORT_MARKER if aborted else COMMIT_MARKER
        data = encode_control_batch(marker, base_offset=self.offset, producer_id=producer)
        yield from self._append(Batch(self.offset, {}, self.offset, data))

    def roll(self) -> Iterator[Step]:
        if self.names[self.logs()[-1]].data:
            name = f"{self.offset:020d}.log"
            yield lambda: self.names.update({name: Inode()})

    def clean(self) -> Iterator[Step]:
        """All segments but the last become one; transactions that are open keep what they have."""
        old = self.logs()[:-1]
        if not old or self.opened:
            return
        keep = self._newest([batch for name in old for batch in self.names[name].batches])
        made = Inode()
        cleaned = f"{old[0]}.cleaned"
        yield lambda: self.names.update({cleaned: made})
        for name in old:
            for batch in self.names[name].batches:
                rewritten = self._rewritten(batch, keep)
                if rewritten is not None:
                    made.batches.append(rewritten)
                    yield lambda rewritten=rewritten: setattr(made, "data", made.data + rewritten.data)
        swap = f"{old[0]}.swap"
        yield lambda: self._rename(cleaned, swap)
        for name in old:
            yield lambda name=name: self._rename(name, f"{name}.deleted")
        yield lambda: self._rename(swap, old[0])
        for name in old:
            yield lambda name=name: self._remove(f"{name}.deleted")

    def retain(self) -> Iterator[Step]:
        old = self.logs()[:-1]
        if old:
            yield lambda: self._rename(old[0], f"{old[0]}.deleted")
            yield lambda: self._remove(f"{old[0]}.deleted")

    # --- how

    def _batch(self, producer: int) -> Batch:
        records = {}
        for number in range(self.rng.randint(1, 4)):
            offset = self.offset + number
            key = b"k%d" % self.rng.randrange(4)
            records[offset] = Record(key=key, value=b"%d " % offset + b"v" * self.rng.choice([5, 2000]), timestamp=9)
            self.truth[offset] = (offset, key, records[offset].value)
        batch = Batch(self.offset, records, self.offset + len(records) - 1, b"", producer)
        batch.data = self._encoded(batch)
        return batch

    def _encoded(self, batch: Batch) -> bytes:
        of_producer: dict[str, Any] = {}
        if batch.producer >= 0:
            of_producer = {
                "producer_id": batch.producer,
                "producer_epoch": 0,
                "base_sequence": 0,
                "transactional": True,
            }
        return encode_batch(
            list(batch.records.values()),
            base_offset=batch.base,
            offset_deltas=[offset - batch.base for offset in batch.records],
            last_offset_delta=batch.last - batch.base,
            compression=self.rng.choice(["none", "lz4"]),
            **of_producer,
        )

    def _append(self, batch: Batch) -> Iterator[Step]:
        self.offset = batch.last + 1
        inode = self.names[self.logs()[-1]]
        inode.batches.append(batch)
        cuts = sorted({0, len(batch.data), *(self.rng.randrange(len(batch.data)) for _ in range(2))})
        for first, last in itertools.pairwise(cuts):
            yield lambda piece=batch.data[first:last]: setattr(inode, "data", inode.data + piece)

    def _newest(self, batches: list[Batch]) -> set[int]:
        newest: dict[bytes | None, int] = {}
        every = set()
        for batch in batches:
            for offset, record in batch.records.items():
                if offset not in self.hidden:
                    newest[record.key] = offset
                every.add(offset)
        keep = set(newest.values())
        self.superseded |= every - keep
        return keep

    def _rewritten(self, batch: Batch, keep: set[int]) -> Batch | None:
        if not batch.records:
            return batch  # a marker
        left = {offset: record for offset, record in batch.records.items() if offset in keep}
        if not left:
            return None
        made = Batch(batch.base, left, batch.last, b"", batch.producer)
        made.data = self._encoded(made)
        return made

    def _rename(self, old: str, new: str) -> None:
        self.names[new] = self.names.pop(old)

    def _remove(self, name: str) -> None:
        self.names.pop(name, None)


class OpenInode:
    def __init__(self, live: LiveStorage, path: str, inode: Inode) -> None:
        self.path, self.size = path, len(inode.data)
        self._live, self._inode = live, inode

    def read(self, position: int, length: int) -> memoryview:
        self._live.go_on()
        return memoryview(self._inode.data[position : position + length])

    def close(self) -> None:
        pass


class LiveStorage:
    """Storage in which the broker takes its next steps before every operation."""

    def __init__(self, broker: Broker, pace: list[int]) -> None:
        self.broker = broker
        self._pace = itertools.cycle(pace)

    def go_on(self) -> None:
        self.broker.take(next(self._pace))

    def list(self, folder: str) -> list[StorageEntry]:
        self.go_on()
        if folder == "root":
            return [StorageEntry("topic-0", True, 0)]
        return [StorageEntry(name, False, len(inode.data)) for name, inode in sorted(self.broker.names.items())]

    def open(self, path: str) -> OpenInode:
        self.go_on()
        name = path.removeprefix(f"{FOLDER}/")
        if name not in self.broker.names:
            raise SegmentGone(path, None, "there is no such file")
        return OpenInode(self, path, self.broker.names[name])

    def read_all(self, path: str) -> bytes:
        file = self.open(path)
        return bytes(file.read(0, file.size))


class LiveFiles(LogFiles):
    """Log directories whose storage is given."""

    storage: Any

    def open(self, location: str) -> tuple[Any, str]:
        return self.storage, "root"


def live_files(broker: Broker, pace: list[int]) -> LiveFiles:
    files = LiveFiles(("root",))
    object.__setattr__(files, "storage", LiveStorage(broker, pace))
    return files


WORK = ["data", "data", "transaction", "transaction", "end", "end", "roll", "clean", "retain"]
Isolation = Literal["read_committed", "read_uncommitted"]


def attempt(seed: int, before: list[str], meanwhile: list[str], pace: list[int], isolation: Isolation) -> list[int]:
    """Plan and read while the broker works; gives the offsets of the rows."""
    broker = Broker(random.Random(seed))
    for step in broker.script(before):
        step()
    broker.steps = broker.script(meanwhile)
    files = live_files(broker, pace)
    catalog = LogCatalog(files)
    tp = TopicPartition("topic", 0)
    bounds = catalog.bounds(tp)
    end = bounds.last_stable if isolation == "read_committed" else bounds.high_watermark
    task = RangeTask("topic", 0, bounds.start, end, folder=catalog.folder(tp))
    rows: list[Row] = []
    for batch in RangeReader(task, files, DecodeOptions(isolation_level=isolation)):
        rows += zip(*(batch.column(name).to_pylist() for name in ("offset", "key", "value")), strict=True)
    offsets = [row[0] for row in rows]
    assert offsets == sorted(set(offsets))
    assert rows == [broker.truth[offset] for offset in offsets]
    hidden = broker.hidden if isolation == "read_committed" else set()
    undecided = {offset for opened in broker.opened.values() for offset in opened}
    if isolation == "read_committed":
        assert not set(offsets) & (hidden | undecided)
    wanted = set(range(task.start, task.end)) & broker.truth.keys()
    assert wanted - broker.superseded - broker.hidden <= set(offsets) <= wanted
    return offsets


_work = st.lists(st.sampled_from(WORK), max_size=25)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@given(
    seed=st.integers(0, 1 << 20),
    before=_work,
    meanwhile=_work,
    pace=st.lists(st.integers(0, 4), min_size=1, max_size=12),
)
def test_whatever_happens_meanwhile_rows_are_right_or_a_retry_helps(
    isolation: Isolation, seed: int, before: list[str], meanwhile: list[str], pace: list[int]
) -> None:
    told: SegmentGone | OffsetsLost | None = None
    try:
        attempt(seed, before, meanwhile, pace, isolation)
    except (SegmentGone, OffsetsLost) as error:
        told = error
    if isinstance(told, OffsetsLost):
        assert (told.reason, "retain" in [*before, *meanwhile]) == ("retention", True)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("pace", range(1, 40))
def test_a_cleaning_at_any_moment_costs_no_row(isolation: Isolation, pace: int) -> None:
    """Without retention there is no reason to fail: the reader lists anew and goes on where it was."""
    before = [
        "transaction",
        "data",
        "end",
        "roll",
        "data",
        "data",
        "roll",
        "transaction",
        "end",
        "data",
        "roll",
        "data",
    ]
    waits = [0] * (pace - 1) + [100]
    assert attempt(5, before, ["clean", "data", "roll", "clean"], waits, isolation)


def test_segments_that_retention_takes_under_a_reader_are_lost() -> None:
    """Told as such, and not as damage: the rows before them were handed on, those in them nobody has any more."""
    before = ["data", "data", "roll", "data", "roll", "data", "roll", "data"]
    told = set()
    for pace in range(1, 30):
        try:
            attempt(3, before, ["retain", "retain", "retain"], [0] * (pace - 1) + [100], "read_uncommitted")
        except OffsetsLost as lost:
            told.add(lost.reason)
    assert told == {"retention"}
