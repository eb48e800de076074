from __future__ import annotations

from pathlib import Path

import pytest

from kseg.etl.errors import ConfigurationError
from kseg.etl.tables.parquet.storage import TableLocation


@pytest.mark.parametrize(
    ("place", "uri"),
    [
        ("/lake/orders/", "/lake/orders"),
        ("file:///lake/a b", "/lake/a b"),
        ("file:///lake/a%20b", "/lake/a%20b"),
        ("file:///lake/a#b", "/lake/a#b"),
        ("file:///lake/a?b", "/lake/a?b"),
        ("FILE://localhost/lake/a", "/lake/a"),
        ("file:/lake/orders", "/lake/orders"),
        ("s3a://bucket/lake/orders/", "s3://bucket/lake/orders"),
        ("abfss://lake@account.dfs.core.windows.net/orders", "abfss://lake@account.dfs.core.windows.net/orders"),
        ("gs://bucket/orders", "gs://bucket/orders"),
    ],
)
def test_one_place_has_one_name(place, uri):
    assert TableLocation.of(place).uri == uri


def test_a_place_is_the_same_behind_symbolic_links(tmp_path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "lake")
    assert TableLocation.of(tmp_path / "alias/orders").place == TableLocation.of(tmp_path / "lake/orders/").place
    assert TableLocation.of("s3n://bucket/t/").place == TableLocation.of("s3a://bucket/t").place


def test_a_url_with_an_escape_is_the_place_that_it_names():
    assert TableLocation.of("s3a://bucket/a%20b").place == TableLocation.of("s3://bucket/a b").place
    options = {"region": "eu-central-1", "access_key_id": "id", "secret_access_key": "secret"}
    for url in ("s3a://bucket/a%20b/100%", "s3://bucket/a b/100%"):
        assert TableLocation.of(url, options).open().root == "bucket/a b/100%"
    by_options = TableLocation.of("gs://bucket/a%20b/ä#b?endpoint_override=localhost:1").open()
    assert (by_options.fs.type_name, by_options.root) == ("gcs", "bucket/a b/ä#b")


def test_a_file_url_of_a_host_is_refused():
    with pytest.raises(ConfigurationError, match="names a host"):
        TableLocation.of("file://elsewhere/lake")


def test_relative_paths_are_made_absolute():
    assert TableLocation.of("lake").uri == str(Path("lake").absolute())


def test_local_folders_are_opened(tmp_path):
    store = TableLocation.of(tmp_path).open()
    assert store.path("a/b") == f"{tmp_path}/a/b"


def test_options_are_not_shown():
    location = TableLocation.of("s3://bucket/t", {"AWS_SECRET_ACCESS_KEY": "hunter2"})
    assert "hunter2" not in repr(location) + str(location)
    assert location.storage_options == {"AWS_SECRET_ACCESS_KEY": "hunter2"}


def test_object_stores_are_opened_with_delta_rs_names():
    options = {
        "AWS_ACCESS_KEY_ID": "id",
        "aws_secret_access_key": "secret",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "eu-central-1",
    }
    store = TableLocation.of("s3://bucket/lake/t", options).open()
    assert store.fs.type_name == "s3"
    assert store.fs.region == "eu-central-1"
    assert store.root == "bucket/lake/t"


def test_unknown_stores_are_bad_configuration():
    with pytest.raises(ConfigurationError, match="carrier-pigeon"):
        TableLocation.of("carrier-pigeon://roof/t").open()
