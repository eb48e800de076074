"""What other people do to a job's tables, group, ledger and job file. Each time the job goes on rightly, or it refuses
with a command that leads out, and the suite runs that command. Beside it, dead letters of another job are redriven.

Rows that a person has removed may be missing until they are landed again: a replacing backfill over everything puts
each record back exactly once, so after it nothing may be missing at all. Rows of a topic that was deleted and made
again stay until a person removes them: their records are gone.

Records are deleted from topics, as retention does it (`source.on_data_loss: record`): what has landed keeps its rows,
which nothing can land again, so that it may be missing where a person removes it.

A run that has died is unfinished when the job file is changed. Where no row depends on what is changed, it goes on;
else it is ended by the command that the refusal names, or by `repair --finish` or `--abandon` beforehand.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable
from deltalake.schema import Field, PrimitiveType

from fault_suite import drivers, letters, lost_logs
from fault_suite.jobs import Backfill
from fault_suite.journal import Partition
from fault_suite.oracle import Removed
from fault_suite.retention import delete_records_of
from fault_suite.schedule import Action, Interruption, Lane
from fault_suite.settle import until_done
from fault_suite.world import World
from kseg.etl.ledger.events import INCREMENTAL
from kseg.etl.ledger.state import RunState

FILE_HANDS = ("the job file is changed", "the job file is changed but for rows", "retention")
"""Those after which an unfinished run goes on, or is ended."""

CLASSES = (
    ("a topic is made again",),
    ("retention",),
    ("the job file is changed", "the job file is changed but for rows"),
    ("the group's offsets are moved back", "the group's offsets are moved forward", "the group is deleted"),
    ("an older copy of the ledger is restored", "the ledger is deleted"),
    (
        "OPTIMIZE", "VACUUM", "DELETE", "UPDATE", "RESTORE", "a column is added", "a property is set",
        "an older copy of a table is restored", "a table is deleted",
    ),
)  # fmt: skip
"""What people do, by what they do it to."""

HANDS = tuple(hand for hands in CLASSES for hand in hands)

LANES = (Lane("people", dict.fromkeys(HANDS, 1), in_turn=True, classes=CLASSES), letters.LANE)

ROUND_SECONDS = 330
"""A run of so long or longer has at least one of each class, and an abandoned redrive; see `not_reached`."""

LED_OUT = lost_logs.REFUSED | frozenset(
    f"refused: {code}"
    for code in (
        "table-restored", "table-overwritten", "table-truncated", "table-lost-rows", "table-went-back", "table-missing",
        "table-older-than-ledger", "table-differs", "table-recreated", "group-offsets-differ", "ledger-older",
        "ledger-older-than-table", "ledger-lost", "ledger-missing", "rows-of-unknown-run", "run-unfinished",
        "configuration-changed", "table-lacks-files", "several-ledgers", "rows-would-be-lost",
    )
)  # fmt: skip
"""Refusals that these hands may lead to; the suite follows them."""


class People:
    """copies: where older copies of tables and of the ledger are kept. embedded: an `EmbeddedKafka` of one node."""

    def __init__(self, copies: Path, embedded: Any) -> None:
        self._copies = copies
        self._logs = lost_logs.LostLogs(embedded, threading.Lock(), replication=1)
        self._made_again = 0.0
        self._numbers = iter(range(1 << 30))

    @property
    def perform(self) -> dict[str, Any]:
        return {**drivers.PERFORM, **letters.PERFORM, **dict.fromkeys(HANDS, self._one)}

    def _one(self, world: World, action: Action) -> None:
        """Land what there is, change one thing, land on, and put back what was removed."""
        choice = world.choose(action)
        until_done(world, "ingest before", {})
        copies = self._copy(world)
        until_done(world, "ingest before", {})
        if choice.random() < (0.8 if action.what in FILE_HANDS else 0.4):
            # A run dies first: what it has planned or landed is there when the hand comes.
            step = choice.choice(["plan:after", "land:first:committed", "account:after", "commit:after"])
            world.drive(f"ingest, killed at {step}", {}, Interruption("SIGKILL", at=step))
        hand: Callable[[World, Any, Path], None] = getattr(self, "_" + action.what.replace(" ", "_").replace("'", ""))
        hand(world, choice, copies)
        self._forgive_deleted(world)
        world.injected(action.what)
        if action.what in FILE_HANDS and choice.random() < 0.5:
            self._end_dead_run(world, choice)
        until_done(world, f"after {action.what}: ingest", {"take_over": True})
        ends = world.reader.ends()
        for topic in world.job.topics:
            ranges = [(topic, number, 0, end) for (name, number), end in sorted(ends.items()) if name == topic and end]
            # With a label: the same ranges were replaced before where no record has come since.
            one = Backfill("replace", ranges, f"after-{action.seed}")
            until_done(world, f"after {action.what}: backfill (replace)", one.command | {"take_over": True})
        self._forgive(world)
        until_done(world, f"after {action.what}: verify", world.job.line("verify", "JOB"))
        world.moment()

    def _forgive(self, world: World) -> None:
        """What hands have removed of former records, nobody can land again."""
        rows = world.tables.contents()
        for at, ones in world.former.items():
            found = rows.get(at, [])
            world.former[at] = [replace(one, least=min(one.least, found.count(one.content))) for one in ones]

    def _forgive_deleted(self, world: World) -> None:
        """Nor what a hand has just removed of records that were deleted."""
        rows = world.tables.offsets()
        for place, gone in _deleted(world).items():
            removed = {at for at in world.reader.records[place] if at < gone.before and not rows[place][at]}
            world.removed[place] = replace(gone, unlanded=gone.unlanded | removed)

    def _end_dead_run(self, world: World, choice: Any) -> None:
        """By the command that completes or abandons it, before any run is refused."""
        for run in _unfinished(world):
            if choice.random() < 0.5:
                until_done(world, "repair --finish", world.job.line("repair", "JOB", "--finish", run.run_id))
            else:
                line = world.job.line("repair", "JOB", "--abandon", run.run_id)
                world.run("repair --abandon", line, allowed=drivers.ENDED)

    def _copy(self, world: World) -> Path:
        folder = self._copies / str(next(self._numbers))
        for name in ("lake", "ledger"):
            shutil.copytree(world.job.folder / name, folder / name)
        return folder

    # --- hands on a table

    def _table(self, world: World, choice: Any) -> DeltaTable:
        return DeltaTable(choice.choice(sorted(world.job.tables.values())))

    def _OPTIMIZE(self, world: World, choice: Any, _: Path) -> None:
        self._table(world, choice).optimize.compact()

    def _VACUUM(self, world: World, choice: Any, _: Path) -> None:
        table = self._table(world, choice)
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def _DELETE(self, world: World, choice: Any, _: Path) -> None:
        self._table(world, choice).delete(f"offset % {choice.randrange(2, 9)} = 0")

    def _UPDATE(self, world: World, choice: Any, _: Path) -> None:
        since = datetime.fromtimestamp(self._made_again, UTC).isoformat()  # a former record is not landed again
        which = f"offset % {choice.randrange(2, 9)} = 0 AND timestamp >= '{since}'"
        for (topic, partition), gone in _deleted(world).items():  # nor is a deleted one
            which += f" AND NOT (topic = '{topic}' AND partition = {partition} AND offset < {gone.before})"
        self._table(world, choice).update({"value": "x'00'"}, predicate=which)

    def _RESTORE(self, world: World, choice: Any, _: Path) -> None:
        table = self._table(world, choice)
        newest = table.version()
        if newest > 1:
            table.restore(choice.randrange(max(1, newest - 3), newest))

    def _a_column_is_added(self, world: World, choice: Any, _: Path) -> None:
        name = f"added_{next(self._numbers)}"
        self._table(world, choice).alter.add_columns([Field(name, PrimitiveType("string"), nullable=True)])

    def _a_property_is_set(self, world: World, choice: Any, _: Path) -> None:
        self._table(world, choice).alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})

    def _an_older_copy_of_a_table_is_restored(self, world: World, choice: Any, copies: Path) -> None:
        name = choice.choice(sorted(world.job.tables))
        shutil.rmtree(world.job.folder / "lake" / name)
        shutil.copytree(copies / "lake" / name, world.job.folder / "lake" / name)

    def _a_table_is_deleted(self, world: World, choice: Any, _: Path) -> None:
        shutil.rmtree(world.job.folder / "lake" / choice.choice(sorted(world.job.tables)))

    # --- hands on a topic

    def _a_topic_is_made_again(self, world: World, choice: Any, _: Path) -> None:
        self._logs.recreation(world, Action("recreation", seed=choice.randrange(1 << 30)))
        self._made_again = time.time()

    def _retention(self, world: World, choice: Any, copies: Path) -> None:
        """Often with a changed job file: a run that has died may be completed, and not abandoned."""
        world.injected(f"records are deleted: {delete_records_of(world, choice)}")
        if choice.random() < 0.5:
            self._the_job_file_is_changed(world, choice, copies)

    # --- hands on the group

    def _move(self, world: World, offsets: dict[tuple[str, int], int]) -> None:
        group = world.job.group
        asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(*tp, at) for tp, at in offsets.items()])]
        admin = AdminClient({"bootstrap.servers": world.job.servers, "log_level": 0})
        admin.alter_consumer_group_offsets(asked, request_timeout=60)[group].result(60)

    def _the_groups_offsets_are_moved_back(self, world: World, choice: Any, _: Path) -> None:
        now = world.reader.group_offsets(world.job.group)
        self._move(world, {tp: choice.randrange(at + 1) for tp, at in now.items() if choice.random() < 0.7})

    def _the_groups_offsets_are_moved_forward(self, world: World, choice: Any, _: Path) -> None:
        now, ends = world.reader.group_offsets(world.job.group), world.reader.ends()
        self._move(world, {tp: choice.randrange(at, ends[tp] + 1) for tp, at in now.items() if choice.random() < 0.7})

    def _the_group_is_deleted(self, world: World, *_: Any) -> None:
        admin = AdminClient({"bootstrap.servers": world.job.servers, "log_level": 0})
        admin.delete_consumer_groups([world.job.group], request_timeout=60)[world.job.group].result(60)

    # --- hands on the ledger

    def _an_older_copy_of_the_ledger_is_restored(self, world: World, _: Any, copies: Path) -> None:
        shutil.rmtree(world.job.folder / "ledger")
        shutil.copytree(copies / "ledger", world.job.folder / "ledger")

    def _the_ledger_is_deleted(self, world: World, *_: Any) -> None:
        shutil.rmtree(world.job.folder / "ledger")

    # --- hands on the job file

    def _the_job_file_is_changed(self, world: World, choice: Any, _: Path) -> None:
        step = choice.choice(["SELECT * FROM __rows__", "SELECT * FROM __rows__ WHERE true", "FROM __rows__"])
        world.job.document["transform"] = [{"duckdb": step}]
        world.job.write()

    def _the_job_file_is_changed_but_for_rows(self, world: World, choice: Any, _: Path) -> None:
        """An unfinished run that could go on before goes on."""
        left = [run.run_id for run in _unfinished(world)]
        world.job.document["source"]["max_records_per_task"] = choice.randrange(500, 50_000)
        world.job.document["run"]["deadline"] = f"{choice.randrange(120, 240)}s"
        world.job.write()
        until_done(world, "after what decides no rows: ingest", {"take_over": True})
        state = world.job.state()
        ended = [run for run in left if state is None or not state.runs[run].finished]
        world.findings.note("unexpected", len(ended), f"a run did not go on after a change for no rows: {ended}")


def _deleted(world: World) -> dict[Partition, Removed]:
    """Of each partition of the job whose first records were deleted."""
    return {place: gone for place, gone in list(world.removed.items()) if place[0] in world.job.topics and gone.before}


def _unfinished(world: World) -> list[RunState]:
    """The incremental run that has died, if there is one."""
    state = world.job.state()
    return [run for run in state.unfinished_runs() if run.chain == INCREMENTAL] if state is not None else []


def not_reached(outcomes: Iterable[tuple[str, str]]) -> list[str]:
    """What a run of `ROUND_SECONDS` has, and this one has not: a class of hands, an abandoned redrive."""
    kinds = set(outcomes)
    lacking = [str(hands) for hands in CLASSES if not any((hand, "injected") in kinds for hand in hands)]
    abandoned = "letters: repair --abandon (redrive)"
    return lacking if (abandoned, "done") in kinds else [*lacking, abandoned]
