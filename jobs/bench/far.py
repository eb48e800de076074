"""A topic on a remote broker: with a round trip of 50 ms, with TLS, and with both, compared with a local broker.

Cases:
    local          the broker's plain listener
    relay          the same through a relay without latency: the cost of the relay itself
    far            the same relay with 25 ms each way (`kseg.jobs.bench.relay`)
    tls            the broker's TLS listener (an EC key; both compared clients verify the certificate)
    far-tls        TLS through the relay with 25 ms each way

Each round lands the whole topic in a new table, in turn for each case and client: ours is a whole `kseg ingest`;
Spark's tuned connector reads and writes. The relay adds only latency: links have the bandwidth of loopback, and TCP's
windows are not those of a long distance. `land` is the phase in which our tasks read; the rest of a remote run is round
trips of the driver (plan, checks, the group's offsets), whose number does not depend on how much is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from kseg.jobs.bench.contenders import TUNING, Contender, connector_to_delta, ours_to_delta
from kseg.jobs.bench.figures import OURS, TUNED, MeasuredRun
from kseg.jobs.bench.relay import Relay, RelayedLink
from kseg.jobs.bench.workload import BenchTopic
from kseg.jobs.broker.certificates import Authority
from kseg.jobs.broker.listeners import Listener
from kseg.jobs.broker.process import EmbeddedKafka
from kseg.jobs.broker.properties import HOST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL, RELAY, FAR, TLS, FAR_TLS = CASES = ("local", "relay", "far", "tls", "far-tls")
ONE_WAY: Final = 0.025
"""Seconds."""

_RELAY_HOST, _FAR_HOST = "127.0.0.2", "127.0.0.3"  # on Linux all of 127.0.0.0/8 is this machine
_LISTENERS: Final = {RELAY: "RELAY", FAR: "FAR", TLS: "TLS", FAR_TLS: "FARTLS"}


@dataclass(frozen=True)
class FarListeners:
    """The listeners that a broker needs for these cases. Made before the broker; certificates are in `folder`."""

    listeners: tuple[Listener, ...]
    secure: dict[str, str]
    """Client properties of the TLS listeners, for both sides."""

    @classmethod
    def make(cls, folder: Path) -> FarListeners:
        folder.mkdir()
        authority = Authority(folder, "authority")
        broker = authority.issue("broker", names=[HOST, _FAR_HOST])
        tls = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(broker.pem)}
        return cls(
            (
                Listener("RELAY", "PLAINTEXT", advertised=_RELAY_HOST),
                Listener("FAR", "PLAINTEXT", advertised=_FAR_HOST),
                Listener("TLS", "SSL", tls),
                Listener("FARTLS", "SSL", tls, advertised=_FAR_HOST),
            ),
            {
                "security.protocol": "SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(authority.pem),
            },
        )

    def topic(self, kafka: EmbeddedKafka, topic: BenchTopic, case: str) -> BenchTopic:
        """The same topic with the address and properties that a case's clients use."""
        if case == LOCAL:
            return topic
        secure = self.secure if case in (TLS, FAR_TLS) else {}
        return replace(topic, servers=kafka.servers_of(_LISTENERS[case]), properties=secure)


@contextmanager
def relay(kafka: EmbeddedKafka) -> Iterator[Relay]:
    """A relay in front of the broker's listeners that are advertised at other addresses."""
    links = []
    for case, late in ((RELAY, 0.0), (FAR, ONE_WAY), (FAR_TLS, ONE_WAY)):
        host, _, port = kafka.servers_of(_LISTENERS[case]).rpartition(":")
        links.append(RelayedLink(host, int(port), HOST, int(port), late, late))
    with Relay(links) as started:
        yield started


def measure(
    spark: SparkSession,
    kafka: EmbeddedKafka,
    listeners: FarListeners,
    topic: BenchTopic,
    rounds: Callable[[Sequence[Contender], BenchTopic], list[MeasuredRun]],
) -> dict[str, Any]:
    """rounds: runs contenders in turn, several times each. Raises WrongCount."""
    with relay(kafka) as between:
        turns: dict[str, list[int]] = {case: [] for case in CASES}
        order = [
            contender
            for case in CASES
            for contender in _contenders(spark, listeners.topic(kafka, topic, case), case, between, turns[case])
        ]
        runs = rounds(order, topic)
    return {
        "rows": topic.rows,
        "round_trip_ms": round(2000 * ONE_WAY),
        **figures(runs, turns),
        "runs": [run.to_json() for run in runs],
    }


def figures(runs: Sequence[MeasuredRun], turns: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Each case, and its ratios. turns: round trips of our runs by case."""
    return {"cases": [_case(runs, case, turns[case]) for case in CASES], "ratios": _ratios(runs)}


def _contenders(
    spark: SparkSession, topic: BenchTopic, case: str, between: Relay, turns: list[int]
) -> Iterator[Contender]:
    def ours(folder: Path) -> tuple[int, dict[str, float]]:
        between.take()
        landed = ours_to_delta(topic, None, folder)
        turns.append(between.take().turns)
        return landed

    yield Contender(OURS, case, ours)
    yield Contender(TUNED, case, lambda folder: connector_to_delta(spark, topic, TUNING, folder))


def _case(runs: Sequence[MeasuredRun], case: str, turns: Sequence[int]) -> dict[str, Any]:
    """turns: round trips of all our connections together; not counted for the plain and the TLS listener."""
    own = [run for run in runs if (run.way, run.sink) == (OURS, case)]
    whole, land = _seconds(runs, OURS, case), median(run.phases["land"] for run in own)
    return {
        "case": case,
        "krows_per_second": {way: round(own[0].rows / _seconds(runs, way, case) / 1000, 1) for way in (OURS, TUNED)},
        "seconds": round(whole, 2),
        "land_seconds": round(land, 2),
        "other_seconds": round(whole - land, 2),
        **({"round_trips": round(median(turns))} if case in (RELAY, FAR, FAR_TLS) else {}),
    }


def _ratios(runs: Sequence[MeasuredRun]) -> dict[str, dict[str, float]]:
    """For each case, how many times as fast as Spark's connector in the same case, and as the same client locally (1.0:
    latency or TLS cost nothing).
    """
    return {
        case: {
            "vs_spark_tuned": round(_seconds(runs, TUNED, case) / _seconds(runs, OURS, case), 2),
            "vs_local": round(_seconds(runs, OURS, LOCAL) / _seconds(runs, OURS, case), 2),
            "spark_tuned_vs_its_local": round(_seconds(runs, TUNED, LOCAL) / _seconds(runs, TUNED, case), 2),
        }
        for case in CASES
    }


def _seconds(runs: Sequence[MeasuredRun], way: str, case: str) -> float:
    return median(run.seconds for run in runs if (run.way, run.sink) == (way, case))
