"""The manifests of Aiven's layout: real ones, sizes as they are packed, and any bytes: a manifest or a typed error."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.segment_reader.log.errors import LayoutError
from kseg.segment_reader.log.layouts.manifest import Manifest, chunk_sizes, kafka_id, parse_manifest


@pytest.fixture(scope="module")
def manifests(written: Path) -> list[Path]:
    return sorted(written.rglob("*.rsm-manifest"))


def test_real_manifests_agree_with_the_objects_beside_them(manifests: list[Path]) -> None:
    assert len(manifests) == 27
    kinds = set()
    for path in manifests:
        found = parse_manifest(path.read_bytes(), str(path))
        assert found.starts[-1] == path.with_suffix(".log").stat().st_size
        assert len(found.starts) == -(-found.size // found.chunk_size) + 1
        assert sum(size for _, size in found.indexes.values()) == path.with_suffix(".indexes").stat().st_size
        assert (found.topic, found.partition, found.start_offset) == ("orders", 0, int(path.name[:20]))
        assert found.topic_id.bytes
        assert found.uploaded_ms > 0
        assert [epoch.epoch for epoch in found.epochs] == [0]
        kinds.add((found.compressed, found.encryption is not None))
    assert kinds == {(False, False), (True, False), (True, True)}


@given(sizes=st.lists(st.integers(0, 2**31 - 1), max_size=40))
def test_sizes_are_read_as_they_were_packed(pack_sizes: Callable[[Sequence[int]], bytes], sizes: list[int]) -> None:
    assert chunk_sizes(pack_sizes(sizes)).tolist() == sizes


@given(st.data(), st.lists(st.integers(0, 2**31 - 1), max_size=9))
def test_any_bytes_are_sizes_or_a_fault(
    pack_sizes: Callable[[Sequence[int]], bytes], data: st.DataObject, sizes: list[int]
) -> None:
    changed = bytearray(pack_sizes(sizes))
    for _ in range(data.draw(st.integers(0, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(changed[: data.draw(st.integers(0, len(changed)))])
    for read in (bytes(changed), cut, data.draw(st.binary(max_size=60))):
        try:
            found = chunk_sizes(read)
        except ValueError:
            continue
        assert (found >= 0).all()


def answer(data: bytes) -> Manifest | None:
    """What a manifest says; None where it is refused, as it should be: with the file's name and nothing but."""
    try:
        return parse_manifest(data, "s3/bucket/x.rsm-manifest")
    except LayoutError as error:
        told = error
    assert (told.file, bool(told.reason)) == ("s3/bucket/x.rsm-manifest", True)
    return None


@given(data=st.data())
def test_a_real_manifest_with_any_part_changed_is_read_or_refused(manifests: list[Path], data: st.DataObject) -> None:
    document = json.loads(data.draw(st.sampled_from(manifests)).read_bytes())
    plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30))
    values = plain | st.lists(plain, max_size=2) | st.dictionaries(st.text(max_size=9), plain, max_size=2)
    place: Any = document
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        if isinstance(place[key], dict) and place[key] and data.draw(st.booleans()):
            place = place[key]
            continue
        if data.draw(st.booleans()):
            place[key] = data.draw(values)
        else:
            del place[key]
        break
    found = answer(json.dumps(document).encode())
    if found is not None:
        assert (found.starts[1:] >= found.starts[:-1]).all()
        assert found.end_offset >= found.start_offset >= 0


@given(data=st.data())
def test_a_real_manifest_with_bytes_changed_or_cut_is_read_or_refused(
    manifests: list[Path], data: st.DataObject
) -> None:
    text = bytearray(data.draw(st.sampled_from(manifests)).read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    answer(bytes(text[: data.draw(st.integers(0, len(text)))]))


@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused(data: bytes) -> None:
    assert answer(data) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": "2"}, "version '2' is unknown"),
        ({"compression": None}, "compression is neither"),
        ({"chunkIndex": {"type": "woven", "originalChunkSize": 1, "originalFileSize": 1}}, "type 'woven' is unknown"),
        ({"chunkIndex": {"type": "fixed", "originalChunkSize": 0, "originalFileSize": 1}}, "not positive"),
        ({"encryption": {"dataKey": "no colon", "aad": ""}}, "dataKey is not"),
        ({"remoteLogSegmentMetadata": None}, "remoteLogSegmentMetadata is missing"),
    ],
)
def test_a_refusal_says_what_is_wrong(manifests: list[Path], change: dict[str, Any], told: str) -> None:
    document = json.loads(manifests[0].read_bytes()) | change
    with pytest.raises(LayoutError, match=told):
        parse_manifest(json.dumps(document).encode(), "x")


def test_nesting_without_end_is_refused() -> None:
    assert answer(b"[" * 100_000) is None


def test_of_the_texts_that_decode_to_an_id_only_the_one_that_kafka_writes_is_accepted() -> None:
    assert kafka_id("ERERESIiMzNERFVVVVVVVQ") == UUID("11111111-2222-3333-4444-555555555555")
    for last in "RSTf":
        with pytest.raises(ValueError, match="is not an id"):
            kafka_id(f"ERERESIiMzNERFVVVVVVV{last}")
