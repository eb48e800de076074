"""Compares the ratios of two benchmark documents, to find those that have fallen.

Only ratios are compared, never seconds: both sides of a ratio were measured in one run on one machine, so documents of
other machines, or of a busier hour, are comparable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

TOLERANCE: Final = 0.1
"""The share of its earlier value by which a ratio may fall."""

_NAMES: Final = ("workload", "files", "format", "shape", "case")
"""Keys that identify the measurement of a list's entry."""

_RATIO_WORDS: Final = ("ratio", "cpu_ratio", "two_over_one")
_LESS_IS_BETTER: Final = ("alone", "read_alone")
_RANGES: Final = ("_least", "_most")


@dataclass(frozen=True, slots=True)
class FigureChange:
    """A ratio in both documents. change: as a share of the earlier value; below 0 if it has become worse."""

    figure: str
    before: float
    now: float
    change: float

    @property
    def fell(self) -> bool:
        return self.change < -TOLERANCE

    def to_json(self) -> dict[str, Any]:
        return {
            "figure": self.figure,
            "before": self.before,
            "now": self.now,
            "change": f"{self.change:+.0%}",
            "fell": self.fell,
        }


def compare(baseline: Mapping[str, Any], current: Mapping[str, Any]) -> list[FigureChange]:
    """Ratios that are in both documents of `kseg bench --json`, sorted by their change, the largest fall first."""
    before = dict(_ratios(baseline))
    changes = []
    for figure, now in _ratios(current):
        if (then := before.get(figure)) and now:
            better = then / now if figure.rsplit(".", 1)[-1] in _LESS_IS_BETTER else now / then
            changes.append(FigureChange(figure, then, now, better - 1))
    return sorted(changes, key=lambda change: change.change)


def _ratios(document: Any, path: str = "", within: bool = False) -> Iterator[tuple[str, float]]:
    """Each ratio with its path: all numbers below a key `ratios`, and those whose own key is in `_RATIO_WORDS`."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            if not str(key).endswith(_RANGES):
                yield from _ratios(value, f"{path}.{key}".lstrip("."), within or key == "ratios" or key in _RATIO_WORDS)
    elif isinstance(document, list):
        for number, entry in enumerate(document):
            yield from _ratios(entry, f"{path}[{_name(entry, number)}]", within)
    elif within and isinstance(document, int | float) and not isinstance(document, bool):
        yield path, float(document)


def _name(entry: Any, number: int) -> str:
    if not isinstance(entry, Mapping):
        return str(number)
    return ", ".join(str(entry[name]) for name in _NAMES if name in entry) or str(number)
