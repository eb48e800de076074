"""Command lines of `kseg`, from an operator's arguments. No secret is ever among them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

#: Commands that take `--run-file`, by which they report their progress, and are stopped from another host.
WITH_RUN_FILE = frozenset({"ingest", "backfill", "redrive", "verify", "recover", "repair", "maintain"})
#: Commands that take `--command-config`.
WITH_CONNECTION = frozenset(
    {"ingest", "backfill", "redrive", "verify", "repair", "plan", "status", "interval", "audit"}
    | {"maintain", "runs", "report", "check", "doctor", "package", "schema"}
    | {"init", "peek", "produce", "topics"}
)
#: Commands that take `--report` and `--metrics-file`.
WITH_REPORT = frozenset({"ingest", "backfill", "redrive", "recover", "repair"})
#: Commands that take `--take-over`.
WITH_LEASE = frozenset({"ingest", "backfill", "redrive", "recover", "repair", "maintain"})


def default_kseg() -> str:
    """KSEG_BINARY, or `kseg` on the PATH."""
    return os.environ.get("KSEG_BINARY") or "kseg"


def words_of(options: Mapping[str, Any]) -> list[str]:
    """Options as words: `--name value` each, a list repeats the option, True is a flag, None and False are left out."""
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is True:
            words.append(option)
        elif value is None or value is False or value == "":
            continue  # not by `in`: 0 is equal to False, and a value
        elif isinstance(value, str) or not isinstance(value, Sequence):
            words += [option, str(value)]
        else:
            for item in value:
                words += [option, str(item)]
    return words


def as_list(value: str | Sequence[str] | None) -> list[str]:
    """One value, several or none, as a list."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else [str(item) for item in value]
