"""A job beside the others whose dead letters are redriven while its job file changes and records are deleted.

Values are JSON with a level. The job expects it to be below a bound, which rises: what was a dead letter lands with a
later redrive, and by whichever kind of step the job file has then. At the end there is no bound, and each record
is a row, but for what is no JSON.

The job file changes in each of its classes:

    the first schema is corrected        a type that no value has: until then all records are dead letters, and the
                                         table, which has no rows, gets the corrected type
    a wrong column is left out           or declared again: records with a text in it are dead letters only while it is
    the bound, the transform             fields that decide rows: a run that has landed does not go on by itself
    what decides no rows                 a run that is unfinished goes on: it must not be abandoned
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException

from fault_suite.decoded import OfRun, dead_letters, typed_rows
from fault_suite.drivers import ENDED
from fault_suite.journal import Address, Partition
from fault_suite.oracle import Content
from fault_suite.retention import delete_records_of
from fault_suite.schedule import Action, Interruption, Lane
from fault_suite.settle import until_done
from fault_suite.world import World
from kseg.client.errors import KafkaError
from kseg.etl.config.load import load_job
from kseg.etl.ledger.dead_letters import REDRIVE
from kseg.etl.ledger.events import INCREMENTAL
from kseg.etl.ledger.state import RunState
from run_steps import steps_of

BAD = 0.03
"""The share of values that are no JSON."""

TEXTS = 0.1
"""The share of the others that have a text in the column `extra`."""

MOST_REDRIVES = 20
LEVELS = 100
FIRST_BOUND, LOW_BOUND = 40, 10
COLUMNS = ("id", "level")
DECLARED = {"id": "bigint", "level": "int"}
FIRST_DECLARED = {"id": "bigint", "level": "boolean", "extra": "int"}
STEPS: tuple[dict[str, str] | None, ...] = (
    None,
    {"duckdb": "SELECT * FROM __rows__"},
    {"sql": "SELECT * FROM __rows__"},
    {"sql": "SELECT *, level + 0 AS same FROM __rows__"},
)
"""What the transform is, in turn: rows have the same columns but for one that nothing looks at."""

LANE = Lane(
    "letters",
    {
        "ingest": 5,
        "redrive": 5,
        "a redrive is abandoned": 1,
        "the job file changes": 4,
        "records are deleted": 1,
        "maintain": 1,
        "end an unfinished run": 1,
    },
    interrupted=0.4,
    in_turn=True,
    job="letters",
    steps=steps_of("typed"),
    pause=0.5,
)

ALLOWED = frozenset({"another run is active", "refused: configuration-changed", "refused: run-unfinished"})
"""What the lane leads to by itself: a run that has landed in some tables, and then the job file changes."""


def value(choice: random.Random) -> bytes:
    """One at random."""
    extra = "text" if choice.random() < TEXTS else choice.randrange(100)
    made = json.dumps({"id": choice.randrange(1 << 40), "level": choice.randrange(LEVELS), "extra": extra}).encode()
    return made[:-1] if choice.random() < BAD else made


def read(given: bytes | None) -> tuple[Any, ...] | None:
    """The columns of a value; None where it is none."""
    try:
        found = json.loads(given or b"")
    except ValueError:
        return None
    return tuple(found[name] for name in COLUMNS)


def sections(table: str) -> dict[str, Any]:
    """Those of the job file. table: where it lands."""
    return {
        "decode": {
            "value": {"format": "json", "schema": {"columns": dict(FIRST_DECLARED)}},
            "on_error": "dead_letter",
            "keep": ["key", "value", "timestamp", "headers"],
        },
        "sink": {"path": table, "dead_letters": {"max": "100%"}, "merge_schema": True},
    }


@dataclass
class RedrivenTables:
    """The tables of such a job, as `oracle.Tables` are. path: of the typed rows. dead: of the dead letters, which stay
    there when their records have landed."""

    path: str
    dead: str

    def offsets(self) -> dict[Partition, Counter[int]]:
        found: dict[Partition, Counter[int]] = defaultdict(Counter)
        for (topic, partition, offset), rows in self.contents().items():
            found[topic, partition][offset] += len(rows)
        return found

    def contents(self) -> dict[Address, list[Content]]:
        """Every row by its address, and the dead letters of records without a row; one that is wrong in itself has a
        content that no record has. At the end a dead letter of what is JSON is wrong."""
        rows = typed_rows(self.path, COLUMNS, read)
        letters = dead_letters(self.dead, read)
        found: dict[Address, list[Content]] = defaultdict(list)
        for at in rows.keys() | letters.keys():
            found[at] = due(rows.get(at, []), letters.get(at, []))
        return found


def due(rows: list[OfRun], letters: list[OfRun]) -> list[Content]:
    """What counts of the rows and the dead letters of one address, each with its run: the rows, or the dead letter of a
    record that has none. A run that has both, or two of one, has made one too many."""
    runs = Counter(run for run, _ in [*rows, *letters])
    doubled = [content for run, content in letters if runs[run] > 1]
    if not rows:
        return [content for _, content in letters]
    return [*(content for _, content in rows), *doubled]


# --- what is done to it


def redrive(world: World, action: Action) -> None:
    """Whatever can land now, or what a dead redrive has left; nothing before the job's first run."""
    if world.job.state() is None:
        world.over.wait(1)
        return
    world.drive(action.kind, {"do": "redrive", "take_over": action.take_over}, action.interruption)


def abandon_redrive(world: World, action: Action) -> None:
    """One that dies, and is abandoned then: its rows go, and its dead letters are open again.

    Before it the bound is low for a run, so that there are dead letters that can be decoded when it is as it was.
    """
    decode = world.job.document["decode"]
    if not _is_corrected(decode):
        _correct(decode)
        world.job.write()
    command = {"do": "redrive", "take_over": True}
    until_done(world, "ingest before", {"take_over": True})
    until_done(world, "redrive of what is open", command)
    bound = decode["expect"]
    for expected in ({"level": f"< {LOW_BOUND}"}, bound):
        decode["expect"] = expected
        world.job.write()
        until_done(world, f"ingest with a {'low' if expected is not bound else 'high'} bound", {"take_over": True})
    step = world.choose(action).choice(["plan:after", "land:typed:committed", "account:after", "finish:before"])
    world.drive(f"redrive, killed at {step}", command, Interruption("SIGKILL", at=step))
    for run in _unfinished(world, REDRIVE):
        line = world.job.line("repair", "JOB", "--abandon", run.run_id, "--take-over")
        world.run("repair --abandon (redrive)", line, allowed=ENDED)


def change(world: World, action: Action) -> None:
    """One class of fields; at first the schema is corrected."""
    choice, decode = world.choose(action), world.job.document["decode"]
    columns = decode["value"]["schema"]["columns"]
    if not _is_corrected(decode):
        kind = "the first schema is corrected"
        _correct(decode)
    elif choice.random() < 0.25:
        _change_no_rows(world, choice)
        return
    elif choice.random() < 0.3:
        kind = "a column is left out" if columns.pop("extra", None) else "a column is declared"
        if kind == "a column is declared":
            columns["extra"] = FIRST_DECLARED["extra"]
    else:
        kind = "bound and transform"
        bound = int(decode["expect"]["level"].removeprefix("< "))
        decode["expect"]["level"] = f"< {bound + choice.randrange(max(1, (LEVELS - bound) // 2))}"
        step = choice.choice(STEPS)
        world.job.document["transform"] = [step] if step is not None else []
    world.job.write()
    world.injected(f"the job file changes: {kind}")


def _is_corrected(decode: Mapping[str, Any]) -> bool:
    return bool(decode["value"]["schema"]["columns"]["level"] == DECLARED["level"])


def _correct(decode: dict[str, Any]) -> None:
    """The schema, which has the wrong type at first."""
    decode["value"]["schema"]["columns"]["level"] = DECLARED["level"]
    decode["expect"] = {"level": f"< {FIRST_BOUND}"}


def _change_no_rows(world: World, choice: random.Random) -> None:
    """Fields that decide no rows: a run that could go on before goes on."""
    hashes = {run.run_id: load_job(world.job.file).hash_by(run.plan.rules) for run in _unfinished(world)}
    could = {run.run_id for run in _unfinished(world) if run.config_hash == hashes.get(run.run_id)}
    world.job.document["source"]["max_records_per_task"] = choice.randrange(500, 50_000)
    world.job.document["sink"]["dead_letters"]["max"] = choice.choice(["100%", 1_000_000])
    world.job.write()
    world.injected("the job file changes: what decides no rows")
    world.run("ingest after it", {"take_over": True}, allowed=world.led_out)
    state = world.job.state()
    gone = [run for run in could if state is not None and run in state.runs and state.runs[run].abandoned]
    world.findings.note("unexpected", len(gone), f"abandoned after a change that decides no rows: {gone}")


def _unfinished(world: World, *modes: str) -> list[RunState]:
    """The job's unfinished runs of these modes; of none: incremental ones whose abandonment has not begun."""
    state = world.job.state()
    found = state.unfinished_runs() if state is not None else ()
    if modes:
        return [run for run in found if run.mode in modes]
    return [run for run in found if run.chain == INCREMENTAL and not run.abandoning]


def retention(world: World, action: Action) -> None:
    """Records are deleted: dead letters keep what they need of theirs."""
    try:
        what = delete_records_of(world, world.choose(action))
    except (KafkaException, KafkaError):
        return
    world.injected(f"records are deleted: {what}")


def at_end(world: World) -> None:
    """Without a bound all dead letters of what is JSON are redriven."""
    world.job.document["decode"].pop("expect", None)
    world.job.document["decode"]["value"]["schema"]["columns"] = dict(DECLARED)
    world.job.document["transform"] = []
    world.job.write()
    for _ in range(MOST_REDRIVES):
        answer = until_done(world, "at the end: redrive", {"do": "redrive", "take_over": True})
        if answer["report"]["status"] == "nothing-to-do":
            return
    raise AssertionError("redrives do not come to an end")


PERFORM: dict[str, Any] = {
    "redrive": redrive,
    "a redrive is abandoned": abandon_redrive,
    "the job file changes": change,
    "records are deleted": retention,
}
