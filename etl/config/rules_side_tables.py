"""Rules for side tables (dead letters, quarantine), and for what in the job file sets records aside into them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kseg.etl.config.decoding import decodes_by_topic
from kseg.etl.config.document import PathKey
from kseg.etl.config.faults import Finding
from kseg.etl.config.paths import lies_within, topic_that_leads_to
from kseg.etl.config.view import View, sound_targets, target_paths


def corruption_has_its_table(view: View) -> Iterator[Finding]:
    """Bytes that cannot be read have to go somewhere, and a table for them is no use where the run stops at them."""
    table = view.sink.quarantine
    if not view.sound("source", "on_corruption") or not view.sound("sink", "quarantine"):
        return
    if view.source.on_corruption == "quarantine" and table is None:
        yield Finding(
            ("source", "on_corruption"),
            "is quarantine, and there is no quarantine table",
            "add `sink: {quarantine: {path: …}}`",
        )
    if table is not None and view.source.on_corruption == "fail":
        yield Finding(
            ("sink", "quarantine"),
            "is never written to: the job fails on records that cannot be read",
            "add `source: {on_corruption: quarantine}`, or remove it",
        )


def dead_letters_have_their_table(view: View) -> Iterator[Finding]:
    """Records that cannot be decoded have to go somewhere."""
    decode = view.raw.get("decode")
    if not isinstance(decode, Mapping) or not view.sound("decode") or not view.sound("sink"):
        if view.given("sink", "dead_letters") and not view.given("decode"):
            yield Finding(("sink", "dead_letters"), "is never written to: nothing is decoded", "remove it")
        return
    asked = _dead_letter_keys(view, decode)
    if not asked:
        if view.sink.dead_letters is not None:
            yield Finding(
                ("sink", "dead_letters"),
                "is never written to",
                "add `decode: {on_error: dead_letter}`, or remove it",
            )
    elif view.sink.dead_letters_path is None:
        yield Finding(
            asked[0],
            "is dead_letter, and there is no table for dead letters",
            "add `sink: {dead_letters: {path: …}}`",
        )


def _dead_letter_keys(view: View, decode: Mapping[str, Any]) -> list[PathKey]:
    """The keys by which a sound section sets records aside, or has done so before (see `Job.dead_letters`)."""
    names_table = view.sink.dead_letters is not None and view.sink.dead_letters_path is not None
    return _keys_of(decode, "dead_letter") or (_keys_of(decode, "set_null") if names_table else [])


def _keys_of(decode: Mapping[str, Any], on_error: str) -> list[PathKey]:
    """The keys by which a sound section does this with records that cannot be decoded."""
    by_topic = decodes_by_topic(decode)
    sections = {("decode", topic): part for topic, part in decode.items()} if by_topic else {("decode",): decode}
    return [(*place, "on_error") for place, part in sections.items() if part.get("on_error") == on_error]


def tables_beside_stand_apart(view: View) -> Iterator[Finding]:
    """The quarantine table, and that of dead letters."""
    quarantine = view.sink.quarantine
    if quarantine is not None and view.sound("sink", "quarantine"):
        yield from _stands_apart(view, ("sink", "quarantine", "path"), quarantine.path, [])
    place, letters = _dead_letters(view)
    if letters is not None and view.sound("sink", "dead_letters"):
        yield from _stands_apart(view, place, letters, [quarantine.path] if quarantine is not None else [])


def _dead_letters(view: View) -> tuple[PathKey, str | None]:
    """The key that asks for the table of dead letters, and its path: as given, else beside the one table."""
    decode, letters = view.raw.get("decode"), view.sink.dead_letters
    if letters is not None and letters.path is not None:
        return ("sink", "dead_letters", "path"), letters.path
    asked = _dead_letter_keys(view, decode) if isinstance(decode, Mapping) and view.sound("decode") else []
    return (asked[0], view.sink.dead_letters_path) if asked else ((), None)


def _stands_apart(view: View, place: PathKey, path: str, beside: list[str]) -> Iterator[Finding]:
    others = [path for route, target in sound_targets(view) for path in target_paths(view, route, target)]
    others += [*beside, *([view.ledger] if view.ledger is not None else [])]
    by_default = place[-1] != "path"
    table = f"lands dead letters in {path} by default, which" if by_default else ""
    own = f"give it a folder of its own{' (`sink.dead_letters.path`)' if by_default else ''}"
    for other in others:
        if lies_within(path, other) or lies_within(other, path):
            yield Finding(place, f"{table} is inside {other}, or contains it".lstrip(), own)
        elif topic_that_leads_to(other, path) is not None:
            yield Finding(place, f"{table} is the same as {other} for some topic".lstrip(), own)
