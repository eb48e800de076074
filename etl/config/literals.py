"""Values of the user in a job file that YAML would read as something else: `[DE, NO]` is Germany and false to YAML 1.1.

    properties (`kafka`, `registry`, `spark.conf`, `source.segments.options`)     the text in the file
    lists of `decode.expect`                                                      the text in the file; in tables whose
                                                                                  rows have the first version of the
                                                                                  rules of decoding, YAML's value
    `decode.value.unavailable: null`                                              the word `null`

Every place that holds such values takes them from `source_text`. Keys are the text in the file everywhere
(`document`); `sink.routes`, whose keys are values of records, refuses those that YAML reads in another way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kseg.etl.config.document import Document, PathKey, dotted
from kseg.etl.config.faults import Finding
from kseg.etl.config.written_numbers import WrittenFloat, WrittenInt

TEXTS: Final = "expect_texts"
"""The key of pinned jobs alone that has the lists' text in the file."""

_QUOTE: Final = "write a value, and quote it if it is meant as text"


def source_text(value: Any, path: PathKey, document: Document | None = None) -> str | None:
    """What the file has for a scalar at this path; None for null, a list and a mapping.

    document: the parsed file. Values that it does not have, since they were laid over it, or pinned, have no other text
    than YAML's.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.text
    if isinstance(value, bool):
        read = document.booleans.get(path) if document is not None else None
        return read[1] if read is not None and read[0] is value else yaml_text(value)
    return str(value) if isinstance(value, int | float) else None


def yaml_text(value: Any) -> str:
    """YAML's value as the first version of the rules has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, WrittenFloat):
        return str(float(value))
    return str(int(value)) if isinstance(value, WrittenInt) else str(value)


def with_literals(
    section: Mapping[Any, Any], path: PathKey, document: Document, found: list[Finding]
) -> dict[Any, Any]:
    """A part of `decode:` with the literals of its lists in both readings: `expect` has YAML's, `expect_texts` those of
    the file where they differ. found: takes what is no literal."""
    section = _with_words(section, path, document)
    if TEXTS in section and not document.lines:
        return section  # pinned, and given as values
    if TEXTS in section:
        found.append(Finding((*path, TEXTS), "is unknown", "remove it"))
        return {key: part for key, part in section.items() if key != TEXTS}
    expect = section.get("expect")
    if not isinstance(expect, Mapping):
        return section
    read, texts = dict(expect), {}
    for column, condition in expect.items():
        if not isinstance(condition, list | tuple):
            continue
        place = (*path, "expect", str(column))
        faults = list(_faults(condition, place, document))
        found += faults
        if faults or any(value is None for value in condition):
            continue
        written = [source_text(value, (*place, number), document) for number, value in enumerate(condition)]
        read[column] = [yaml_text(value) for value in condition]
        if written != read[column]:
            texts[str(column)] = written
    return {**section, "expect": read, **({TEXTS: texts} if texts else {})}


def _with_words(section: Mapping[Any, Any], path: PathKey, document: Document) -> dict[Any, Any]:
    """The section where `unavailable: null` is a word, and not a key without a value."""
    value, place = section.get("value"), (*path, "value", "unavailable")
    if isinstance(value, Mapping) and value.get("unavailable") is None and place in document.nulls:
        return {**section, "value": {**value, "unavailable": "null"}}
    return dict(section)


def _faults(values: list[Any] | tuple[Any, ...], place: PathKey, document: Document) -> Iterator[Finding]:
    told = {fault.path for fault in document.faults}
    for number, value in enumerate(values):
        here = (*place, number)
        if value is None and dotted(here) in told:
            continue
        if value is None:
            yield Finding(here, "has no value", _QUOTE)
        elif isinstance(value, Mapping | list | tuple):
            yield Finding(here, "is not a value", _QUOTE)
        elif here in document.anchored:
            yield Finding(here, "has an anchor or an alias", _QUOTE)
