"""The refusals that the product raises, by the code of each, as its source has them."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("client", "segment_reader", "etl", "jobs")
#: Calls that make a refusal of the catalogue: of itself, and in the constructor of a subclass.
OF_CATALOGUE = ("Refused.of", "self._say")
MAKERS = ("Refused", *OF_CATALOGUE, "Incident")


@functools.cache
def refusal_codes() -> dict[str, list[str]]:
    """Each code with the places (`etl/run/land.py:92`) that it is raised at."""
    found: dict[str, list[str]] = {}
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            text = path.read_text()
            if not any(maker in text for maker in MAKERS):  # to parse all of the source takes seconds
                continue
            for code, line in _codes(ast.parse(text)):
                found.setdefault(code, []).append(f"{path.relative_to(ROOT)}:{line}")
    return found


def _codes(tree: ast.Module) -> Iterator[tuple[str, int]]:
    helpers = {node.name: at for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for at in _code_of(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in helpers:
            for code in node.args[helpers[node.func.id] :][:1]:
                yield from _constants(code, node.lineno)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in MAKERS and node.args:
            yield from _constants(node.args[0], node.lineno)


def _code_of(function: ast.FunctionDef) -> Iterator[int]:
    """Of a function that makes refusals of a code that it is given: which argument that is."""
    names = [argument.arg for argument in function.args.args]
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Refused", *OF_CATALOGUE) and node.args:
            code = ast.unparse(node.args[0])
            if code in names:
                yield names.index(code)


def _constants(code: ast.expr, line: int) -> Iterator[tuple[str, int]]:
    """The code, or both of `a if b else c`; a name stands for what another call made."""
    if isinstance(code, ast.IfExp):
        yield from _constants(code.body, line)
        yield from _constants(code.orelse, line)
    elif isinstance(code, ast.Constant) and isinstance(code.value, str):
        yield code.value, line
