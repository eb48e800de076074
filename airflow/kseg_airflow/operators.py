"""The operators: one for each command of `kseg` that a schedule has a use for.

KsegIngestOperator(task_id="ingest", job_file="orders.yaml")
KsegBackfillOperator(task_id="land", job_file="orders.yaml")                   # the run's data interval
KsegVerifyOperator(task_id="verify", job_file="orders.yaml")
KsegRecoverOperator(task_id="rescue", folders="/mnt/broker-1/data", to="/lake/rescued")
KsegCommandOperator(task_id="tidy", command="maintain", job_file="orders.yaml", options={"vacuum": "7d"})
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kseg_airflow import lineage
from kseg_airflow.assets import job_alias, job_outlets, landed_tables, place_of, table_asset
from kseg_airflow.base import KsegOperator
from kseg_airflow.commands import as_list, words_of
from kseg_airflow.compat import AirflowFailException, AirflowSkipException, AssetAlias, clear_of, is_mapped
from kseg_airflow.connections import SPARK_REMOTE, address_of_connection, check_no_token
from kseg_airflow.exit_codes import DONE, FAILED
from kseg_airflow.outcomes import Outcome

#: The data interval of a DAG run, as `kseg backfill --interval` reads it; nothing where the run has none.
DATA_INTERVAL = (
    "{% if data_interval_start is defined and data_interval_start %}"
    "{{ data_interval_start.isoformat() }}/{{ data_interval_end.isoformat() }}{% endif %}"
)

_LONGEST_LABEL = 100  # of `kseg backfill --label`


def interval_of(rendered: str | None) -> str:
    """The interval that a template gave. Raises AirflowFailException where it gave none: no retry brings one."""
    if not rendered:
        raise AirflowFailException(
            "the run has no data interval, since it was begun by hand without a logical date, or by an asset: trigger "
            "it with a logical date (--logical-date, or the form's field), or give the task an interval"
        )
    return rendered


class _LandingOperator(KsegOperator):
    """Lands rows: every table of its job is an outlet, and each landing has an event.

    Tables that are known only when the task runs (a templated job file or environment) have the alias
    `kseg:DAG.TASK` in their place; those of a mapped task the aliases that it is given as outlets.

    emit_assets: False keeps the task from having outlets of ours.
    skip_if_nothing: a run that lands nothing ends the task as skipped, and by Airflow's trigger rules what follows it.
    """

    lands = True

    def __init__(
        self,
        *,
        job_file: str | os.PathLike[str] | None = None,
        emit_assets: bool = True,
        skip_if_nothing: bool = False,
        to: Any = None,
        outlets: Any = None,
        **kwargs: Any,
    ) -> None:
        given = [outlets] if outlets is not None and not isinstance(outlets, list | tuple) else list(outlets or [])
        path: Any = os.fspath(job_file) if isinstance(job_file, os.PathLike) else job_file
        super().__init__(job_file=path, outlets=given, **kwargs)
        self.emit_assets = emit_assets
        self.skip_if_nothing = skip_if_nothing
        self.to = to
        # The scheduler knows the outlets of a mapped task by what it was given, before there are its job files.
        aliased = is_mapped(self) and any(isinstance(outlet, AssetAlias) for outlet in given)
        self.kseg_outlets = self._landing_in(path, to, kwargs.get("env")) if emit_assets and not aliased else []
        self.outlets = [*given, *(outlet for outlet in self.kseg_outlets if outlet not in given)]

    def _landing_in(self, job_file: Any, to: Any, env: Any) -> list[Any]:
        """The tables that a job file names; an alias for one that is known only when the task runs."""
        if not isinstance(job_file, str) or "{{" in job_file:
            return [self._alias()]
        return job_outlets(job_file, env) if env is None or isinstance(env, Mapping) else [self._alias()]

    def _alias(self) -> AssetAlias:
        return job_alias(f"{self.dag_id}.{self.task_id}")

    def conclude(self, report: Mapping[str, Any]) -> None:
        if self.skip_if_nothing and not landed_tables(report):
            raise AirflowSkipException("there was nothing to land")

    # What OpenLineage's provider asks for, where it is installed

    def get_openlineage_facets_on_start(self) -> Any:
        """Topics and tables, as far as the job file names them."""
        return lineage.of_job(self.job_file, self.env)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Topics that were read, and tables that were landed in; by the job file where the task was killed before."""
        return (
            lineage.of_report(self.reported, self.job_file)
            if self.reported
            else lineage.of_job(self.job_file, self.env)
        )


class KsegIngestOperator(_LandingOperator):
    """`kseg ingest`: one run of a job, from where the last one ended.

    Args:
        job_file: the job file; templated.
        remote: a Spark Connect server (`sc://host:15002`) whose cluster does the work; templated.
        remote_conn_id: the same by a connection of type `spark_connect`, which may have a token; templated. The job
            file has no `spark.remote` then, and `submit` is "local".
        drain: repeat runs that `run.max_records` or `run.max_bytes` caps, until everything that was there at the
            beginning has landed.
        dry_run: plan and check, read and write nothing.
        accept_group_offsets: go on from offsets that another client has committed.
        All others: see KsegOperator.
    """

    command = "ingest"
    template_fields: Sequence[str] = (*KsegOperator.template_fields, "remote", "remote_conn_id")

    def __init__(
        self,
        *,
        job_file: str | os.PathLike[str],
        remote: str | None = None,
        remote_conn_id: str | None = None,
        drain: bool = False,
        dry_run: bool = False,
        accept_group_offsets: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(job_file=job_file, **kwargs)
        self.remote = remote
        self.remote_conn_id = remote_conn_id
        self.drain = drain
        self.run_dry = dry_run
        self.accept_group_offsets = accept_group_offsets

    def secret_environment(self) -> dict[str, str]:
        if not self.remote_conn_id:
            return {}
        if self.submit != "local" or self.remote:
            raise AirflowFailException('remote_conn_id cannot be combined with `remote`, and needs submit="local"')
        return {SPARK_REMOTE: address_of_connection(self.remote_conn_id)}

    def arguments(self, context: Any) -> list[str]:
        check_no_token(self.remote)
        own = {
            "remote": self.remote,
            "drain": self.drain,
            "dry_run": self.run_dry,
            "accept_group_offsets": self.accept_group_offsets,
        }
        return [*super().arguments(context), *words_of(own)]


class KsegBackfillOperator(_LandingOperator):
    """`kseg backfill`: a data interval, a stretch of offsets or time, or log files, as a run of its own.

    Without `interval`, `from_`, `to` and `segments` it lands the data interval of the DAG run. Cleared or run again, it
    lands nothing twice.

    Args:
        job_file: the job file; templated.
        interval: START/END in ISO 8601 with time zones; templated.
        from_, to: TOPIC:PARTITION:OFFSET or a time, one or a list; templated.
        segments: folders of log files to read in place of the brokers; templated.
        mode: missing, replace or append (with a label); templated.
        label: part of the run's identity; templated (as `run_label`: Airflow's operators have a `label` already).
            Where a replacement has none, it is the DAG run and the task's last clear: a retry goes on with the
            replacement, a cleared task replaces again, once an unfinished replacement is completed.
        commit_offsets: advance the group's offsets too.
        All others: see KsegOperator.
    """

    command = "backfill"
    template_fields: Sequence[str] = (
        *KsegOperator.template_fields,
        "interval",
        "from_",
        "to",
        "segments",
        "mode",
        "run_label",
    )

    def __init__(
        self,
        *,
        job_file: str | os.PathLike[str],
        interval: str | None = None,
        from_: str | Sequence[str] | None = None,
        to: str | Sequence[str] | None = None,
        segments: str | Sequence[str] | None = None,
        mode: str = "missing",
        label: str | None = None,
        commit_offsets: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(job_file=job_file, to=to, **kwargs)
        self.of_the_run = all(value is None for value in (interval, from_, to, segments))
        self.interval = DATA_INTERVAL if self.of_the_run else interval
        self.from_ = from_
        self.segments = segments
        self.mode = mode
        self.run_label = label
        self.commit_offsets = commit_offsets

    def arguments(self, context: Any) -> list[str]:
        own = {
            "interval": interval_of(self.interval) if self.of_the_run else self.interval,
            "from": as_list(self.from_),
            "to": as_list(self.to),
            "segments": as_list(self.segments),
            "mode": self.mode,
            "label": self.run_label or (_label_of(context) if self.mode == "replace" else None),
            "commit_offsets": self.commit_offsets,
        }
        return [*super().arguments(context), *words_of(own)]

    def interval_of_run(self) -> tuple[str, str] | None:
        start, found, end = (self.interval or "").partition("/")
        return (start, end) if found else None


def _label_of(context: Any) -> str:
    """The same for all tries of a task, and another one when a person has cleared it or made its DAG run again."""
    label = f"{context['ti'].run_id} {clear_of(context)}"
    return label if len(label) <= _LONGEST_LABEL else hashlib.sha256(label.encode()).hexdigest()


class KsegVerifyOperator(KsegOperator):
    """`kseg verify`: reads Kafka again and compares every row. Rows that do not agree fail the task for good.

    segments: compare with log files in place of the brokers; templated.
    """

    command = "verify"
    template_fields: Sequence[str] = (*KsegOperator.template_fields, "segments")

    def __init__(
        self, *, job_file: str | os.PathLike[str], segments: str | Sequence[str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(job_file=job_file, **kwargs)
        self.segments = segments

    def arguments(self, context: Any) -> list[str]:
        return [*super().arguments(context), *words_of({"segments": as_list(self.segments)})]


class KsegRecoverOperator(_LandingOperator):
    """`kseg recover`: lands all that can be read from damaged log directories, without a broker.

    Args:
        folders: one folder of log files or several, paths or URLs; templated.
        to: the Delta table; `{topic}` makes one a topic; templated.
        topics, pattern, quarantine, ledger: as the command's options; templated.
        accept_damage: whether the task succeeds where something could not be read and lies in the quarantine table.
        All others: see KsegOperator.
    """

    command = "recover"
    template_fields: Sequence[str] = (
        *(name for name in KsegOperator.template_fields if name != "job_file"),
        "folders",
        "to",
        "topics",
        "pattern",
        "quarantine",
        "ledger",
    )

    def __init__(
        self,
        *,
        folders: str | Sequence[str],
        to: str,
        topics: str | Sequence[str] | None = None,
        pattern: str | None = None,
        quarantine: str | None = None,
        ledger: str | None = None,
        accept_damage: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(to=to, **kwargs)
        self.folders = folders
        self.topics = topics
        self.pattern = pattern
        self.quarantine = quarantine
        self.ledger = ledger
        self.accept_damage = accept_damage

    def _landing_in(self, job_file: str | None, to: Any, env: Any) -> list[Any]:
        place = place_of(to, Path.cwd()) if isinstance(to, str) and "{" not in to else None
        return [self._alias()] if place is None else [table_asset(place)]

    def arguments(self, context: Any) -> list[str]:
        own = {
            "to": self.to,
            "topics": ",".join(as_list(self.topics)) or None,
            "pattern": self.pattern,
            "quarantine": self.quarantine,
            "ledger": self.ledger,
        }
        return [self.command, *as_list(self.folders), *words_of(own), *words_of(self.options)]

    def judge(self, outcome: Outcome) -> Outcome:
        damaged = outcome.exit_code == FAILED and outcome.document is not None and not outcome.error
        if damaged and self.accept_damage:
            self.log.warning("Some records could not be read; they are in the quarantine table.")
            return replace(outcome, exit_code=DONE)
        return (
            replace(outcome, detail="some records could not be read; see the quarantine table") if damaged else outcome
        )


class KsegCommandOperator(KsegOperator):
    """Any other command of `kseg` that ends by itself: maintain, audit, check, fsck, repair, plan, status …

    Args:
        command: the command's name.
        job_file: the job file, for commands that take one; templated.
        arguments_: further words after it; templated.
        options: the command's options by name; templated.
        lose_rows: of `repair --abandon`, remove rows also if Kafka no longer has their records. Nobody can be asked in
            a task, so that the command is refused without it (`rows-would-be-lost`, exit 3), and the task fails.
    """

    template_fields: Sequence[str] = (*KsegOperator.template_fields, "arguments_")

    def __init__(self, *, command: str, arguments_: Sequence[str] = (), lose_rows: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if lose_rows and command != "repair":
            raise ValueError(f"lose_rows is for the command repair, and this one is {command}")
        self.command = command  # type: ignore[misc]
        self.arguments_ = list(arguments_)
        self.lose_rows = lose_rows

    def arguments(self, context: Any) -> list[str]:
        words = [self.command, *([self.job_file] if self.job_file else []), *self.arguments_]
        return [*words, *words_of(self.options), *words_of({"lose_rows": self.lose_rows})]


__all__ = [
    "DATA_INTERVAL",
    "KsegBackfillOperator",
    "KsegCommandOperator",
    "KsegIngestOperator",
    "KsegRecoverOperator",
    "KsegVerifyOperator",
    "interval_of",
]
