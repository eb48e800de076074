"""Which copies make up the log: each offset once, along the leader epochs, and a hole where nothing is."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.segment_reader.log.files.checkpoints import EpochStart
from kseg.segment_reader.log.layouts.lineage import chain, followed, newest


@dataclass(frozen=True)
class Copy:
    base_offset: int
    end_offset: int
    leader_epochs: tuple[EpochStart, ...] = ()
    uploaded_ms: int = 0


def copy(base: int, end: int, uploaded_ms: int = 0, **epochs: int) -> Copy:
    return Copy(base, end, tuple(EpochStart(int(name[1:]), start) for name, start in epochs.items()), uploaded_ms)


def lineage(**epochs: int) -> list[EpochStart]:
    return [EpochStart(int(name[1:]), start) for name, start in epochs.items()]


def ranges(segments: list[Copy], told: list[EpochStart] | None = None, **options: int) -> list[tuple[int, int]]:
    return [(link.segment.base_offset, link.end_offset) for link in chain(segments, told or [], **options)]


def test_segments_that_follow_each_other_are_all_of_the_log() -> None:
    assert ranges([copy(100, 200), copy(0, 100)]) == [(0, 100), (100, 200)]
    assert chain([]) == []


def test_of_the_same_segment_twice_the_last_upload_is_read() -> None:
    links = chain([copy(0, 100, 5), copy(0, 100, 9), copy(0, 100, 7)])
    assert [link.segment.uploaded_ms for link in links] == [9]


def test_a_segment_is_cut_where_the_one_that_goes_on_begins() -> None:
    assert ranges([copy(0, 100), copy(50, 150)]) == [(0, 50), (50, 150)]
    links = chain([copy(0, 100), copy(50, 150)])
    assert [link.whole for link in links] == [False, True]


def test_what_others_cover_is_left_out() -> None:
    assert ranges([copy(0, 100), copy(20, 60), copy(100, 120), copy(90, 110)]) == [(0, 100), (100, 120)]


def test_a_hole_stays_a_hole() -> None:
    assert ranges([copy(0, 100), copy(150, 200)]) == [(0, 100), (150, 200)]


def test_the_log_ends_where_a_broker_s_own_segments_begin() -> None:
    assert ranges([copy(0, 100), copy(100, 200), copy(200, 300)], below=150) == [(0, 100), (100, 150)]
    assert ranges([copy(0, 100), copy(100, 200)], below=100) == [(0, 100)]


def test_what_a_diverged_leader_wrote_is_not_of_the_log() -> None:
    """Epoch 1 uploaded up to 200; after an unclean election epoch 2 began at 120."""
    segments = [copy(0, 100, e0=0), copy(100, 200, e0=100, e1=110), copy(110, 210, e1=110, e2=120)]
    assert ranges(segments, lineage(e0=0, e1=110, e2=120)) == [(0, 100), (100, 110), (110, 210)]
    segments[2] = copy(120, 210, e2=120)
    assert ranges(segments, lineage(e0=0, e1=110, e2=120)) == [(0, 100), (100, 120), (120, 210)]


@pytest.mark.parametrize(
    ("segment", "told", "end"),
    [
        (copy(0, 100, e0=0), lineage(e0=0), 100),
        (copy(0, 100, e0=0), lineage(e0=0, e1=60), 60),  # epoch 0 wrote on where epoch 1 is the log's
        (copy(0, 100, e0=0, e1=60), lineage(e0=0, e2=60), 60),  # an epoch that the log does not know
        (copy(0, 100, e0=0, e1=60), lineage(e0=0, e1=50), 50),
        (copy(0, 100, e0=0, e1=50), lineage(e0=0, e1=60), 50),
        (copy(50, 100, e1=50), lineage(e0=0, e2=40), 50),  # none of it
        (copy(0, 100, e0=0), lineage(e3=100), 100),  # older than what the log still knows of its epochs
        (copy(0, 100, e3=0), lineage(e3=50, e4=90), 90),
        (copy(0, 100, e0=0, e1=30, e2=70), lineage(e0=0, e1=30, e2=70, e5=500), 100),
        (copy(0, 100), lineage(e3=50), 100),  # nothing is known of it
        (copy(0, 100, e7=0), [], 100),
    ],
)
def test_a_segment_counts_as_far_as_it_follows_the_lineage(segment: Copy, told: list[EpochStart], end: int) -> None:
    assert followed(segment, told) == end


def test_the_newest_epoch_leads_then_what_reaches_furthest_then_what_came_last() -> None:
    old, far = copy(0, 900, e1=0), copy(0, 300, e2=0)
    assert newest([old, far, copy(0, 200, e2=0)]) is far
    assert newest([copy(0, 300, 1, e2=0), last := copy(0, 300, 2, e2=0)]) is last
    assert newest([copy(0, 100)]) is None


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 25), st.integers(0, 3)), max_size=14))
def test_each_offset_that_any_copy_has_is_in_the_chain_once(copies: list[tuple[int, int, int]]) -> None:
    segments = [copy(base, base + length, uploaded) for base, length, uploaded in copies]
    links = chain(segments)
    chosen = [offset for link in links for offset in range(link.segment.base_offset, link.end_offset)]
    assert chosen == sorted(chosen)
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) == {offset for one in segments for offset in range(one.base_offset, one.end_offset)}
    assert all(link.end_offset <= link.segment.end_offset for link in links)


@given(st.data())
def test_copies_of_one_history_lose_nothing_whatever_its_epochs(data: st.DataObject) -> None:
    """Leaders change at random offsets and upload overlapping segments of one log: all of it is found again."""
    starts = sorted(data.draw(st.sets(st.integers(0, 80), min_size=1, max_size=6)) | {0})
    told = [EpochStart(number, start) for number, start in enumerate(starts)]

    def part(base: int, end: int) -> Copy:
        within = [one for one in told if one.start_offset < end]
        before = [one for one in within if one.start_offset <= base]
        epochs = [EpochStart(one.epoch, max(one.start_offset, base)) for one in within[len(before) - 1 :]]
        return Copy(base, end, tuple(epochs))

    edges = data.draw(st.lists(st.tuples(st.integers(0, 90), st.integers(1, 30)), min_size=1, max_size=10))
    segments = [part(base, base + length) for base, length in edges]
    chosen = [o for link in chain(segments, told) for o in range(link.segment.base_offset, link.end_offset)]
    assert sorted(set(chosen)) == chosen
    assert set(chosen) == {o for one in segments for o in range(one.base_offset, one.end_offset)}
