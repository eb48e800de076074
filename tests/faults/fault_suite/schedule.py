"""What is done to a job, in an order that a seed decides: each lane is an endless sequence of actions.

The lanes run at the same time, one action after the other in each. The same seed gives the same actions; what they
meet depends on the machine, so a failing seed is a good beginning for a search and no proof.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from run_steps import STEPS

TABLES = ("first", "rest")
HOUR = 3600


@dataclass(frozen=True)
class Interruption:
    """How a driver is interrupted: at a step of the run, or so many seconds after its start.

    signal: SIGKILL, or SIGSTOP for so many seconds (`asleep`).
    """

    signal: str
    at: str | None = None
    after: float = 0.0
    asleep: float = 0.0

    @property
    def kind(self) -> str:
        how = "killed" if self.signal == "SIGKILL" else "suspended"
        return f"{how} at a step" if self.at is not None else f"{how} at a random time"


@dataclass(frozen=True)
class Action:
    """One command, or one fault. what: its function in the profile's table; parameters: decided by the seed. clock:
    seconds by which the driver's clock is ahead."""

    what: str
    interruption: Interruption | None = None
    take_over: bool = False
    clock: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    """For what is decided when it is known how long the topics are."""

    @property
    def kind(self) -> str:
        """What the table of faults and outcomes calls it."""
        mode = f" ({self.parameters['mode']})" if "mode" in self.parameters else ""
        return f"{self.what}{mode}{self.how}"

    @property
    def how(self) -> str:
        """What is done to the driver."""
        how = f", {self.interruption.kind}" if self.interruption else ""
        return f"{how}, clock an hour {'ahead' if self.clock > 0 else 'behind'}" if self.clock else how


def interruption(choice: random.Random, steps: Sequence[str] = STEPS, longest: float = 4.0) -> Interruption:
    """A random one. steps: of the run. longest: a random time lies within so many seconds of the start."""
    asleep = round(choice.uniform(1, 25), 1)
    name, asleep = ("SIGKILL", 0.0) if choice.random() < 0.6 else ("SIGSTOP", asleep)
    if choice.random() < 0.6:
        return Interruption(name, at=choice.choice(steps), asleep=asleep)
    return Interruption(name, after=round(choice.uniform(0, longest), 2), asleep=asleep)


@dataclass(frozen=True)
class Lane:
    """weights: how often each action is chosen. interrupted: the share of drivers that are interrupted.

    in_turn: actions come in rounds of a random order; in each round an action comes as often as its weight says.
    classes: groups of actions; the first round begins with one of each, so that a short run has all of them. job: whose
    actions they are, "" the profile's first. steps: of its runs. pause: seconds after each action. wrong_clocks: the
    share of drivers whose clock is an hour off.
    """

    name: str
    weights: Mapping[str, float]
    interrupted: float = 0.6
    in_turn: bool = False
    classes: tuple[Collection[str], ...] = ()
    job: str = ""
    steps: tuple[str, ...] = STEPS
    pause: float = 0.0
    wrong_clocks: float = 0.0

    def actions(self, seed: int) -> Iterator[Action]:
        choice = random.Random(f"{seed} {self.name}")
        for what in self._in_turn(choice) if self.in_turn else self._at_random(choice):
            stops = what in DRIVERS and choice.random() < self.interrupted
            stopped = interruption(choice, self.steps) if stops else None
            take_over = choice.random() < 0.5
            wrong = what in DRIVERS and choice.random() < self.wrong_clocks
            clock = choice.choice([-HOUR, HOUR]) if wrong else 0
            parameters = {"mode": choice.choice(["missing", "replace", "append"])} if what == "backfill" else {}
            yield Action(what, stopped, take_over, clock, parameters, choice.randrange(1 << 30))

    def _at_random(self, choice: random.Random) -> Iterator[str]:
        while True:
            yield choice.choices(list(self.weights), list(self.weights.values()))[0]

    def _in_turn(self, choice: random.Random) -> Iterator[str]:
        every = [what for what, weight in self.weights.items() for _ in range(round(weight))]
        drawn = choice.sample(every, len(every))
        for members in self.classes:
            yield (what := next(one for one in drawn if one in members))
            drawn.remove(what)
        while True:
            yield from drawn
            drawn = choice.sample(every, len(every))


def jobs_of(lanes: Iterable[Lane]) -> set[str]:
    """The jobs beside the first that lanes are for."""
    return {lane.job for lane in lanes} - {""}


DRIVERS = ("ingest", "ingest in a JVM of its own", "backfill", "repeat a backfill", "interval", "maintain", "redrive")
"""Actions that start a driver, which can be interrupted."""
