"""The catalogue (`etl.refusals`) as explanations, by name; and their text for a terminal."""

from __future__ import annotations

import re
from typing import Final

from kseg.etl.refusals.catalogue import CATALOGUE
from kseg.etl.refusals.exit_codes import ExitCode
from kseg.etl.refusals.kinds import KINDS as _KINDS
from kseg.etl.refusals.problems import PROBLEMS as _PROBLEMS
from kseg.jobs.explanations.explanation import Explanation

_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


REFUSALS: Final = {
    code: Explanation(entry.found, entry.remedy, int(ExitCode.REFUSED)) for code, entry in CATALOGUE.items()
}
"""Refusals by code."""

PROBLEMS: Final = {code: Explanation(entry.found, entry.remedy) for code, entry in _PROBLEMS.items()}
"""Problems of `kseg status` by code."""

KINDS: Final = {name: Explanation(entry.found, entry.remedy, int(entry.exit_code)) for name, entry in _KINDS.items()}
"""All other errors by the name of their class."""

EXITS: Final = {
    str(code.value): Explanation(code.meaning.found, code.meaning.remedy or code.meaning.acts, int(code))
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
