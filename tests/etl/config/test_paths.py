"""Which place lies within which, and at which places no table can be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.etl.config import untrusted
from kseg.etl.config.job import Job
from kseg.etl.config.load import job_from_document
from kseg.etl.config.paths import folders_above, lies_within
from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.tables.targets import Targets

TWO = {"source/topics": ["a", "b"]}
LETTERS = {"value": {"format": "string"}, "on_error": "dead_letter"}

names = st.lists(st.sampled_from(["a", "b", "ab", "{topic}"]), min_size=1, max_size=4).map("/".join)
paths = st.tuples(st.sampled_from(["/", "s3://", "s3://a/"]), names).map("".join) | st.sampled_from(["/", "s3://a/"])


@given(paths, paths)
def test_a_place_lies_within_the_folders_above_it_and_nowhere_else(inner: str, outer: str) -> None:
    assert (outer.rstrip("/") in folders_above(inner) or inner == outer) == lies_within(inner, outer)


@pytest.mark.parametrize(
    ("changes", "path", "message", "remedy"),
    [
        (
            TWO | {"sink": {"routes": {"a": {"path": "s3://b/x"}, "b": {"path": "s3a://b/x/y"}}}},
            "sink.routes.b.path",
            "is inside the table s3://b/x",
            "not inside another table",
        ),
        (
            TWO | {"sink": {"routes": {"a": {"path": "s3://b/x"}, "b": {"path": "s3a://b/x"}}}},
            "sink.routes.b.path",
            "is the table s3://b/x",
            "one name",
        ),
        ({"sink/path": "s3://b/x", "ledger": "s3a://b/x/l"}, "ledger", "is inside the table", "of its own"),
        ({"sink/path": "s3://b/x", "ledger": "s3n://b"}, "sink.path", "is inside the ledger", "of its own"),
        (
            {"source": {"pattern": "_l"}, "sink": {"path": "s3a://b/{topic}"}, "ledger": "s3://b/_l"},
            "ledger",
            "inside the table",
            "own",
        ),
    ],
)
def test_s3a_is_the_store_that_s3_is(
    faults: Callable[..., list[Diagnostic]], changes: dict[str, Any], path: str, message: str, remedy: str
) -> None:
    (found,) = faults(changes)
    assert found.path == path
    assert message in found.message
    assert remedy in (found.remedy or "")


@pytest.mark.parametrize(
    ("changes", "path", "message", "remedy"),
    [
        ({"sink/path": "/data/a%20b/c"}, "sink.path", "has the escape %20 in 'a%20b'", "for instance to 'a b'"),
        ({"sink/path": "file:///data/a%20b"}, "sink.path", "file URL with an escape", "write the path as it is"),
        ({"sink/path": "s3a://b/a%20b/t"}, "sink.path", "has the escape %20", "without escapes: s3a://b/a b/t"),
        ({"ledger": "file:///data/a%20b"}, "ledger", "file URL with an escape", "write the path as it is"),
        ({"sink/path": "/data/{topic}%2f"}, "sink.path", "has the escape %2f", "without percent escapes"),
        ({"sink/path": "/data/a[b]"}, "sink.path", "has '[' in 'a[b]'", "without brackets"),
        ({"sink/path": "s3://b/a#c"}, "sink.path", "has '#'", "without ? and #"),
        ({"ledger": "./l%41"}, "ledger", "has the escape %41", "'lA'"),
        (
            {"decode": LETTERS, "sink/dead_letters": {"path": "/a^b"}},
            "sink.dead_letters.path",
            "has '^' in 'a^b'",
            "without brackets",
        ),
        (
            {"source/on_corruption": "quarantine", "sink/quarantine": {"path": "/a|b"}},
            "sink.quarantine.path",
            "has '|' in 'a|b'",
            "without brackets",
        ),
    ],
)
def test_a_place_that_delta_rs_takes_for_another_one_is_a_fault(
    faults: Callable[..., list[Diagnostic]], changes: dict[str, Any], path: str, message: str, remedy: str
) -> None:
    found = next(fault for fault in faults(changes) if fault.path == path)
    assert message in found.message
    assert remedy in (found.remedy or "")


@pytest.mark.parametrize("place", ["/a b/c#d", "/ä/100%", "/a?b", "/x/{topic}", "s3://b/a b/ä%", "/a%zz"])
def test_other_characters_are_part_of_a_name(load: Callable[..., Job], place: str) -> None:
    assert load({"sink/path": place}).sink.path == place


def test_a_run_is_finished_by_the_url_that_it_has_pinned(load: Callable[..., Job], tmp_path: Path) -> None:
    """Releases before the check took a URL with an escape, and pinned it with a run."""
    document = load({"sink/path": "s3a://lake/x"}).pinned()
    document["sink"]["path"] = "s3a://lake/a%20b"
    pinned = job_from_document(document)
    assert pinned.pinned()["sink"]["path"] == "s3a://lake/a%20b"
    target = Targets(pinned, lambda: pytest.fail("Spark is asked"))
    access = target._by_files.access("s3a://lake/a%20b")
    assert access.location.place == "s3://lake/a b"
    assert target._by_spark.target("s3a://lake/a%20b").name == "s3a://lake/a b"
    document["sink"]["path"] = str(tmp_path / "a%20b")
    with pytest.raises(ConfigurationError, match="has the escape"):
        job_from_document(document)


def test_an_untrusted_job_is_not_led_out_of_its_root_by_an_escape(
    load: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    document = load({"sink/path": "s3a://lake/x"}).pinned() | {"ledger": "s3a://lake/ledger"}
    document["sink"]["path"] = "s3a://lake/x/%2e%2e/y"
    del document["spark"]
    monkeypatch.setenv(untrusted.VARIABLE, "1")
    monkeypatch.setenv(untrusted.ROOT, "s3a://lake")
    with pytest.raises(ConfigurationError, match="has the escape %2e"):
        job_from_document(document)
