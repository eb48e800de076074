"""A virtual environment with what a distribution requires, and nothing else, without installing that again.

The packages of the environment that runs the tests are linked into it: those that the requirements name, and what they
require. A package that is imported but not required is missing there, as it would be for a user of the wheel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import compatible_tags, cpython_tags, parse_tag
from packaging.utils import canonicalize_name


def required(requirements: Iterable[str]) -> Iterator[Distribution]:
    """The distributions here that these requirements need, with all that those need."""
    found = set[str]()
    seen = set[tuple[str, str]]()
    waiting = [(Requirement(requirement), "") for requirement in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        here = distribution(name)
        if name not in found:
            found.add(name)
            yield here
        for wanted in {"", *requirement.extras} - {known for one, known in seen if one == name}:
            seen.add((name, wanted))
            waiting += [(Requirement(below), wanted) for below in here.requires or ()]


def runs_on(found: Distribution, version: tuple[int, int]) -> bool:
    """Whether the wheel installed here is one for that release of CPython, too: pure Python, or the stable ABI."""
    accepted = {*cpython_tags(version), *compatible_tags(version)}
    wheel = (found.read_text("WHEEL") or "").splitlines()
    tags = [tag for line in wheel if line.startswith("Tag:") for tag in parse_tag(line.removeprefix("Tag:").strip())]
    return not accepted.isdisjoint(tags)


def tops(found: Distribution) -> set[str]:
    """The names in `site-packages` that a distribution has."""
    names = {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}
    assert names, f"{found.name} does not list its files"
    return names


def link(distributions: Iterable[Distribution], site: Path) -> None:
    """Link the packages and modules of distributions into another environment's `site-packages`."""
    targets = {name: Path(str(found.locate_file(name))) for found in distributions for name in tops(found)}
    for name, target in sorted(targets.items()):
        (site / name).symlink_to(target)
