"""Formats of values. Dates and timestamps: texts of ISO 8601, texts of a pattern, or numbers since 1970-01-01.

    iso8601          2024-02-29, 2024-02-29T12:30:00.123456+01:00 (T or a space; seconds, fraction and zone optional)
    epoch_days       dates: a number
    epoch_seconds    timestamps: a number (1709206200.25 too), also epoch_millis and epoch_micros
    json             texts: the value as it is written, of any type
    base64           decimals: strings too, base64 of the unscaled number (big-endian two's complement), as in Connect
    string           numbers: strings too, with the number as JSON writes it
    a pattern        letters of Spark's patterns: yyyy M MM d dd H HH m mm s ss S… (fraction), X XX XXX (zone), 'text'

A `timestamp` is an instant: a text without a zone needs the declared one. A `timestamp_ntz` is none: a text with a zone
is refused. Where clocks are set back, the declared zone has a local time twice, and the earlier instant is taken; where
they are set forward it lacks some, and these are refused.

No date or timestamp has a year below 1 or above 9999. Databases have such times, and write them as numbers, as texts of
ISO 8601 with a sign or more digits (`+10000-01-01T00:00:00Z`), or as `infinity` and `-infinity`: these are errors, or
nulls (`Format.nulls_far`).
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from kseg.segment_reader.payload.errors import InvalidSchema

ISO = "iso8601"
EPOCHS = {"epoch_seconds": 6, "epoch_millis": 3, "epoch_micros": 0}
"""The power of ten from the number to microseconds."""
EPOCH_DAYS = "epoch_days"
JSON_TEXT = "json"
BASE64 = "base64"
IN_STRING = "string"

#: No instant before the year 1 or after 9999, however it is written: micros taken for millis are an error, no date.
FIRST_MICROS = -62_135_596_800_000_000
LAST_MICROS = 253_402_300_799_999_999
FIRST_DAY = -719_162
LAST_DAY = 2_932_896

_DATE = r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
_ZONE = r"(?P<zone>Z|[+-]\d\d(?::?\d\d)?)"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d+))?)?"
_LETTERS = {
    "yyyy": r"(?P<year>\d{4})",
    "M": r"(?P<month>\d{1,2})",
    "MM": r"(?P<month>\d\d)",
    "d": r"(?P<day>\d{1,2})",
    "dd": r"(?P<day>\d\d)",
    "H": r"(?P<hour>\d{1,2})",
    "HH": r"(?P<hour>\d\d)",
    "m": r"(?P<minute>\d{1,2})",
    "mm": r"(?P<minute>\d\d)",
    "s": r"(?P<second>\d{1,2})",
    "ss": r"(?P<second>\d\d)",
    "X": r"(?P<zone>Z|[+-]\d\d(?:\d\d)?)",
    "XX": r"(?P<zone>Z|[+-]\d{4})",
    "XXX": r"(?P<zone>Z|[+-]\d\d:\d\d)",
}
_PART = re.compile(r"(?P<letters>([A-Za-z])\2*)|'(?P<text>(?:[^']|'')*)'|(?P<other>[^A-Za-z'])")

Zone = dt.tzinfo


class PatternStep(NamedTuple):
    """A part of a pattern: text as it is, or a unit's least and most digits (of a zone: how many X)."""

    unit: str
    least: int = 0
    most: int = 0
    text: bytes = b""


@dataclass(frozen=True)
class Format:
    """One column's: a pattern for texts, or the power of ten for numbers. name: as declared. steps: a pattern's. cut:
    digits below a microsecond are left out: the microsecond that the time is in. nulls_far: times that are not within
    the years 1 to 9999 are nulls."""

    name: str
    pattern: re.Pattern[str] | None = None
    shift: int = 0
    zone: Zone | None = None
    steps: tuple[PatternStep, ...] = ()
    cut: bool = False
    nulls_far: bool = False


def date_format(name: str, place: str) -> Format:
    """Raises InvalidSchema."""
    if name == EPOCH_DAYS:
        return Format(name)
    if name in EPOCHS:
        raise InvalidSchema(place, f"{name} is a format of timestamps: a date's are iso8601, epoch_days or a pattern")
    if name == ISO:
        return Format(name, re.compile(_DATE, re.ASCII))
    pattern, steps = _pattern(name, place, time=False)
    return Format(name, pattern, steps=steps)


def timestamp_format(name: str, zone: Zone | None, place: str) -> Format:
    """Raises InvalidSchema."""
    if name in EPOCHS:
        return Format(name, shift=EPOCHS[name])
    if name == EPOCH_DAYS:
        raise InvalidSchema(place, "epoch_days is a format of dates: a timestamp's are iso8601, epoch_… or a pattern")
    if name == ISO:
        return Format(name, re.compile(f"{_DATE}[T ]{_TIME}{_ZONE}?", re.ASCII), zone=zone)
    pattern, steps = _pattern(name, place, time=True)
    return Format(name, pattern, zone=zone, steps=steps)


def _pattern(text: str, place: str, *, time: bool) -> tuple[re.Pattern[str], tuple[PatternStep, ...]]:
    found: set[str] = set()
    parts: list[str] = []
    steps: list[PatternStep] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            raise InvalidSchema(place, f"pattern {text!r}: a quote without its end")
        at = match.end()
        letters = match["letters"]
        if letters is None:
            literal = match["other"] or match["text"].replace("''", "'") or "'"
            parts.append(re.escape(literal))
            steps.append(PatternStep("text", text=literal.encode()))
            continue
        group = rf"(?P<fraction>\d{{{len(letters)}}})" if letters[0] == "S" else _LETTERS.get(letters)
        if group is None:
            known = " ".join([*_LETTERS, "S…"])
            raise InvalidSchema(
                place, f"pattern {text!r}: {letters} is not known; known are {known}, and 'text' in quotes"
            )
        name = group[4 : group.index(">")]
        if name in found:
            raise InvalidSchema(place, f"pattern {text!r} has the {name} twice")
        found.add(name)
        parts.append(group)
        size = len(letters)
        steps.append(PatternStep(name, size, 2 if size == 1 and name not in ("fraction", "zone") else size))
    wanted = {"year", "month", "day"}
    if wanted - found:
        raise InvalidSchema(place, f"pattern {text!r} lacks the {', '.join(sorted(wanted - found))}")
    if not time and found - wanted:
        raise InvalidSchema(place, f"pattern {text!r} of a date has the {', '.join(sorted(found - wanted))}")
    return re.compile("".join(parts), re.ASCII), tuple(steps)


def time_zone(name: str) -> Zone:
    """`UTC`, an offset such as `+02:00`, or a name of the time zone database. Raises InvalidSchema."""
    if name in ("UTC", "Z"):
        return dt.UTC
    if match := re.fullmatch(r"([+-])(\d\d):(\d\d)", name, re.ASCII):
        seconds = offset_seconds(match[1], match[2], match[3])
        if seconds is not None:
            return dt.timezone(dt.timedelta(seconds=seconds))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # OSError: a folder of the database
        raise InvalidSchema(f"time zone {name!r}", "write UTC, an offset such as +02:00, or Europe/Berlin") from error


def offset_seconds(sign: str, hours: str, minutes: str) -> int | None:
    """An offset in seconds; None: no offset is so far from UTC."""
    seconds = int(hours) * 3600 + int(minutes) * 60
    if int(minutes) > 59 or seconds > 18 * 3600:
        return None
    return -seconds if sign == "-" else seconds


#: Between these years compiled code knows a zone's offsets; beyond, the reference is asked.
KNOWN_YEARS = (1970, 2070)


@cache
def local_offsets(zone: Zone) -> tuple[tuple[int, int | None], ...]:
    """From which local time on (seconds since 1970-01-01) which offset counts; None: that is not known here, or clocks
    show no such time. Of a time that they show twice, the first offset counts."""
    first, last = (int(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()) for year in KNOWN_YEARS)

    def offset_at(second: int) -> int:
        offset = dt.datetime.fromtimestamp(second, zone).utcoffset()
        return 0 if offset is None else int(offset.total_seconds())

    day = 86_400
    before = offset_at(first)
    found: list[tuple[int, int | None]] = [(first + 2 * day, before)]
    for second in range(first + day, last, day):
        after = offset_at(second)
        if after == before:
            continue
        low, high = second - day, second  # the change is behind low, and not behind high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset_at(middle) == before else (low, middle)
        if after > before:
            found.append((high + before, None))
        found.append((high + max(before, after), after))
        before = after
    return (*found, (last - 2 * day, None))


Reason = Literal["format", "no zone", "zone", "gap", "fraction", "range"]


INFINITIES = ("infinity", "-infinity")
"""Times that are later or earlier than all others, as PostgreSQL writes them."""

_FAR_YEAR = re.compile(r"([+-]?\d{4,9})(?=-\d\d-\d\d(?!\d))", re.ASCII)


def near_text(text: str, format: Format) -> str | None:
    """A text of ISO 8601 whose year is below 1 or above 9999, in a year from 2000 to 2399 with the same calendar; None:
    the text is none."""
    match = _FAR_YEAR.match(text) if format.name == ISO else None
    if match is None or 1 <= int(match[1]) <= 9999:
        return None
    return f"{2000 + int(match[1]) % 400}{text[match.end() :]}"


def days_of(text: str, format: Format) -> int | Reason:
    """Days since 1970-01-01, or why the text has none."""
    match = format.pattern.fullmatch(text) if format.pattern else None
    if match is None:
        return "format"
    try:
        return dt.date(int(match["year"]), int(match["month"]), int(match["day"])).toordinal() - 719_163
    except ValueError:
        return "format"


def micros_of(text: str, format: Format, *, instant: bool) -> int | Reason:
    """Microseconds since 1970-01-01 (UTC for an instant), or why the text has none."""
    match = format.pattern.fullmatch(text) if format.pattern else None
    if match is None:
        return "format"
    given = match.groupdict()
    offset: int | None = 0
    zone = given.get("zone")
    if zone and zone != "Z":
        offset = offset_seconds(zone[0], zone[1:3], zone[-2:] if len(zone) > 3 else "00")
    try:
        year, month, day, hour, minute, second = (
            int(given.get(unit) or 0) for unit in ("year", "month", "day", "hour", "minute", "second")
        )
        local = dt.datetime(year, month, day, hour, minute, second)
    except ValueError:
        return "format"
    if offset is None:
        return "format"
    if zone and not instant:
        return "zone"
    if instant and not zone:
        if format.zone is None:
            return "no zone"
        at_zone = local.replace(tzinfo=format.zone).utcoffset()
        offset = 0 if at_zone is None else int(at_zone.total_seconds())
        if not _is_there(local, format.zone):
            return "gap"
    fraction = given.get("fraction") or ""
    if fraction[6:].strip("0") and not format.cut:
        return "fraction"
    since = local - dt.datetime(1970, 1, 1)
    micros = (since.days * 86_400 + since.seconds - offset) * 1_000_000 + int(fraction[:6].ljust(6, "0"))
    return micros if instant_in_range(micros) else "range"


def instant_in_range(micros: int) -> bool:
    return FIRST_MICROS <= micros <= LAST_MICROS


def _is_there(local: dt.datetime, zone: Zone) -> bool:
    """Whether clocks of the zone show this time at all. At the ends of the calendar they do."""
    try:
        back = local.replace(tzinfo=zone).astimezone(dt.UTC).astimezone(zone)
    except OverflowError:
        return True
    return back.replace(tzinfo=None) == local
