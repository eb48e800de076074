"""A column's type, in Spark's DDL, from the statistics of a JSON field.

    true, false                                   boolean
    numbers without fraction                      bigint if all fit, else decimal(38,0)
    other numbers                                 double, or decimal if a double would lose digits or if a fraction is
                                                  padded with zeros (9.50), as only decimals are written
    texts                                         string; timestamp (with a zone) or date if all are ISO 8601
    arrays                                        array<…> of the type of all elements
    objects                                       struct<…>; map<string,…> if names vary and values have one type

None if no type holds all values: all are null, kinds are mixed, or a table cannot have the names. Such fields are not
declared, and `unknown_fields: rescue` keeps them as JSON text.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from kseg.etl.rows.names import FORBIDDEN_IN_NAMES, RESERVED_PREFIX
from kseg.jobs.inference.json_seen import Numbers, SeenValues
from kseg.segment_reader.payload.ddl import MOST_DIGITS, quoted

_INT64: Final = 2**63
_DEEPEST: Final = 20
#: Objects are a map if they have at least this many different names, and on average at most this share of them each.
_NAMES_OF_A_MAP: Final = 20
_SHARE_OF_A_MAP: Final = 0.5
_MOST_FIELDS: Final = 200
#: The digits of a decimal, if the sampled numbers need no more: later numbers may be larger.
_USUAL_DIGITS: Final = 18
_MILLIS: Final = (946_684_800_000, 4_102_444_800_000)  # 2000 to 2100


@dataclass(frozen=True, slots=True)
class InferredColumn:
    """A field of the sampled documents. type: DDL, None: it is not declared. column: its name in the table. finer:
    number of its timestamps, nested ones too, that have digits below a microsecond."""

    name: str
    type: str | None
    present: int
    nulls: int
    note: str = ""
    column: str = ""
    finer: int = 0


def columns_of(documents: SeenValues, most: int) -> list[InferredColumn]:
    """The columns of documents that are objects, in the order in which fields appeared.

    most: the number of declared columns: the most frequent fields.
    """
    frequent = sorted(documents.members, key=lambda name: -documents.members[name].count)
    chosen = set(frequent[:most])
    taken: set[str] = set()
    columns = []
    for name, seen in documents.members.items():
        if name not in chosen:
            kind, note = None, f"beyond the {most} most frequent fields"
        elif name in documents.twice:
            kind, note = None, "some documents have it twice"
        elif not name.strip() or not name.isprintable():
            kind, note = None, "a name that is blank or not printable"
        else:
            kind, note = type_of(seen), note_of(seen)
        column = _free_name(name, taken) if kind is not None else ""
        taken.add(column.lower())
        finer = 0 if kind is None else finer_times(seen)
        columns.append(InferredColumn(name, kind, seen.count, seen.nulls, note, column, finer))
    return columns


def finer_times(seen: SeenValues) -> int:
    """Number of timestamps in a field, nested ones too, that have digits below a microsecond."""
    parts = [*seen.members.values(), *([seen.element] if seen.element is not None else [])]
    own = seen.texts["finer"] if type_of(seen) == "timestamp" else 0
    return own + sum(map(finer_times, parts))


def type_of(seen: SeenValues, depth: int = 1) -> str | None:
    """The DDL type that holds all values; None: there is none."""
    kinds = seen.present
    if not kinds or depth > _DEEPEST:
        return None
    if kinds <= {"integer", "fraction"}:
        return _number(seen.numbers, whole="fraction" not in kinds)
    if len(kinds) > 1:
        return None
    (kind,) = kinds
    if kind == "boolean":
        return "boolean"
    if kind == "string":
        texts = seen.kinds["string"]
        return next((name for word, name in _TEXTS if seen.texts[word] == texts), "string")
    if kind == "array":
        element = None if seen.element is None else type_of(seen.element, depth + 1)
        return None if element is None else f"array<{element}>"
    return _object(seen, depth)


_TEXTS: Final = (("instant", "timestamp"), ("date", "date"))


def _number(numbers: Numbers, *, whole: bool) -> str | None:
    if whole and numbers.least is not None and numbers.most is not None:
        if numbers.least >= -_INT64 and numbers.most < _INT64:
            return "bigint"
        return f"decimal({MOST_DIGITS},0)" if numbers.integer_digits <= MOST_DIGITS else None
    fits = numbers.scale + numbers.integer_digits <= MOST_DIGITS
    if fits and (numbers.padded or not numbers.exact):
        return _decimal(numbers)
    return "double" if numbers.finite else None


def _decimal(numbers: Numbers) -> str:
    digits = numbers.scale + numbers.integer_digits
    return f"decimal({_USUAL_DIGITS if digits <= _USUAL_DIGITS else MOST_DIGITS},{numbers.scale})"


def _object(seen: SeenValues, depth: int) -> str | None:
    if _varies(seen) and not seen.twice:
        value = SeenValues()
        for member in seen.members.values():
            value.merge(member)
        kind = type_of(value, depth + 1)
        if kind is not None:
            return f"map<string,{kind}>"
    if len(seen.members) > _MOST_FIELDS:
        return None
    fields = []
    for name in _nested_names(seen):
        kind = type_of(seen.members[name], depth + 1)
        if kind is not None:
            fields.append(f"{quoted(name)}: {kind}")
    return f"struct<{', '.join(fields)}>" if fields else None


def _varies(seen: SeenValues) -> bool:
    names, objects = len(seen.members), seen.kinds["object"]
    had = sum(member.count for member in seen.members.values())
    return names >= _NAMES_OF_A_MAP and had <= _SHARE_OF_A_MAP * names * objects


def _nested_names(seen: SeenValues) -> list[str]:
    """Names that a struct in a table can have. Of names that differ only in case, the most frequent one."""
    best: dict[str, str] = {}
    for name in sorted(seen.members, key=lambda name: -seen.members[name].count):
        if name.strip() and name.isprintable() and not FORBIDDEN_IN_NAMES.intersection(name) and name not in seen.twice:
            best.setdefault(name.lower(), name)
    kept = set(best.values())
    return [name for name in seen.members if name in kept]


def _free_name(name: str, taken: set[str]) -> str:
    """The name itself if a table can have it, else a similar one."""
    clean = "".join("_" if letter in FORBIDDEN_IN_NAMES else letter for letter in name)
    if clean.lower().startswith(RESERVED_PREFIX):
        clean = f"field{clean}"
    free, number = clean, 2
    while free.lower() in taken:
        free, number = f"{clean}_{number}", number + 1
    return free


def note_of(seen: SeenValues) -> str:
    """The note on what is ambiguous about a field, or why it has no type; else empty."""
    kinds = seen.present
    if not kinds:
        return "always null"
    kind = type_of(seen)
    if kind is None:
        return _why_none(seen)
    if kind == "bigint" and seen.numbers.least is not None and seen.numbers.most is not None:
        low, high = _MILLIS
        times = low <= seen.numbers.least and seen.numbers.most < high
        return "if these are times: type timestamp, and its format epoch_millis" if times else ""
    if kind == "double" and seen.numbers.scale + seen.numbers.integer_digits <= MOST_DIGITS and seen.numbers.scale:
        return f"{_decimal(seen.numbers)} would hold the sampled values exactly"
    if kind == "timestamp" and seen.texts["finer"]:
        return f"{seen.texts['finer']:,} with digits below a microsecond"
    if kind == "string" and seen.texts["local"] == seen.kinds["string"]:
        return "times without a zone: type timestamp, and time_zone says which is meant"
    if kind == "string" and seen.texts:
        counts = Counter({word: seen.texts[key] for key, word in _WORDS.items()})
        found = ", ".join(f"{count:,} are {word}" for word, count in counts.items() if count)
        return f"{found}, of {seen.kinds['string']:,}"
    return ""


_WORDS: Final = {"instant": "times with a zone", "local": "times without a zone", "date": "dates"}


def _why_none(seen: SeenValues) -> str:
    kinds = {**seen.kinds}
    kinds.pop("null", None)
    if len(kinds) > 1 and not set(kinds) <= {"integer", "fraction"}:
        return "mixed: " + ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
    if "array" in kinds:
        empty = seen.element is None or not seen.element.present
        return "arrays without elements" if empty else "arrays whose elements have no type in common"
    if "object" in kinds:
        return (
            "objects without fields that a table can have"
            if len(seen.members) <= _MOST_FIELDS
            else (f"objects with {len(seen.members):,} different fields")
        )
    return "numbers that no column holds"
