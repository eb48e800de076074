"""The commands that a refusal names, read from its text: what a person would type who follows it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_QUOTED = re.compile(r"`([^`]+)`")
_RUN_AGAIN = re.compile(r"\b(run|start) (the |this )?(job|run|it)\b( \w+)? again", re.IGNORECASE)


def commands_of(error: Mapping[str, Any], table: str | None = None) -> list[list[str]]:
    """The commands of a refusal's document, in their order, each as words without `kseg`; [] where it names none.

    A command that continues the one before ("`--finish RUN` completes it, `--abandon` removes its rows") gets its
    beginning and its run. table: what `TABLE` stands for.
    """
    remedy = error.get("remedy") or ""
    found: list[list[str]] = []
    for quoted in _QUOTED.findall(remedy):
        words = quoted.split()
        if words[0] == "kseg":
            words = words[1:]
        elif words[0].startswith("--") and found:
            words = [*found[-1][:2], *words]
            if words[-1] in ("--abandon", "--finish"):
                words.append(found[-1][-1])
        else:
            continue
        found.append([table if word == "TABLE" and table is not None else word for word in words])
    if not found and _RUN_AGAIN.search(remedy):
        found.append(["ingest", "JOB"])
    return found
