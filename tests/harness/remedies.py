"""The remedies that refusals print, and how each is carried out against the state that caused the refusal.

`TABLE` (tests/etl/exactly_once/data/remedies.toml) has them: by code of a refusal the states that lead to it,
and for each state the remedies, with the words that print them and what leads out. Steps:

    kseg … JOB … -> N  the command as it is printed, by the command line; RUN, TABLE, TOPIC … stand for the state's own;
                       N is its exit code, 0 where none is given
    set KEY: VALUE     a change of the job file
    unset KEY          a key is taken out of it
    query              the query of `format("kseg")` is started again, as Spark drives it
    option NAME=VALUE  a change of its options
    person: WORDS      what only a person can do (restore a file, stop a consumer), done by the state's own function
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import remedy_states_of_decoding
import remedy_states_of_gaps
import remedy_states_of_ledgers
import remedy_states_of_logs
import remedy_states_of_queries
import remedy_states_of_registries
import remedy_states_of_runs
import remedy_states_of_tables
from kseg.etl.errors import Refused
from kseg.etl.run.context import JobContext
from kseg.etl.tables.values import Incident
from kseg.jobs.cli import cli
from remedy_state import STATES, WITH, State

TABLE: dict[str, list[dict[str, Any]]] = tomllib.loads(
    (Path(__file__).parents[1] / "etl/exactly_once/data/remedies.toml").read_text()
)["refusals"]
MODULES = (
    remedy_states_of_decoding,
    remedy_states_of_gaps,
    remedy_states_of_ledgers,
    remedy_states_of_logs,
    remedy_states_of_queries,
    remedy_states_of_registries,
    remedy_states_of_runs,
    remedy_states_of_tables,
)
"""Where the states are: importing them fills `STATES`."""
COMMAND = re.compile(r"`((?:kseg|--)[^`]*)`")
SETTING = re.compile(r"\b(?:source|decode|sink|registry|run|spark|delta)\.[a-z][\w.]*(?:: [\w%]+)?")


@dataclass(frozen=True)
class Case:
    """One remedy of one state. first: it is the state's first one."""

    code: str
    state: dict[str, Any] = field(repr=False)
    remedy: dict[str, Any] = field(repr=False)
    first: bool

    def __str__(self) -> str:
        return f"{self.code}: {self.name}: {self.remedy['says']}"

    @property
    def name(self) -> str:
        """Its state's, as `STATES` has it."""
        return str(self.state["state"])


CASES = [
    Case(code, state, remedy, number == 0)
    for code, states in TABLE.items()
    for state in states
    for number, remedy in enumerate(state["remedies"])
]


# --- carrying out


def kseg(job: Any, words: list[str]) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON output, and all output of a command."""
    done = CliRunner().invoke(cli, [*words, "--json", *([] if words[0] == "status" else ["--progress", "none"])])
    line = done.stdout.strip()
    return done.exit_code, json.loads(line) if line.startswith("{") else {}, done.output


def filled(state: State, text: str) -> list[str]:
    """A printed command's words, without `kseg`."""
    words = text.split()
    assert words[0] == "kseg"
    values = {"JOB": str(state.job.file), **state.values}
    found = []
    for word in words[1:]:
        for name, value in values.items():
            word = re.sub(rf"\b{name}\b", value, word)
        found.append(word)
    return found


def outcome(state: State, command: str) -> tuple[int, dict[str, Any], str]:
    """As `kseg`; of a query the error that Spark would show."""
    if command != "query":
        return kseg(state.job, filled(state, command))
    with pytest.raises(Refused) as caught:
        state.query.run()
    return int(caught.value.exit_code), {"error": caught.value.to_json()}, str(caught.value)


def carry_out(state: State, step: str) -> None:
    verb, _, rest = step.partition(" ")
    if verb == "kseg":
        words, _, expected = rest.partition(" -> ")  # `kseg verify` finds what was announced, with exit code 1
        code, document, output = kseg(state.job, filled(state, f"kseg {words}"))
        assert code == int(expected or 0), f"{step}: {code} {document.get('error') or output}"
    elif verb == "set":
        (key, value), *_ = yaml.safe_load(rest).items()
        state.job.change(**nested(key.split("."), value))
    elif verb == "unset":
        state.job.change(**nested(rest.split("."), None))
    elif verb == "query":
        state.query.run()
    elif verb == "option":
        key, _, value = rest.partition("=")
        state.query.options[key] = value
    elif verb == "person:":
        state.person[rest]()
    else:
        raise AssertionError(f"what is {step}?")


def nested(path: list[str], value: Any) -> dict[str, Any]:
    return {path[0]: nested(path[1:], value) if len(path) > 1 else value}


def printed(state: State, words: str) -> str:
    """The words with the state's own values in place of the names for them."""
    for name, value in state.values.items():
        words = re.sub(rf"\b{name}\b", value, words)
    return words


@contextmanager
def noting_places() -> Iterator[set[str]]:
    """The places that make a refusal, or an incident of a table that becomes one, in this process."""
    seen: set[str] = set()

    def note(patch: pytest.MonkeyPatch, kind: type[Refused | Incident]) -> None:
        made = kind.__init__

        def noted(self: Any, code: str, *args: Any, **options: Any) -> None:
            frame: FrameType | None = sys._getframe(1)
            while frame is not None:
                name = frame.f_code.co_filename
                if "/kseg/" in name:
                    seen.add(f"{code} {name.rpartition('/kseg/')[2]}")
                frame = frame.f_back
            made(self, code, *args, **options)

        patch.setattr(kind, "__init__", noted)

    with pytest.MonkeyPatch.context() as patch:
        note(patch, Refused)
        note(patch, Incident)
        yield seen


def try_case(case: Case, home: Any, records: Any, folder: Path, request: pytest.FixtureRequest) -> None:
    """Make the state, see its refusal, carry out the remedy, and see what comes of it."""
    further = [request.getfixturevalue(WITH[case.name])] if case.name in WITH else []
    state: State = STATES[case.name](home, records, folder, *further)
    try:
        _check(case, state)
    finally:
        for end in state.at_end:
            end()


def _check(case: Case, state: State) -> None:
    with happening(state), noting_places() as raised_in:
        code, document, output = outcome(state, case.state["command"])
    if state.learn is not None:
        state.learn()
    error = document.get("error") or {}
    assert (code, error.get("code")) == (3, case.code), output
    if not case.state.get("made_elsewhere"):
        assert f"{case.code} {case.state['raised_in']}" in raised_in
    remedy = error.get("remedy") or ""
    rest = remedy
    says = {*(one["says"] for one in case.state["remedies"]), *case.state.get("checks", ())}
    for words in sorted(says, key=len, reverse=True):
        # The name itself is printed where the user knows best what it stands for: `--accept-table TABLE`.
        found = next((form for form in (words, printed(state, words)) if form in remedy), None)
        assert found is not None, f"{words!r} is not in {remedy!r}"
        rest = rest.replace(found, "")
    assert COMMAND.findall(rest) == [], "a command is printed that the table does not carry out"
    assert SETTING.findall(rest) == [], "a setting is printed that the table does not carry out"
    for step in case.remedy["do"]:
        carry_out(state, step)
    OUTCOMES[case.remedy["then"]](state)


@contextmanager
def happening(state: State) -> Iterator[None]:
    """What happens to a state during the run that is refused."""
    if state.during is None:
        yield
        return
    step, happens = state.during
    due = [happens]  # once: it may run the job itself
    opened = JobContext.__dict__["open"].__func__

    def observe(seen: str) -> None:
        first, *middle, last = seen.split(":")
        if ":".join([first, *(Path(part).name for part in middle), last]) == step and due:
            due.pop()()

    def with_observer(cls: Any, job: Any, progress: Any = None, _: Any = None, **options: Any) -> Any:
        return opened(cls, job, progress, observe, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobContext, "open", classmethod(with_observer))
        yield


# --- what comes of it


def complete(state: State) -> None:
    """The next run goes on, and the tables have each record once: no row is missing, none is there twice."""
    code, document, output = kseg(state.job, ["ingest", str(state.job.file)])
    assert code == 0, document.get("error") or output
    assert state.addresses() == state.expected()


def once(state: State) -> None:
    """The next run goes on, and no row is there twice. Rows that a person has given up may be missing."""
    code, document, output = kseg(state.job, ["ingest", str(state.job.file)])
    assert code == 0, document.get("error") or output
    found = state.addresses()
    assert len(found) == len(set(found))


def read_again(state: State) -> None:
    """The next run reads the source from its first record: rows that had landed stay, and have a second copy."""
    code, document, output = kseg(state.job, ["ingest", str(state.job.file)])
    assert code == 0, document.get("error") or output
    assert state.addresses() == sorted([*state.expected(), *state.expected()])


def queried(state: State) -> None:
    """The query goes on, and has read each record once."""
    state.query.run()
    assert state.addresses() == state.expected()


def nothing(state: State) -> None:
    """There was nothing to do: the tables are as they were."""
    found = state.addresses()
    assert len(found) == len(set(found))


OUTCOMES: dict[str, Callable[[State], None]] = {
    "complete": complete,
    "once": once,
    "queried": queried,
    "read again": read_again,
    "nothing": nothing,
}
