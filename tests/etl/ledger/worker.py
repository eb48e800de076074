"""Processes that tests start: `worker.py COMMAND LEDGER …`. Each prints one line when it is ready or done."""

import sys
import time
from datetime import timedelta

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import KsegError
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.bases import BasePinned
from kseg.etl.ledger.lease import acquire
from kseg.etl.ledger.store import Ledger

TP = TopicPartition("orders", 0)


def say(*words):
    print(*words, flush=True)


def create(_path):
    """For each line `TIME PATH` open the ledger at that very time, together with others; say its id."""
    say("ready")
    for line in sys.stdin:
        at, path = line.split(maxsplit=1)
        while time.time() < float(at):
            pass
        say(Ledger.open(path.strip()).id)


def race(path, chain, count):
    """Make transitions on one job as fast as possible, each of which writes down the state that it was decided on."""
    say("ready")
    sys.stdin.readline()
    ledger = Ledger.open(path)
    ledger.transition("orders", lambda state: [ev.Leased(chain=chain, owner=chain, attempt=1, duration=60.0)])
    for number in range(int(count)):
        ledger.transition(
            "orders",
            lambda state, number=number: [
                ev.BoundaryPinned(
                    chain=chain,
                    owner=chain,
                    attempt=1,
                    time_ms=int(chain) * 1_000_000 + number,
                    offsets={TP: state.sequence + 1},
                )
            ],
            deadline=300,
        )
    say("done")


def hold(path, seconds):
    """Take the lease, and for each line on stdin try to pin a base under it; say what came of it."""
    with acquire(Ledger.open(path), "orders", duration=timedelta(seconds=float(seconds))) as lease:
        say("held", lease.attempt)
        for line in sys.stdin:
            tp = TopicPartition("orders", int(line))
            try:
                lease.check()
                checked = "held"
            except KsegError as error:
                checked = error.kind
            try:
                lease.transition(lambda state, tp=tp: [BasePinned(bases={tp: 1}, reason="group")])
                say(checked, "wrote")
            except KsegError as error:
                say(checked, error.kind)


def write_unchecked(path, seconds):
    """Take the lease without a keeper; for each line decide, wait for another line, and commit what was decided."""
    ledger = Ledger.open(path)
    ledger.transition("orders", lambda state: [ev.Leased(owner="me", attempt=1, duration=float(seconds))])
    say("held")
    sys.stdin.readline()
    tries = 0

    def decide(state):
        nonlocal tries
        tries += 1
        if tries == 1:
            say("decided")
            sys.stdin.readline()
        return [BasePinned(owner="me", attempt=1, bases={TP: 1}, reason="group")]

    try:
        ledger.transition("orders", decide)
        say("wrote", tries)
    except KsegError as error:
        say(error.kind, tries)


def take(path, count):
    """Try to take the lease of the incremental chain again and again; say how often it was ours."""
    ledger = Ledger.open(path)
    say("ready")
    sys.stdin.readline()
    won = 0
    for _ in range(int(count)):
        try:
            with acquire(ledger, "orders", duration=timedelta(seconds=30)):
                won += 1
                time.sleep(0.01)
        except KsegError as error:
            if error.exit_code != 5:
                raise
            time.sleep(0.01)
    say(won)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
