"""Stores that are put-if-absent, and those that are not: the latter are refused before anything rests on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kseg.etl.errors import ConfigurationError, ExitCode, Refused, RetriableFailure
from kseg.etl.ledger import conditional_put
from kseg.etl.ledger.conditional_put import StoreChecks, check_races, check_refuses, store_of
from kseg.etl.ledger.lease import acquire
from kseg.etl.ledger.store import Ledger

RACES = 100
HOW = {"setting": "ledger", "ledger": "l"}
URL = "s3://logs/lake/ledger"


@pytest.fixture(autouse=True)
def _all_races(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as runs do, of which other tests do a few."""
    monkeypatch.setattr(conditional_put, "RACES", RACES)


def test_a_store_that_ignores_the_condition_is_refused_at_every_runs_start(memory_s3: Any) -> None:
    ledger = Ledger.open(URL)
    acquire(ledger, "orders").release()
    memory_s3.conditional = "ignored"
    with pytest.raises(ConfigurationError, match="not put-if-absent") as refused:
        acquire(ledger, "orders")
    assert refused.value.exit_code is ExitCode.BAD_CONFIGURATION
    assert refused.value.faults[0].path == "ledger"
    assert ledger.read("orders").lease().released, "nobody has a lease"


@pytest.mark.parametrize("conditional", ["ignored", "racing"])
def test_no_ledger_is_made_where_several_racers_win(memory_s3: Any, conditional: str) -> None:
    memory_s3.conditional = conditional
    with pytest.raises(ConfigurationError, match="not put-if-absent"):
        Ledger.open(URL)
    assert not memory_s3.objects


def test_a_runs_check_is_one_request_and_creates_one_object(memory_s3: Any) -> None:
    check_refuses(URL, {}, **HOW)
    assert [method for method, _ in memory_s3.asked] == ["PUT", "PUT"], "the first one makes the key"
    memory_s3.asked.clear()
    for _ in range(3):
        check_refuses(URL, {}, **HOW)
    assert memory_s3.asked == [("PUT", "lake/ledger/_kseg/put-if-absent")] * 3
    assert list(memory_s3.objects) == ["lake/ledger/_kseg/put-if-absent"]


def test_options_count_as_they_do_for_delta_rs(memory_s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in memory_s3.environment:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    others = {"timeout": "20s", "max_retries": "2", "aws_s3_no_such_option": "1"}  # delta-rs takes all of these
    options = {**memory_s3.options, **others}
    assert check_races("s3a://logs/lake", options, **HOW) == RACES
    acquire(Ledger.open(URL, options), "orders").release()
    with pytest.raises(RetriableFailure):
        check_refuses(URL, {**options, "aws_endpoint_url": "http://127.0.0.1:9", "max_retries": "0"}, **HOW)


def test_a_store_that_knows_no_condition_is_bad_configuration(memory_s3: Any) -> None:
    memory_s3.conditional = "unknown"
    with pytest.raises(ConfigurationError, match="501"):
        check_refuses(URL, {}, **HOW)


def test_local_disks_keep_racers_apart_and_nothing_is_left(tmp_path: Path) -> None:
    assert check_races(str(tmp_path / "made"), {}, **HOW) == RACES
    assert check_races((tmp_path / "made").as_uri(), {}, **HOW) == RACES
    assert list((tmp_path / "made").rglob("*")) == []
    check_refuses(str(tmp_path), {}, **HOW)
    check_refuses(str(tmp_path), {}, **HOW)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["put-if-absent"]


def test_a_local_file_system_without_exclusive_links_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditional_put, "_put", lambda *_: True)
    with pytest.raises(ConfigurationError, match=f"for {RACES} of {RACES} keys"):
        Ledger.open(tmp_path / "ledger")
    assert not (tmp_path / "ledger" / "_delta_log").exists()


@pytest.mark.parametrize(
    ("location", "environment"),
    [("hdfs://name/lake", {}), ("lakefs://lake/main", {}), (URL, {"AWS_S3_LOCKING_PROVIDER": "dynamodb"})],
)
def test_what_has_other_means_is_not_asked(
    location: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert check_races(location, {}, **HOW) == 0
    check_refuses(location, {}, **HOW)


def test_amazons_store_is_not_asked_with_credentials_that_the_sdk_alone_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile, single sign-on, a role: delta-rs finds them, and obstore does not."""
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    for name in (*keys, "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    asked: list[Any] = []
    monkeypatch.setattr(conditional_put, "_put", lambda *args: bool(asked.append(args)))
    check_refuses(URL, {}, **HOW)
    check_refuses(URL, {"region": "eu-central-1"}, **HOW)
    check_refuses(URL, keys, **HOW)  # and the region of the profile
    check_refuses(URL, {**keys, "region": "eu-central-1", "AWS_IAM_ROLE_ARN": "arn:aws:iam::1:role/etl"}, **HOW)
    assert check_races(URL, {}, **HOW) == 0
    assert not asked
    check_refuses(URL, {**keys, "region": "eu-central-1"}, **HOW)
    check_refuses(URL, {"endpoint": "http://127.0.0.1:1", "allow_http": "true"}, **HOW)
    assert len(asked) == 2


def test_neither_delta_nor_vacuum_sees_the_key(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"n": [1]}))
    check_refuses(table, {}, **HOW)
    assert DeltaTable(table).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True) == []
    assert (tmp_path / "t" / "_kseg" / "put-if-absent").is_file()
    assert DeltaTable(table).to_pyarrow_table().num_rows == 1


# --- one run's stores


def test_a_run_checks_each_store_once(memory_s3: Any, tmp_path: Path) -> None:
    checks = StoreChecks(str(tmp_path / "ledger"))
    for place in (str(tmp_path / "t"), "s3://logs/a", "s3a://logs/b"):
        checks.check(place, {}, making=False, table=place)
    assert {key for _, key in memory_s3.asked} == {"a/_kseg/put-if-absent"}
    assert not (tmp_path / "t").exists(), "the ledger's own file system"
    memory_s3.conditional = "ignored"
    checks.check("s3://logs/c", {}, making=False, table="c")
    with pytest.raises(ConfigurationError, match="not put-if-absent") as refused:
        checks.check("s3://logs/c", {}, making=True, table="c")
    assert refused.value.faults[0].path == "sink"


def test_stores_are_told_apart(tmp_path: Path) -> None:
    assert store_of("s3a://b/x") == store_of("s3://b/y") != store_of("s3://c/y")
    assert store_of(str(tmp_path / "not" / "there")) == store_of(tmp_path.as_uri())
    assert store_of("/proc/self") != store_of(str(tmp_path)) or Path("/proc").stat().st_dev == tmp_path.stat().st_dev


@pytest.mark.parametrize("value", ["true", "1"])
def test_renames_that_overwrite_are_refused_for_tables_as_for_ledgers(
    memory_s3: Any, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("AWS_S3_ALLOW_UNSAFE_RENAME", value)
    with pytest.raises(ConfigurationError, match="overwrite each other"):
        StoreChecks().check("s3://logs/t", {}, making=False, table="t")
    with pytest.raises(Refused, match="overwrite each other"):
        Ledger.open(URL)
    assert not memory_s3.asked
