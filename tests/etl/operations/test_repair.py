"""What a run that is finished as it was planned takes from the job file of today."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kseg.etl.config.load import load_job
from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.operations import repair
from kseg.etl.operations.as_planned import as_planned


def test_a_run_is_finished_with_the_brokers_and_the_registry_of_today() -> None:
    def job_at(place: str, **value: Any) -> Any:
        return load_job(
            {
                "version": 1,
                "name": "orders",
                "kafka": {"bootstrap.servers": f"{place}:9092"},
                "registry": {"url": f"http://{place}:8081"},
                "source": {"topics": ["orders"]},
                "decode": {"value": {"format": "avro", "schema": "registry", **value}},
                "sink": {"path": "./lake/orders"},
                "ledger": "./ledger",
            }
        )

    planned, today = job_at("old", tombstones="drop"), job_at("new")
    run: Any = SimpleNamespace(mode="incremental", plan=SimpleNamespace(pinned_config=json.dumps(planned.pinned())))
    made = as_planned(today, run)
    assert (made.kafka, made.registry) == (today.kafka, today.registry)
    assert made.config_hash == planned.config_hash != today.config_hash


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("refused", ["table-older-than-ledger", "topic-recreated", "run-abandoning", "account-failed"])
def test_what_is_refused_is_found_before_anything_is_recorded(
    monkeypatch: pytest.MonkeyPatch, refused: str, dry_run: bool
) -> None:
    """The failed account was cleared though the table was refused, and a dry run promised what was refused."""
    failed = ev.AccountFailed(run_id="r", equation="rows", reason="x", final=refused == "account-failed")
    plan = SimpleNamespace(tables={"/t": None}, run_id="r", ranges=())
    run = SimpleNamespace(run_id="r", chain="c", mode="incremental", plan=plan, ended=False, accounted=None)
    run.abandoning, run.account_failed = refused == "run-abandoning", failed
    recorded: list[Any] = []
    context = SimpleNamespace(
        inputs=None,
        clients=SimpleNamespace(read_state=lambda: None),
        run_lease=lambda *_, **__: nullcontext(SimpleNamespace(transition=recorded.append)),
    )

    def examine(*_: Any) -> None:
        raise Refused("table-older-than-ledger", "it is")

    def check(*_: Any) -> None:
        if refused == "topic-recreated":
            raise Refused("topic-recreated", "it is")

    monkeypatch.setattr(repair.JobContext, "open", lambda *_, **__: nullcontext(context))
    monkeypatch.setattr(repair, "_unfinished", lambda *_: run)
    monkeypatch.setattr(repair, "as_planned", lambda *_: SimpleNamespace(source=SimpleNamespace(segments=None)))
    monkeypatch.setattr(repair, "check_again", check)
    monkeypatch.setattr(repair, "examine_tables", examine)
    monkeypatch.setattr(repair, "report_of", lambda *_, **__: None)
    with pytest.raises(Refused) as caught:
        repair.finish(cast("Any", SimpleNamespace(name="job")), "r", dry_run=dry_run)
    assert caught.value.code == refused
    assert not recorded


WITH_TOKEN = "sc://host:443/;token=hunter2hunter2"


@pytest.mark.parametrize("of_old_release", [False, True])
def test_a_run_on_a_connect_server_with_a_token_is_finished_on_the_server_of_today(
    of_old_release: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan had the whole address, which no document may have: the run could be finished by no command."""
    monkeypatch.setenv("T", "b")
    job = load_job(
        {
            "version": 1,
            "name": "orders",
            "kafka": {"bootstrap.servers": "localhost:9092"},
            "source": {"topics": ["orders"]},
            "sink": {"path": "./lake/orders"},
            "ledger": "./ledger",
            "spark": {"conf": {"spark.x.token": "${T}"}},
        }
    )
    pinned = job.on_remote(WITH_TOKEN).pinned()
    assert "hunter2" not in json.dumps(pinned)
    if of_old_release:
        pinned["spark"] |= {"remote": WITH_TOKEN, "conf": {}}
    run: Any = SimpleNamespace(mode="backfill", plan=SimpleNamespace(pinned_config=json.dumps(pinned)))
    today = job.on_remote("sc://new:443/;token=hunter3hunter3")
    made = as_planned(today, run)
    assert (made.spark, made.config_hash) == (today.spark, job.config_hash)
    assert as_planned(job, run).spark == job.spark
    assert made.spark_conf() == {"spark.x.token": "b"}


def job_of(**sections: Any) -> Any:
    document = {
        "version": 1,
        "name": "orders",
        "kafka": {"bootstrap.servers": "localhost:9092"},
        "source": {"topics": ["orders"]},
        "sink": {"path": "./lake/orders"},
        "ledger": "./ledger",
    }
    return load_job({**document, **sections})


def run_of(job: Any, mode: str = "incremental") -> Any:
    return SimpleNamespace(mode=mode, plan=SimpleNamespace(pinned_config=json.dumps(job.pinned())))


def test_a_loss_and_a_gap_are_recorded_as_the_job_file_of_today_says() -> None:
    """The whole source was the plan's: the remedy of a refused `--finish` had no effect on it."""
    today = job_of(source={"topics": ["orders"], "provenance": True, "on_data_loss": "record", "on_gap": "record"})
    made = as_planned(today, run_of(job_of()))
    assert (made.source.on_data_loss, made.source.on_gap, made.source.provenance) == ("record", "record", False)


def test_offsets_are_committed_for_the_group_of_the_plan() -> None:
    """Else a group that has not landed the rows gets their offsets, and the run's own transaction is not fenced."""
    planned = job_of(group="planned", transactional_id="of-planned")
    made = as_planned(job_of(group="today", group_commit="plain"), run_of(planned))
    assert (made.group, made.group_commit, made.transactional_id) == ("planned", "transactional", "of-planned")
    assert as_planned(job_of(group="today"), run_of(job_of())).group is None


def test_a_reference_of_the_plan_that_leads_nowhere_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLD_HOST", "old:9092")
    planned = run_of(job_of(kafka={"bootstrap.servers": "${OLD_HOST}"}))
    monkeypatch.delenv("OLD_HOST")
    assert as_planned(job_of(), planned).kafka_properties()["bootstrap.servers"] == "localhost:9092"


@pytest.mark.parametrize("planned", [None, "/copies/a"])
@pytest.mark.parametrize("today", [None, "/copies/b"])
@pytest.mark.parametrize("mode", ["incremental", "backfill-missing"])
def test_the_job_file_names_the_log_of_the_incremental_chain_alone(
    planned: str | None, today: str | None, mode: str
) -> None:
    def reading(folder: str | None) -> Any:
        return job_of(source={"topics": ["orders"], **({} if folder is None else {"segments": folder})})

    made = as_planned(reading(today), run_of(reading(planned), mode)).source.segments
    wanted = today if mode == "incremental" else planned
    assert (made and made.paths) == (wanted and (wanted,))


def test_a_registry_that_the_job_has_no_more_is_the_plans() -> None:
    value = {"format": "avro", "schema": "registry", "max_columns": 50}
    planned = job_of(registry={"url": "http://old:8081"}, decode={"value": value})
    assert as_planned(job_of(), run_of(planned)).registry == {"url": "http://old:8081"}
    more = job_of(registry={"url": "http://new:8081"}, decode={"value": {**value, "max_columns": 60}})
    made = as_planned(more, run_of(planned))
    assert (made.registry, made.decode.value.max_columns) == ({"url": "http://new:8081"}, 60)  # type: ignore[union-attr]
