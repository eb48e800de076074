"""Draws rows per second, compared with Spark's connector, as an SVG file from a document of `kseg bench --json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from kseg.etl.errors import ConfigurationError
from kseg.jobs.bench.figures import OURS, SPARK, TUNED

_OURS, _THEIRS = "#0b7285", "#adb5bd"
_INCHES_A_BAR: Final = 0.42
_SETTINGS: Final[Any] = {
    "font.size": 9.0,
    "svg.fonttype": "none",  # as text: small, and found by a page's search
    "svg.hashsalt": "kseg",  # the same figures give the same file
}


class PlottedWorkload(NamedTuple):
    """Thousand rows per second of one workload, for a job of ours and for the connector."""

    name: str
    ours: float
    theirs: float


def bars(document: Mapping[str, Any]) -> list[PlottedWorkload]:
    """The bars of the sections `matrix` and `typed`, sorted by ratio, the largest first."""
    return sorted(_bars(document), key=lambda bar: bar.ours / bar.theirs, reverse=True)


def _bars(document: Mapping[str, Any]) -> Iterator[PlottedWorkload]:
    for entry in document.get("matrix", ()):
        rates = entry["krows_per_second"]
        yield PlottedWorkload(entry["workload"], rates[OURS], rates[TUNED])
    for form, rates in document.get("typed", {}).get("medians_krows_per_second", {}).items():
        if SPARK in rates:
            yield PlottedWorkload(f"typed columns from {form}, beside from_{form}", rates[OURS], rates[SPARK])


def plot(document: Mapping[str, Any], path: Path) -> None:
    """Write the picture.

    Raises:
        ConfigurationError: the document has neither section, or matplotlib is not installed.
        OSError: the file cannot be written.
    """
    found = bars(document)
    if not found:
        raise ConfigurationError("--plot: nothing to draw", remedy="measure --section matrix, --section typed, or both")
    check()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(9, 1.2 + _INCHES_A_BAR * len(found)), layout="constrained")
        axes = figure.add_subplot()
        places = range(len(found))
        axes.barh([place - 0.2 for place in places], [bar.ours for bar in found], 0.38, label="kseg", color=_OURS)
        axes.barh(
            [place + 0.2 for place in places],
            [bar.theirs for bar in found],
            0.38,
            label="Spark's connector, tuned",
            color=_THEIRS,
        )
        for place, bar in enumerate(found):
            axes.annotate(
                f"{bar.ours / bar.theirs:.1f}×",
                (bar.ours, place - 0.2),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
            )
        axes.set_yticks(places, [bar.name for bar in found])
        axes.invert_yaxis()
        axes.margins(x=0.1)
        axes.set_xlabel("thousand rows a second, Kafka to Delta")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="lower right", frameon=False)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def check() -> None:
    """Check that matplotlib is installed, before minutes of measurements.

    Raises:
        ConfigurationError: it is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ConfigurationError(
            "--plot: matplotlib is not installed", remedy="pip install 'kafka-segment-etl[plot]'"
        ) from None
