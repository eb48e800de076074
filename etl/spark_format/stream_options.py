"""The options of `spark.readStream.format("kseg")`: those of a batch read, and limits of a micro-batch.

As with Spark's own Kafka source, a new query starts at `startingOffsets` "latest" by default, and has no end: options
that set one are rejected. Source:
https://spark.apache.org/docs/4.2.0/streaming/structured-streaming-kafka-integration.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from kseg.etl.config.times import DURATION_REMEDY, parse_duration
from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.source.origin import LogFiles
from kseg.etl.spark_format.options import OptionParser, ReadOptions

_ENDS = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_DEFAULT_DELAY = "15m"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The parsed options of one query.

    max_offsets, min_offsets: of one micro-batch, over all partitions.
    max_delay: how long a micro-batch is delayed while fewer than `min_offsets` are available.
    """

    read: ReadOptions
    max_offsets: int | None
    min_offsets: int | None
    max_delay: timedelta

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> StreamOptions:
        """Options as a user gave them. Raises ConfigurationError with every fault at once."""
        given = {key.lower(): value for key, value in options.items()}
        faults = [
            Diagnostic(name, "a streaming query has no end", "leave it out, or read a batch")
            for name in _ENDS
            if name.lower() in given
        ]
        most, least = (_positive(given, name, faults) for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger"))
        if most is not None and least is not None and least > most:
            faults.append(Diagnostic("minOffsetsPerTrigger", f"{least} is more than maxOffsetsPerTrigger, {most}"))
        delay = _delay(given, faults)
        read: ReadOptions | None = None
        try:
            read = OptionParser(options, streaming=True).parse()
        except ConfigurationError as error:
            faults.extend(error.faults)
        if read is not None and isinstance(read.origin, LogFiles):
            faults.append(
                Diagnostic(
                    "path", "log files cannot be read as a stream", "read them as a batch, or with `kseg backfill`"
                )
            )
        if faults or read is None:
            raise ConfigurationError(faults)
        return cls(read, most, least, delay)


def _positive(given: Mapping[str, str], name: str, faults: list[Diagnostic]) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not re.fullmatch(r"\+?\d+", text.strip()) or int(text) <= 0:
        faults.append(Diagnostic(name, "must be a positive whole number"))
        return None
    return int(text)


def _delay(given: Mapping[str, str], faults: list[Diagnostic]) -> timedelta:
    """Spark's format: a number with a unit, or a number of milliseconds."""
    text = given.get("maxtriggerdelay", _DEFAULT_DELAY).strip()
    if text.isdigit():
        return timedelta(milliseconds=int(text))
    try:
        return parse_duration(re.sub(r"min$", "m", text))
    except ValueError as error:
        faults.append(Diagnostic("maxTriggerDelay", f"{text!r} {error}", DURATION_REMEDY))
        return timedelta()


def check_either(options: Mapping[str, str]) -> ReadOptions:
    """The options of a read of which it is not yet known whether it is a batch or a stream.

    Raises:
        ConfigurationError: the options are valid for neither; the error has the faults for a batch.
    """
    try:
        return ReadOptions.parse(options)
    except ConfigurationError:
        try:
            return StreamOptions.parse(options).read
        except ConfigurationError:
            pass
        raise
