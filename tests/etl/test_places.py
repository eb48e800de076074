"""Places that delta-rs takes for others: as the real one does."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kseg.etl.places import literal, one_scheme, unusable

CHARACTERS = [chr(code) for code in range(32, 127) if chr(code) not in "/."] + ["\u00a0", "é", "漢", "😀"]


def opens(place: Path) -> bool:
    """Whether delta-rs writes a table to this very folder, and reads it there."""
    try:
        write_deltalake(str(place), pa.table({"x": [1, 2]}))
        rows = pa.table(DeltaTable(str(place)).to_pyarrow_dataset().to_table()).num_rows
    except BaseException as error:  # its panics are no exceptions
        if isinstance(error, KeyboardInterrupt):
            raise
        return False
    return rows == 2 and any(place.glob("*.parquet"))


@pytest.mark.parametrize("form", ["a{}b", "{}a", "a{}", "a{}b/t"])
def test_places_of_any_character_are_those_that_delta_rs_opens(tmp_path: Path, form: str) -> None:
    places = [tmp_path / str(number) / form.replace("{}", name) for number, name in enumerate(CHARACTERS)]
    assert [opens(place) for place in places] == [unusable(str(place)) is None for place in places]


@pytest.mark.parametrize("name", ["a%20b", "%41", "a%2Fb", "a%252Fb", "a%bcd", "100%", "%", "a%zz", "%%2"])
def test_places_with_escapes_are_those_that_delta_rs_opens(tmp_path: Path, name: str) -> None:
    assert opens(tmp_path / name) == (unusable(str(tmp_path / name)) is None)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("/data/a%20b/c", ["%20", "'a%20b'", "'a b'"]),
        ("/data/a[1]/c", ["'['", "'a[1]'"]),
        ("/data/a\tb", ["'\\t'"]),
        ("s3://bucket/a?b", ["'?'"]),
        ("s3://bucket/a%3Fb", ["%3F", "'a%3Fb'"]),
        ("s3a://b/a%20b/c%41", ["write the URL without escapes: s3a://b/a b/cA"]),
        ("s3a://b/a%2fb", ["write the URL without escapes: s3a://b/a/b"]),
        ("file:///data/a%20b", ["write the path as it is, without escapes"]),
        ("/data/a[b%20", ["'a[b%20'", "without percent escapes (%XX)"]),
    ],
)
def test_the_message_names_the_folder(place: str, words: list[str]) -> None:
    found = unusable(place)
    assert found is not None
    assert [word for word in words if word not in f"{found.message} {found.remedy}"] == []


@pytest.mark.parametrize(
    "place",
    [
        *(f"/data/{name}" for name in ("a%2Fb", "a%C3b", "a%5Bb", "a%2520b", "%2e%2e", "%2e", "a%00b")),
        *(f"s3a://b/{name}" for name in ("a%C3b", "a%5Bb", "a%2520b", "a%3Fb", "a%23b")),
    ],
)
def test_a_name_that_is_no_better_is_not_suggested(place: str) -> None:
    found = unusable(place)
    assert found is not None
    assert found.remedy == "give the folder a name without percent escapes (%XX)"


@pytest.mark.parametrize(
    ("place", "opens"),
    [
        ("s3a://b/a%20b", True),
        ("s3a://b/a%5Bb", True),
        ("s3a://b/a%C3b", False),
        ("s3a://b/a%20b?c", False),
        ("/b/a%20b", False),
        ("file:///b/a%20b", False),
    ],
)
def test_a_url_that_a_ledger_knows_may_have_escapes(place: str, opens: bool) -> None:
    assert (unusable(place, may_escape=True) is None) == opens
    assert unusable(place) is not None


def test_a_host_may_have_what_a_path_may_not() -> None:
    assert unusable("hdfs://[::1]:8020/x") is None
    assert unusable("hdfs://[::1]:8020/[x]") is not None


def test_a_url_has_the_keys_of_its_escapes() -> None:
    assert literal("s3a://b/a%20b/%C3%A4") == "s3a://b/a b/ä"
    assert literal("/b/a%20b") == "/b/a%20b"


def test_a_local_path_may_have_what_ends_the_path_of_a_url() -> None:
    assert unusable("/data/a?b#c") is None
    assert unusable("s3://bucket/a b/{topic}") is None


def test_a_store_has_one_spelling() -> None:
    assert [one_scheme(f"{scheme}://b/x") for scheme in ("s3", "s3a", "s3n", "gs", "gcs", "az")] == [
        *["s3://b/x"] * 3,
        *["gs://b/x"] * 2,
        "az://b/x",
    ]
    assert one_scheme("/s3a/x") == "/s3a/x"
