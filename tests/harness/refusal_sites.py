"""The places that make a refusal of the catalogue (`Refused.of`, a subclass's constructor), as the source has them."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from refusals import OF_CATALOGUE, ROOT, refusal_codes

Given = Mapping[str, ast.expr]


@dataclass(frozen=True)
class Site:
    """One call. says: the codes and cases that it chooses from; values, address: the names that it gives."""

    place: str
    says: frozenset[tuple[str, str]]
    values: frozenset[str]
    address: frozenset[str]


@functools.cache
def sites() -> tuple[Site, ...]:
    """All of them."""
    paths = [path for part in ("etl", "jobs") for path in sorted((ROOT / part).rglob("*.py"))]
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    return tuple(
        site
        for path, text in texts.items()
        if any(f"{maker}(" in text for maker in OF_CATALOGUE)
        for site in _in_module(ast.parse(text), path)
    )


def _in_module(tree: ast.Module, path: str) -> Iterator[Site]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            local = {
                node.targets[0].id: node.value
                for node in ast.walk(function)
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            }
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in OF_CATALOGUE:
                    yield _site(node, local, f"{path}:{node.lineno}")


def _site(call: ast.Call, local: Given, place: str) -> Site:
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg not in (None, "case")}
    spread = [keyword.value for keyword in call.keywords if keyword.arg is None]
    cases = [keyword.value for keyword in call.keywords if keyword.arg == "case"] or [ast.Constant("")]
    codes = _texts(call.args[0], local)
    return Site(
        place,
        frozenset((code, case) for code in codes or _incidents() for case in _texts(cases[0], local)),
        frozenset(name for values in call.args[1:] for name in _names(values, local)),
        frozenset({*map(str, given), *(name for values in spread for name in _names(values, local))}),
    )


def _texts(value: ast.expr, local: Given) -> set[str]:
    """What a text may be: a constant, either of `a if b else c`, or a variable of these; nothing for any other."""
    match value:
        case ast.Constant(str(text)):
            return {text}
        case ast.IfExp():
            return _texts(value.body, local) | _texts(value.orelse, local)
        case ast.Name(name) if name in local:
            return _texts(local[name], {})
    return set()


def _names(value: ast.expr, local: Given) -> set[str]:
    """The keys of a dictionary, given at its place or as a variable; of any other nothing is known."""
    if isinstance(value, ast.Name):
        value = local.get(value.id, value)
    keys = value.keys if isinstance(value, ast.Dict) else []
    return {str(key.value) for key in keys if isinstance(key, ast.Constant)}


def _incidents() -> set[str]:
    """The codes where an incident of a table brings its own."""
    return {code for code, places in refusal_codes().items() if any("tables/delta/log.py" in one for one in places)}
