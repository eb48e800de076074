"""What other people do to a job's tables, group, ledger and job file. Each time the job goes on rightly, or it refuses
with a command that leads out, and the suite runs that command. Beside it, dead letters of another job are redriven.

Rows that a person has removed may be missing until they are landed again: a replacing backfill over everything puts
each record back exactly once, so after it nothing may be missing at all.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable
from deltalake.schema import Field, PrimitiveType

from fault_suite import drivers, letters
from fault_suite.jobs import Backfill
from fault_suite.schedule import Action, Interruption, Lane
from fault_suite.settle import until_done
from fault_suite.world import World

HANDS = (
    "OPTIMIZE", "VACUUM", "DELETE", "UPDATE", "RESTORE", "a column is added", "a property is set",
    "an older copy of a table is restored", "a table is deleted", "the group's offsets are moved back",
    "the group's offsets are moved forward", "the group is deleted", "an older copy of the ledger is restored",
    "the ledger is deleted", "the job file is changed",
)  # fmt: skip

LANES = (Lane("people", dict.fromkeys(HANDS, 1), in_turn=True), letters.LANE)

LED_OUT = frozenset(
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
    """copies: where older copies of tables and of the ledger are kept."""

    def __init__(self, copies: Path) -> None:
        self._copies = copies
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
        if choice.random() < 0.4:
            # A run dies first: what it has planned or landed is there when the hand comes.
            step = choice.choice(["plan:after", "land:first:committed", "account:after", "commit:after"])
            world.drive(f"ingest, killed at {step}", {}, Interruption("SIGKILL", at=step))
        hand: Callable[[World, Any, Path], None] = getattr(self, "_" + action.what.replace(" ", "_").replace("'", ""))
        hand(world, choice, copies)
        world.injected(action.what)
        until_done(world, f"after {action.what}: ingest", {"take_over": True})
        ends = world.reader.ends()
        for topic in world.job.topics:
            ranges = [(topic, number, 0, end) for (name, number), end in sorted(ends.items()) if name == topic and end]
            # With a label: the same ranges were replaced before where no record has come since.
            one = Backfill("replace", ranges, f"after-{action.seed}")
            until_done(world, f"after {action.what}: backfill (replace)", one.command | {"take_over": True})
        until_done(world, f"after {action.what}: verify", world.job.line("verify", "JOB"))
        world.moment()

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
        self._table(world, choice).update({"value": "x'00'"}, predicate=f"offset % {choice.randrange(2, 9)} = 0")

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
