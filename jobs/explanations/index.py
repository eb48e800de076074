"""All explanations, by name; and their text for a terminal."""

from __future__ import annotations

import re
from typing import Final

from kseg.etl.refusals.catalogue import CATALOGUE
from kseg.etl.refusals.exit_codes import ExitCode
from kseg.jobs.explanations.explanation import Explanation
from kseg.jobs.explanations.kinds import KINDS
from kseg.jobs.explanations.problems import PROBLEMS

_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


REFUSALS: Final = {code: Explanation(entry.found, entry.remedy) for code, entry in CATALOGUE.items()}
"""Refusals by code, of the catalogue."""

EXITS: Final = {
    str(code.value): Explanation(code.meaning.found, code.meaning.remedy or code.meaning.acts)
    for code in ExitCode
    if code
}
"""Exit codes other than 0, by their number."""


def explanations() -> dict[str, Explanation]:
    """All of them, by a refusal's or a problem's code or the name of an error's class; refusals first."""
    return {**REFUSALS, **PROBLEMS, **KINDS}


def explanation_of(name: str) -> Explanation | None:
    """The explanation for the code of a refusal or a problem, the name of an error's class, or an exit code; else
    None."""
    return explanations().get(name) or EXITS.get(name)


def plain(text: str) -> str:
    """Markdown for a terminal: a link is its words and the page's path in the repository."""
    return _LINK.sub(lambda link: f"{link[1]} ({_path(link[2])})", text)


def _path(target: str) -> str:
    return f"docs/{target.removeprefix('../')}" if target.startswith("../") else f"docs/reference/{target}"
