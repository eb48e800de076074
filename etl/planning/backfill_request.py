"""The request of a backfill: offsets, times or a data interval, and the mode for rows that have landed before.

    --from orders:0:100 --from orders:1:0 --to orders:0:200 --to orders:1:50     offsets, end exclusive
    --from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z                         record timestamps
    --interval 2026-01-01T00:00:00Z/2026-01-02T00:00:00Z                          pinned boundaries
    --segments /mnt/broker-1/data                                                 all offsets of these files

With `segments`, records are read from files; offsets or times are then optional, and select a part of them.

A request is a value. A run id is made from the ledger and the request's `identity()` (mode, range, label), so the same
request finds its earlier run. The identity does not include the commit of the group's offsets, and not the source from
which records are read.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from kseg.etl.config.paths import location
from kseg.etl.config.sections import Segments
from kseg.etl.config.times import INSTANT_REMEDY, NaiveInstantError, format_instant, looks_like_instant, parse_instant
from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.ledger.modes import BACKFILLS, BackfillMode

_ADDRESS = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249}):(?P<partition>\d{1,10}):(?P<offset>\d{1,19})")
_FORMS = "write topic:partition:offset (as often as needed) or one time, as in 2026-01-01T00:00:00Z"
_MAX_LABEL = 100
_INT32, _INT64 = 2**31, 2**63


class PartitionOffset(NamedTuple):
    """One `topic:partition:offset` of a command line."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}:{self.offset}"


Bound = tuple[PartitionOffset, ...] | datetime
"""One side of a backfill: offsets sorted by topic and partition, or a time in UTC."""


class Interval(NamedTuple):
    """A data interval [start, end), both aware and in UTC."""

    start: datetime
    end: datetime


def parse_interval(text: str) -> Interval:
    """`START/END` of a command line. Raises ConfigurationError."""
    interval = BackfillRequest.parse(interval=text).interval
    assert interval is not None
    return interval


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """The request of one backfill; exactly one of (from_, to) and interval is set.

    from_, to: offsets of the partitions to read (end exclusive; other partitions are not read), or a time. If both are
        offsets, they name the same partitions.
    mode: `missing` lands offsets that have not landed, by the ledger; `replace` removes the rows of these addresses and
        adds the new ones in one commit; `append` lands all again, under a label.
    commit_offsets: advance the group's offsets too.
    segments: folders of log files to read instead of the brokers: absolute paths, or URLs.
    drop_compacted: `replace` also removes rows whose records were removed by compaction, without replacement.
    drop_older_generations: `replace` also removes rows that landed before the offsets were reopened.
    adopt: ledgers whose rows of the same topic `replace` treats as this job's: absolute paths, or URLs.
    """

    from_: Bound | None = None
    to: Bound | None = None
    interval: Interval | None = None
    mode: BackfillMode = "missing"
    label: str | None = None
    commit_offsets: bool = False
    segments: tuple[str, ...] = ()
    drop_compacted: bool = False
    adopt: tuple[str, ...] = ()
    drop_older_generations: bool = False

    def __post_init__(self) -> None:
        faults = list(_check(self))
        if faults:
            raise ConfigurationError(faults)

    @classmethod
    def parse(
        cls,
        from_: Sequence[str] = (),
        to: Sequence[str] = (),
        interval: str | None = None,
        mode: str = "missing",
        label: str | None = None,
        commit_offsets: bool = False,
        segments: Sequence[str] = (),
        drop_compacted: bool = False,
        adopt: Sequence[str] = (),
        drop_older_generations: bool = False,
    ) -> BackfillRequest:
        """Parse command line arguments. Raises ConfigurationError with all errors."""
        faults: list[Diagnostic] = []
        parsed_from = _bound("--from", from_, faults)
        parsed_to = _bound("--to", to, faults)
        parsed_interval = _interval(interval, faults) if interval is not None else None
        places = _places(segments, faults)
        ledgers = _ledgers(adopt, faults)
        if mode not in BACKFILLS:
            faults.append(Diagnostic("--mode", f"{mode!r} is not a mode", f"one of {', '.join(BACKFILLS)}"))
            mode = "missing"
        # A side that could not be read is reported once; a placeholder lets the other checks run.
        given = bool(from_), bool(to), interval is not None, bool(segments)
        faults += _check_presence(*given, mode)
        if not faults:
            return cls(
                parsed_from,
                parsed_to,
                parsed_interval,
                mode,  # type: ignore[arg-type]
                label,
                commit_offsets,
                places,
                drop_compacted,
                ledgers,
                drop_older_generations,
            )
        faults += _check_label(mode, label)
        faults += _check_replace_only(mode, drop_compacted, drop_older_generations, ledgers)
        raise ConfigurationError(faults)

    @property
    def unbounded(self) -> bool:
        """Whether all offsets of the files are requested."""
        return self.from_ is None and self.to is None and self.interval is None

    @property
    def partitions(self) -> frozenset[tuple[str, int]] | None:
        """The requested partitions; None: all partitions of the job's source."""
        for bound in (self.from_, self.to):
            if isinstance(bound, tuple):
                return frozenset((o.topic, o.partition) for o in bound)
        return None

    def identity(self) -> dict[str, Any]:
        """The request's identity: mode, range and label, independent of notation and order."""
        return {
            "mode": self.mode,
            "from": _bound_json(self.from_),
            "to": _bound_json(self.to),
            "interval": [format_instant(t) for t in self.interval] if self.interval else None,
            "label": self.label,
            # Left out where not asked for: the same request has one identity under any release.
            **({"drop_compacted": True} if self.drop_compacted else {}),
            **({"drop_older_generations": True} if self.drop_older_generations else {}),
            **({"adopt": sorted(self.adopt)} if self.adopt else {}),
        }

    def to_json(self) -> dict[str, Any]:
        return {**self.identity(), "commit_offsets": self.commit_offsets, "segments": list(self.segments)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BackfillRequest:
        """The inverse of `to_json`."""
        return cls.parse(
            from_=_bound_words(data.get("from")),
            to=_bound_words(data.get("to")),
            interval="/".join(data["interval"]) if data.get("interval") else None,
            mode=data.get("mode", "missing"),
            label=data.get("label"),
            commit_offsets=data.get("commit_offsets", False),
            segments=data.get("segments", ()),
            drop_compacted=data.get("drop_compacted", False),
            drop_older_generations=data.get("drop_older_generations", False),
            adopt=data.get("adopt", ()),
        )

    def digest(self, job_name: str) -> str:
        """Hash of job, mode, range and label: 32 hex digits. In releases up to 0.1, this was the run's id."""
        text = json.dumps([job_name, self.identity()], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def _bound_json(bound: Bound | None) -> Any:
    if isinstance(bound, datetime):
        return format_instant(bound)
    return [str(offset) for offset in bound] if bound is not None else None


def _bound_words(value: Any) -> Sequence[str]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


def _bound(option: str, words: Sequence[str], faults: list[Diagnostic]) -> Bound | None:
    times: list[datetime] = []
    offsets: dict[tuple[str, int], PartitionOffset] = {}
    before = len(faults)
    for word in words:
        match = _ADDRESS.fullmatch(word.strip())
        if _is_time(word, also_an_address=match is not None):
            try:
                times.append(parse_instant(word))
            except ValueError as error:
                faults.append(Diagnostic(option, f"{word!r} {error}", INSTANT_REMEDY))
        elif match:
            _take_offset(option, match, offsets, faults)
        else:
            faults.append(Diagnostic(option, f"{word!r} is neither an offset nor a time", _FORMS))
    if len(faults) > before:
        return None
    if len(times) > 1:
        faults.append(Diagnostic(option, "more than one time", "give one time, or offsets"))
    elif times and offsets:
        faults.append(Diagnostic(option, "both a time and offsets", "give one time, or offsets"))
    return times[0] if times else tuple(sorted(offsets.values())) or None


def _is_time(word: str, *, also_an_address: bool) -> bool:
    """Whether a text is a time. `2026-01-01T10:00:00` could also mean the topic `2026-01-01T10`; it counts as a time,
    which is an error without a time zone, because a guess could read the wrong records."""
    if not looks_like_instant(word):
        return False
    try:
        parse_instant(word)
    except NaiveInstantError:
        return True
    except ValueError:
        return not also_an_address
    return True


def _take_offset(
    option: str, match: re.Match[str], offsets: dict[tuple[str, int], PartitionOffset], faults: list[Diagnostic]
) -> None:
    address = PartitionOffset(match["topic"], int(match["partition"]), int(match["offset"]))
    if address.partition >= _INT32 or address.offset >= _INT64:
        faults.append(Diagnostic(option, f"{match[0]!r} is out of range", "partitions are int32, offsets int64"))
    elif (address.topic, address.partition) in offsets:
        faults.append(
            Diagnostic(option, f"{address.topic}:{address.partition} is named twice", "name each partition once")
        )
    else:
        offsets[address.topic, address.partition] = address


def _interval(text: str, faults: list[Diagnostic]) -> Interval | None:
    parts = text.split("/")
    if len(parts) != 2:
        remedy = "write START/END, as in 2026-01-01T00:00:00Z/2026-01-02T00:00:00Z"
        faults.append(Diagnostic("--interval", f"{text!r} is not START/END", remedy))
        return None
    ends: list[datetime] = []
    for name, part in zip(("start", "end"), parts, strict=True):
        try:
            ends.append(parse_instant(part))
        except ValueError as error:
            faults.append(Diagnostic("--interval", f"the {name} {part!r} {error}", INSTANT_REMEDY))
    return Interval(*ends) if len(ends) == 2 else None


def _places(segments: Sequence[str], faults: list[Diagnostic]) -> tuple[str, ...]:
    try:
        return Segments.named(segments).paths if segments else ()
    except ConfigurationError as error:
        faults += error.faults
        return ()


def _ledgers(words: Sequence[str], faults: list[Diagnostic]) -> tuple[str, ...]:
    found = []
    for word in words:
        try:
            found.append(location(word, Path.cwd()))
        except ValueError as error:
            faults.append(Diagnostic("--adopt", f"{word!r} {error}", "the path or URL of a ledger"))
    return tuple(dict.fromkeys(found))


def _check_replace_only(mode: str, compacted: bool, older: bool, adopt: Sequence[str]) -> list[Diagnostic]:
    options = {"--drop-compacted": compacted, "--drop-older-generations": older, "--adopt": adopt}
    given = [option for option, value in options.items() if value]
    if mode == "replace":
        return []
    return [Diagnostic(option, "needs --mode replace, the only mode that removes rows") for option in given]


def _check_presence(
    has_from: bool, has_to: bool, has_interval: bool, has_segments: bool, mode: str
) -> list[Diagnostic]:
    if has_interval and (has_from or has_to):
        return [Diagnostic("--interval", "cannot be combined with --from or --to", "give one or the other")]
    if has_interval and has_segments:
        remedy = "give --from and --to: interval boundaries are pinned permanently, and files may end before them"
        return [Diagnostic("--interval", "cannot be combined with --segments", remedy)]
    if not (has_interval or has_from or has_to):
        if not has_segments:
            return [
                Diagnostic(
                    "--from", "no offsets are given", "give --from and --to, --interval START/END or --segments DIR"
                )
            ]
        if not BACKFILLS[mode].lands_once:
            return [
                Diagnostic(
                    "--mode",
                    f"{mode} needs --from and --to",
                    "the only mode without bounds is missing, which lands all that the files have",
                )
            ]
        return []
    if not has_interval and not (has_from and has_to):
        missing = "--to" if has_from else "--from"
        return [Diagnostic(missing, "is missing", "a backfill needs both; the end is exclusive")]
    return []


def _check_label(mode: str, label: str | None) -> list[Diagnostic]:
    if BACKFILLS[mode].labelled and label is None:
        return [
            Diagnostic(
                "--label", "is missing", f"{mode} lands rows again: a label distinguishes one {mode} from another"
            )
        ]
    if label is not None and (not label.strip() or len(label) > _MAX_LABEL or not label.isprintable()):
        return [Diagnostic("--label", "is empty, too long or not printable", f"1 to {_MAX_LABEL} printable characters")]
    return []


def _check(request: BackfillRequest) -> list[Diagnostic]:
    from_, to, interval = request.from_, request.to, request.interval
    given = from_ is not None, to is not None, interval is not None, bool(request.segments)
    faults = _check_presence(*given, request.mode)
    faults += _check_label(request.mode, request.label)
    dropped = request.drop_compacted, request.drop_older_generations
    faults += _check_replace_only(request.mode, *dropped, request.adopt)
    times = {"--from": from_, "--to": to, "--interval": interval.start if interval else None}
    if interval is not None and interval.end.tzinfo is None:
        times["--interval"] = interval.end
    naive = [option for option, time in times.items() if isinstance(time, datetime) and time.tzinfo is None]
    if naive:
        return faults + [Diagnostic(option, "has no time zone", INSTANT_REMEDY) for option in naive]
    if interval is not None and interval.start >= interval.end:
        faults.append(
            Diagnostic(
                "--interval", "does not end after it starts", "the start must be before the end, which is exclusive"
            )
        )
    if isinstance(from_, datetime) and isinstance(to, datetime) and from_ >= to:
        faults.append(Diagnostic("--to", "is not after --from", "the end is exclusive"))
    if isinstance(from_, tuple) and isinstance(to, tuple):
        faults += _check_offsets(from_, to)
    return faults


def _check_offsets(from_: tuple[PartitionOffset, ...], to: tuple[PartitionOffset, ...]) -> list[Diagnostic]:
    starts = {(o.topic, o.partition): o.offset for o in from_}
    ends = {(o.topic, o.partition): o.offset for o in to}
    faults = []
    for topic, partition in sorted(starts.keys() ^ ends.keys()):
        option = "--to" if (topic, partition) in starts else "--from"
        faults.append(Diagnostic(option, f"does not name {topic}:{partition}", "name each partition on both sides"))
    for (topic, partition), start in sorted(starts.items()):
        end = ends.get((topic, partition))
        if end is not None and end <= start:
            message = f"{topic}:{partition} ends at {end} and starts at {start}"
            faults.append(Diagnostic("--to", message, "the end is exclusive, so it must be after the start"))
    return faults
