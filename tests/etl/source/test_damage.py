"""Files are read past damage: every row is landed right or lies in a range that is told, never is a row wrong.

The segments are small and hold every message format, so that each byte of them can be damaged in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_batches import encode_control_batch
from kseg.client import TopicPartition
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.files.log_directories import LogCatalog
from kseg.etl.source.origin import LogFiles
from kseg.etl.source.range_result import RangeResult
from kseg.etl.source.reader import RangeReader
from kseg.etl.source.tasks import RangeTask
from kseg.segment_reader.decode.aborted_past_damage import UNDECIDED
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set, seal
from kseg.segment_reader.log.damage.check import check_partition
from kseg.segment_reader.log.damage.damage import CUT_OFF, ENDS_EARLY, ZEROS, Damage
from kseg.segment_reader.log.errors import LogDamaged
from kseg.segment_reader.log.files.storage import LocalStorage

ABORT, COMMIT = 0, 1
TP = TopicPartition("orders", 0)
Row = tuple[bytes | None, bytes | None, Any, Any]


@dataclass
class Log:
    """A partition's segments, and what is in them."""

    segments: dict[int, bytes] = field(default_factory=dict)
    committed: dict[int, Row] = field(default_factory=dict)
    aborted: dict[int, Row] = field(default_factory=dict)
    starts: list[tuple[int, int]] = field(default_factory=list)  # segment, position of each batch
    bytes_of: dict[int, bytes] = field(default_factory=dict)  # of the batch that holds an offset

    def truth(self, isolation: str) -> dict[int, Row]:
        return self.committed if isolation == "read_committed" else self.committed | self.aborted

    @property
    def size(self) -> int:
        return sum(map(len, self.segments.values()))

    def write(self, log_dir: Path, damage: dict[int, bytes] | None = None) -> None:
        folder = log_dir / "orders-0"
        folder.mkdir(parents=True, exist_ok=True)
        for base, data in (self.segments | (damage or {})).items():
            (folder / f"{base:020d}.log").write_bytes(data)


class Builder:
    """Appends batches of records that say which they are."""

    def __init__(self) -> None:
        self.log = Log()
        self.end = 0
        self._base = 0

    def roll(self) -> None:
        self._base = self.end
        self.log.segments[self._base] = b""

    def add(
        self, count: int, *, magic: int = 2, codec: str = "none", producer: int = -1, aborted: bool = False
    ) -> None:
        rows = [
            Record(b"k%d" % (self.end + n), b"value %d" % (self.end + n) * 3, timestamp=1_767_225_600_000 + n)
            for n in range(count)
        ]
        if magic == 2:
            data = encode_batch(
                rows, base_offset=self.end, compression=codec, producer_id=producer, transactional=producer >= 0
            )
        else:
            data = encode_message_set(rows, magic=magic, base_offset=self.end, compression=codec)
        self.log.bytes_of |= dict.fromkeys(range(self.end, self.end + count), data)
        for row in rows:
            kind = (row.timestamp, 0) if magic else (None, -1)
            (self.log.aborted if aborted else self.log.committed)[self.end] = (row.key, row.value, *kind)
            self.end += 1
        self._append(data)

    def mark(self, kind: int, producer: int) -> None:
        self._append(encode_control_batch(kind, base_offset=self.end, producer_id=producer))
        self.end += 1

    def skip(self, count: int) -> None:
        """Compaction has been here."""
        self.end += count

    def _append(self, data: bytes) -> None:
        self.log.starts.append((self._base, len(self.log.segments[self._base])))
        self.log.segments[self._base] += data


def all_formats() -> Log:
    made = Builder()
    made.roll()
    made.add(2, magic=0)
    made.add(3, magic=0, codec="gzip")
    made.add(2, magic=1)
    made.add(3, magic=1, codec="snappy")
    made.roll()
    made.add(3)
    made.add(3, codec="lz4")
    made.add(2, producer=1)
    made.add(1, producer=2, aborted=True)
    made.mark(ABORT, 2)
    made.mark(COMMIT, 1)
    made.add(2)
    made.roll()
    made.add(2, producer=1, aborted=True)
    made.add(1)
    made.mark(ABORT, 1)
    made.add(2, producer=1)
    made.mark(COMMIT, 1)
    made.add(3)
    made.add(1, codec="zstd")
    return made.log


LOG = all_formats()


@dataclass
class Reading:
    rows: dict[int, Row]
    outcomes: list[RangeResult]
    kept: dict[tuple[str, int], bytes]

    @property
    def damages(self) -> list[Damage]:
        return [damage for outcome in self.outcomes for damage in outcome.damages]

    def misses(self, offset: int) -> bool:
        return any(damage.first <= offset < damage.last for damage in self.damages)


class Kept:
    """Keeps damaged bytes in memory, and sees that no damage comes twice."""

    def __init__(self) -> None:
        self.bytes: dict[tuple[str, int], bytes] = {}

    def keep(self, damage: Damage, pieces: Iterator[bytes]) -> None:
        key = (damage.file, damage.position)
        assert key not in self.bytes
        self.bytes[key] = b"".join(pieces)

    def close(self) -> tuple[str, ...]:
        return ()


def read(log_dir: Path, isolation: str = "read_committed", cuts: tuple[int, ...] = ()) -> Reading:
    """The whole partition to its log's end, by one task or by several."""
    catalog = LogCatalog(LogFiles((str(log_dir),), past_damage=True))
    bounds = catalog.bounds(TP)
    edges = sorted(
        {bounds.start, bounds.high_watermark, *(c for c in cuts if bounds.start < c < bounds.high_watermark)}
    )
    options = DecodeOptions(isolation_level=isolation, on_corruption="quarantine")  # type: ignore[arg-type]
    keep = Kept()
    rows: dict[int, Row] = {}
    outcomes = []
    for start, end in itertools.pairwise(edges):
        task = RangeTask("orders", 0, start, end, folder=f"{log_dir}/orders-0", leads=start == bounds.start)
        reader = RangeReader(task, LogFiles((str(log_dir),)), options, keep)
        for batch in reader:
            for row in batch.to_pylist():
                assert start <= row["offset"] < end
                assert row["offset"] not in rows
                stamp = row["timestamp"]
                millis = None if stamp is None else round(stamp.timestamp() * 1000)
                rows[row["offset"]] = (row["key"], row["value"], millis, row["timestampType"])
        assert reader.result.accounted, reader.result
        outcomes.append(reader.result)
    return Reading(rows, outcomes, keep.bytes)


def judge(log: Log, log_dir: Path, isolation: str = "read_committed", cuts: tuple[int, ...] = ()) -> Reading:
    """Reads, and holds what came against the rows that were written."""
    found = read(log_dir, isolation)
    truth = log.truth(isolation)
    wrong = {offset: row for offset, row in found.rows.items() if truth.get(offset) != row}
    assert not wrong, (wrong, found.damages)
    assert not [offset for offset in found.rows if found.misses(offset)]
    if cuts:
        parted = read(log_dir, isolation, cuts)
        assert parted.rows == found.rows
        assert sorted(parted.damages, key=_place) == sorted(found.damages, key=_place)
        assert parted.kept == found.kept
        assert sum(o.unreadable for o in parted.outcomes) == sum(o.unreadable for o in found.outcomes)
    return found


def _place(damage: Damage) -> tuple[str, int]:
    return damage.file, damage.position


def missing(log: Log, found: Reading, isolation: str = "read_committed") -> list[int]:
    """Rows that neither came nor lie in a range that was told."""
    return [offset for offset in log.truth(isolation) if offset not in found.rows and not found.misses(offset)]


def flipped(log: Log, base: int, at: int, mask: int) -> dict[int, bytes]:
    data = bytearray(log.segments[base])
    data[at] ^= mask
    return {base: bytes(data)}


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_what_is_whole_has_no_damage(tmp_path: Path, isolation: str) -> None:
    LOG.write(tmp_path)
    found = judge(LOG, tmp_path, isolation, cuts=tuple(range(1, 40)))
    assert (found.rows, found.damages, found.kept) == (LOG.truth(isolation), [], {})
    faults = check_partition(LocalStorage(), str(tmp_path / "orders-0"), "orders", 0, deep=True).faults
    assert [fault for fault in faults if isinstance(fault, LogDamaged)] == []


def test_each_byte_flipped(tmp_path: Path, scale: Callable[[int, int], int]) -> None:
    """Whatever byte it is: no row is wrong, and no more than the batches beside it is missing."""
    places = [(base, at) for base, data in LOG.segments.items() for at in range(len(data))]
    masks = (0x01, 0x80, 0x10, 0xFF, 0x02, 0x40, 0x04, 0x20, 0x08)
    turns = itertools.product(places, range(scale(1, len(masks))))
    for number, ((base, at), turn) in enumerate(turns):
        if number % scale(5, 1):
            continue
        mask = masks[(number + turn) % len(masks)]
        isolation = "read_committed" if number % 3 else "read_uncommitted"
        LOG.write(tmp_path, flipped(LOG, base, at, mask))
        found = judge(LOG, tmp_path, isolation, cuts=(5, 12, 17, 26, 27) if number % 7 == 0 else ())
        lost = missing(LOG, found, isolation)
        assert not lost, (base, at, mask, isolation, lost, found.damages)
        of_batches = [damage for damage in found.damages if damage.reason != UNDECIDED]
        assert sum(damage.last - damage.first for damage in of_batches) <= 6, (base, at, mask, of_batches)
        LOG.write(tmp_path)


def test_each_length_of_the_last_segment(tmp_path: Path, scale: Callable[[int, int], int]) -> None:
    """What is cut off at a log's end is how an unclean stop looks: told, and no damage."""
    last = max(LOG.segments)
    starts = [at for base, at in LOG.starts if base == last] + [len(LOG.segments[last])]
    for length in range(0, len(LOG.segments[last]), scale(3, 1)):
        LOG.write(tmp_path, {last: LOG.segments[last][:length]})
        found = judge(LOG, tmp_path, "read_uncommitted")
        assert found.damages == []
        catalog = LogCatalog(LogFiles((str(tmp_path),), past_damage=True))
        torn = catalog.torn(TP)
        rest = LOG.segments[last][max(at for at in starts if at <= length) : length]
        assert (torn is not None) == any(rest)  # zeros could be room as well
        assert torn is None or torn.length == len(rest)
        whole = len([at for at in starts[1:] if at <= length])
        assert len([o for o in found.rows if o >= last]) == sum((2, 1, 0, 2, 0, 3, 1)[:whole])


def test_each_length_of_a_segment_before(tmp_path: Path, scale: Callable[[int, int], int]) -> None:
    base = sorted(LOG.segments)[1]
    for length in range(0, len(LOG.segments[base]), scale(3, 1)):
        LOG.write(tmp_path, {base: LOG.segments[base][:length]})
        found = judge(LOG, tmp_path, cuts=(3, 14, 18, 21) if length % 20 == 0 else ())
        assert not missing(LOG, found), length
        assert found.damages[-1].reason in (CUT_OFF, ENDS_EARLY, ZEROS, UNDECIDED)


def test_zeros_are_preallocated_at_the_log_s_end_and_damage_before_it(tmp_path: Path) -> None:
    _, middle, last = sorted(LOG.segments)
    LOG.write(tmp_path, {last: LOG.segments[last] + bytes(100_000), middle: LOG.segments[middle] + bytes(5000)})
    assert judge(LOG, tmp_path, cuts=(4, 20)).damages == []
    half = LOG.segments[middle]
    LOG.write(tmp_path, {middle: half[: len(half) // 2].ljust(len(half), b"\0")})
    found = judge(LOG, tmp_path, cuts=(4, 20))
    assert not missing(LOG, found)
    assert any(damage.reason != UNDECIDED for damage in found.damages)
    cut = next(at for base, at in LOG.starts if base == middle and at > 100)
    LOG.write(tmp_path, {middle: half[:cut].ljust(len(half), b"\0")})
    (zeros,) = [damage for damage in judge(LOG, tmp_path).damages if damage.reason != UNDECIDED]
    assert (zeros.reason, zeros.position, zeros.last) == (ZEROS, cut, last)


def test_swapped_segments_are_all_told(tmp_path: Path) -> None:
    """Nothing of them lands at a wrong offset, and all of their bytes are kept."""
    for one, other in itertools.combinations(sorted(LOG.segments), 2):
        LOG.write(tmp_path, {one: LOG.segments[other], other: LOG.segments[one]})
        found = judge(LOG, tmp_path, "read_uncommitted", cuts=(5, 20))
        kept = {int(Path(file).stem): data for (file, _), data in found.kept.items()}
        assert kept[one] == LOG.segments[other]
        assert kept[other] == LOG.segments[one]


@pytest.mark.parametrize("by", [-7, -1, 1, 9, 1000])
def test_a_wrong_base_offset_in_the_name(tmp_path: Path, by: int) -> None:
    for base in sorted(LOG.segments)[1:]:
        folder = tmp_path / f"{base}{by}"
        LOG.write(folder)
        source = folder / "orders-0" / f"{base:020d}.log"
        source.rename(source.with_name(f"{base + by:020d}.log"))
        found = judge(LOG, folder, "read_uncommitted", cuts=(5, 15, 20))
        # Offsets may be nobody's now, but no bytes are dropped.
        kept = b"".join(found.kept.values())
        assert all(LOG.bytes_of[offset] in kept for offset in missing(LOG, found, "read_uncommitted"))


def test_a_damaged_marker_leaves_its_transaction_undecided(tmp_path: Path) -> None:
    """The rows of an aborted transaction whose marker is gone are not taken for committed."""
    made = Builder()
    made.roll()
    made.add(2, producer=1, aborted=True)
    made.add(1)
    made.mark(ABORT, 1)
    made.add(2, producer=1)
    made.mark(COMMIT, 1)
    made.add(2)
    log = made.log
    marker = log.starts[2][1]
    log.write(tmp_path, flipped(log, 0, marker + 70, 1))
    found = judge(log, tmp_path, cuts=tuple(range(1, 9)))
    assert sorted(found.rows) == [2, 4, 5, 7, 8]
    assert [(d.first, d.last, d.reason == UNDECIDED) for d in found.damages] == [(0, 2, True), (3, 4, False)]


def test_a_transaction_that_was_open_at_the_log_s_end_is_undecided(tmp_path: Path) -> None:
    made = Builder()
    made.roll()
    made.add(2)
    made.add(2, producer=1)
    made.add(2)
    made.log.write(tmp_path)
    found = judge(made.log, tmp_path, cuts=(1, 3, 5))
    assert sorted(found.rows) == [0, 1, 4, 5]
    assert [(d.first, d.last, d.reason) for d in found.damages] == [(2, 4, UNDECIDED)]


def test_a_large_batch_hides_no_marker(tmp_path: Path) -> None:
    """Bit rot in data says nothing about transactions beside it."""
    made = Builder()
    made.roll()
    made.add(2, producer=1)
    made.add(40)
    made.mark(COMMIT, 1)
    made.log.write(tmp_path, flipped(made.log, 0, made.log.starts[1][1] + 500, 1))
    found = judge(made.log, tmp_path, cuts=(1, 20))
    assert [(d.first, d.last) for d in found.damages] == [(2, 42)]
    assert sorted(found.rows) == [0, 1]


def test_in_a_compacted_log_gaps_are_no_damage(tmp_path: Path) -> None:
    made = Builder()
    made.roll()
    for count in (1, 2, 1, 1, 3, 1, 2, 2):
        made.add(count)
        made.skip(count + 1)
    made.roll()
    made.add(2)
    made.skip(5)
    made.add(1)
    made.log.write(tmp_path)
    found = judge(made.log, tmp_path, cuts=(2, 9, 20))
    assert (found.rows, found.damages) == (made.log.committed, [])
    assert sum(outcome.absent for outcome in found.outcomes) > 0
    made.log.write(tmp_path, flipped(made.log, 0, made.log.starts[2][1] + 65, 1))
    found = judge(made.log, tmp_path, cuts=(2, 9, 20))
    assert len(found.damages) == 1
    assert not missing(made.log, found)


def test_records_that_cannot_be_decoded_take_their_batch_and_nothing_else(tmp_path: Path) -> None:
    """The checksum is right: a producer has written nonsense. Ranges that meet inside of it agree."""
    batches = []
    for offset in (0, 50, 100):
        batch = bytearray(encode_batch([Record(value=b"v%d" % n) for n in range(50)], base_offset=offset))
        if offset == 50:
            batch[-1] = 0x7E  # the last record's headers
        batches.append(seal(batch))
    log = Log({0: b"".join(batches)})
    log.write(tmp_path)
    options = replace(DecodeOptions(), on_corruption="quarantine")
    for cuts in ((), (60,), (50, 99), (10, 70, 120)):
        found = read(tmp_path, cuts=cuts)
        assert sorted(found.rows) == [*range(50), *range(100, 150)]
        ((place, data),) = found.kept.items()
        assert (place[1], data) == (len(batches[0]), batches[1])
    assert options.on_corruption == "quarantine"


def test_bytes_between_two_batches_that_meet_are_one_task_s_to_tell(tmp_path: Path) -> None:
    """They have no offsets of their own: cut right there, between segments too, they are told once."""
    first, middle, _ = sorted(LOG.segments)
    at = next(at for base, at in LOG.starts if base == middle and at)
    noise = b"\x07no batch\x07" * 5
    data = LOG.segments[middle]
    LOG.write(tmp_path, {first: LOG.segments[first] + noise, middle: data[:at] + noise + data[at:]})
    for cuts in ((), (10,), (13,), (9, 10, 11), (12, 13, 14)):
        found = judge(LOG, tmp_path, "read_uncommitted", cuts=cuts)
        assert found.rows == LOG.truth("read_uncommitted")
        assert [(damage.first, damage.last) for damage in found.damages] == [(10, 10), (13, 13)]
        assert list(found.kept.values()) == [noise, noise]


@st.composite
def damages(draw: st.DrawFn) -> dict[int, bytes]:
    """One to three pieces of harm to any of the segments."""
    data = {base: bytearray(content) for base, content in LOG.segments.items()}
    for _ in range(draw(st.integers(1, 3))):
        base = draw(st.sampled_from(sorted(data)))
        content = data[base]
        if not content:
            continue
        at = draw(st.integers(0, len(content) - 1))
        length = draw(st.integers(1, 200))
        match draw(st.sampled_from(["flip", "noise", "zeros", "cut out", "insert", "repeat", "end"])):
            case "flip":
                content[at] ^= draw(st.integers(1, 255))
            case "noise":
                content[at : at + length] = draw(st.binary(min_size=length, max_size=length))
            case "zeros":
                content[at : at + length] = bytes(len(content[at : at + length]))
            case "cut out":
                del content[at : at + length]
            case "insert":
                content[at:at] = draw(st.binary(min_size=1, max_size=length))
            case "repeat":
                content[at:at] = content[max(0, at - length) : at]
            case _:
                del content[at:]
    return {base: bytes(content) for base, content in data.items()}


@given(damage=damages(), cuts=st.lists(st.integers(1, 40), max_size=4))
def test_no_harm_makes_a_row_wrong(
    tmp_path_factory: pytest.TempPathFactory, damage: dict[int, bytes], cuts: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("harm")
    LOG.write(folder, damage)
    for isolation in ("read_committed", "read_uncommitted"):
        found = judge(LOG, folder, isolation, cuts=tuple(cuts))
        last = max(LOG.segments)
        assert not [offset for offset in missing(LOG, found, isolation) if offset < last]
