"""The page's pictures as inline SVG: no library, no script; colours are the page's own, for light and dark.

The title and description of each chart say what it shows, and tables beside it hold the numbers. Widths are
those of a viewBox: pictures shrink with the page. The colours (style.css) are Okabe and Ito's, which people with any
kind of colour vision can distinguish; no colour means anything that is not written as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from markupsafe import Markup

from kseg.jobs.output.si_prefixes import scaled

WIDTH = 720
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 10, 24


def figure(name: str, title: str, description: str, height: float, body: Markup, width: float = WIDTH) -> Markup:
    """An SVG with what a screen reader says of it."""
    return Markup(
        '<div class="scroll"><svg viewBox="0 0 {w:g} {h:g}" role="img" aria-labelledby="{n}-t {n}-d" class="chart">'
        '<title id="{n}-t">{t}</title><desc id="{n}-d">{d}</desc>{b}</svg></div>'
    ).format(w=width, h=height, n=name, t=title, d=description, b=body)


def joined(parts: Sequence[Markup]) -> Markup:
    return Markup("").join(parts)


def text(x: float, y: float, words: object, *, anchor: str = "start", kind: str = "tick") -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}">{}</text>').format(x, y, anchor, kind, words)


def rect(x: float, y: float, width: float, height: float, kind: str, tip: object = "", radius: float = 2) -> Markup:
    shown = Markup("<title>{}</title>").format(tip) if tip else Markup("")
    return Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="{:g}" class="{}">{}</rect>').format(
        x, y, max(width, 0), max(height, 0), min(radius, max(width, 0) / 2), kind, shown
    )


def short(number: float) -> str:
    """A number for an axis: 0, 250, 1.5k, 20M."""
    left, prefix = scaled(number)
    return f"{left:.3g}{prefix}"


def ticks(highest: float, wanted: int = 4) -> list[float]:
    """Round numbers from 0 to at least `highest`."""
    if highest <= 0:
        return [0.0, 1.0]
    raw = highest / wanted
    size = 10 ** floor(log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw)
    return [step * number for number in range(ceil(highest / step) + 1)]


def seconds_label(seconds: float) -> str:
    if seconds >= 7200:
        return f"{seconds / 3600:.3g} h"
    if seconds >= 120:
        return f"{seconds / 60:.3g} min"
    return f"{seconds:.3g} s"


@dataclass(frozen=True, slots=True)
class Task:
    """A task in time: seconds since the beginning of the picture."""

    lane: str
    begin: float
    end: float
    rows: int
    bytes: int
    label: str
    kind: str


def spread(tasks: Sequence[Task], until: float, buckets: int = 120) -> tuple[list[float], list[float]]:
    """Rows and bytes a second in each of `buckets` equal parts of the time: a task's are spread over its own time."""
    width = until / buckets if until > 0 else 1.0
    rows, fetched = [0.0] * buckets, [0.0] * buckets
    for task in tasks:
        length = max(task.end - task.begin, 1e-3)
        first, last = int(task.begin / width), int(min(task.end, until) / width)
        for bucket in range(max(first, 0), min(last, buckets - 1) + 1):
            share = (min(task.end, (bucket + 1) * width) - max(task.begin, bucket * width)) / length
            if share > 0:
                rows[bucket] += task.rows * share / width
                fetched[bucket] += task.bytes * share / width
    return rows, fetched


def area(name: str, title: str, unit: str, values: Sequence[float], until: float, kind: str) -> Markup:
    """A rate over time, as an area under a line of steps."""
    height = 170.0
    scale = ticks(max(values, default=0.0))
    across, up = WIDTH - _LEFT - _RIGHT, height - _TOP - _BOTTOM

    def y(value: float) -> float:
        return _TOP + up * (1 - value / scale[-1])

    step = across / max(len(values), 1)
    points = [
        f"{_LEFT + (number + side) * step:.1f},{y(value):.1f}" for number, value in enumerate(values) for side in (0, 1)
    ]
    base = f"{_TOP + up:.1f}"
    peak, mean = max(values, default=0.0), sum(values) / max(len(values), 1)
    body = [
        _grid(scale, y, across),
        Markup('<polygon points="{},{} {} {},{}" class="{}-soft"/>').format(
            _LEFT, base, " ".join(points), _LEFT + across, base, kind
        ),
        Markup('<polyline points="{}" class="{}-line"/>').format(" ".join(points), kind),
        _time_axis(until, across, height),
    ]
    description = (
        f"{title}: {short(mean)} {unit} on average, {short(peak)} {unit} at the peak, over {seconds_label(until)}."
    )
    return figure(name, title, description, height, joined(body))


def _grid(scale: Sequence[float], y: object, across: float) -> Markup:
    assert callable(y)
    lines = []
    for value in scale:
        lines.append(
            Markup('<line x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}" class="grid"/>').format(
                _LEFT, _LEFT + across, y(value), y(value)
            )
        )
        lines.append(text(_LEFT - 6, y(value) + 4, short(value), anchor="end"))
    return joined(lines)


def _time_axis(until: float, across: float, height: float, left: float = _LEFT) -> Markup:
    marks = [second for second in ticks(until, 6) if second <= until * 1.001]
    return joined(
        [
            text(
                left + across * second / until if until else left,
                height - 6,
                seconds_label(second) if second else "0",
                anchor="middle" if second else "start",
            )
            for second in marks
        ]
    )


def _clipped(words: str, length: int) -> str:
    """The end of a name that is too long: partitions differ there."""
    return words if len(words) <= length else "…" + words[1 - length :]


LANES_SHOWN = 32


def timeline(name: str, tasks: Sequence[Task], until: float) -> Markup:
    """Tasks as bars in time; a lane is a slot of an executor, made from which tasks overlap."""
    lanes: list[tuple[str, float, list[Task]]] = []
    for task in sorted(tasks, key=lambda task: (task.lane, task.begin)):
        for number, (executor, free, row) in enumerate(lanes):
            if executor == task.lane and free <= task.begin + 0.02:
                row.append(task)
                lanes[number] = executor, task.end, row
                break
        else:
            lanes.append((task.lane, task.end, [task]))
    shown = lanes[:LANES_SHOWN]
    left, row_height = 150.0, 18.0
    height = _TOP + len(shown) * row_height + _BOTTOM
    across = WIDTH - left - _RIGHT
    body = []
    for number, (executor, _, row) in enumerate(shown):
        top = _TOP + number * row_height
        if number == 0 or shown[number - 1][0] != executor:
            body.append(text(left - 8, top + 12, _clipped(executor, 22), anchor="end"))
        body.append(rect(left, top + 2, across, row_height - 4, "lane", radius=3))
        for task in row:
            begin, end = left + across * task.begin / until, left + across * task.end / until
            body.append(rect(begin, top + 3, max(end - begin - 0.6, 1), row_height - 6, task.kind, task.label))
    body.append(_time_axis(until, across, height, left))
    description = f"{len(tasks)} tasks in {len(lanes)} slots over {seconds_label(until)}."
    return figure(name, "Tasks in time", description, height, joined(body))


@dataclass(frozen=True, slots=True)
class ChartShare:
    """A named share of a whole."""

    label: str
    value: float
    kind: str
    caption: str


def stacked(name: str, title: str, parts: Sequence[ChartShare]) -> Markup:
    """One bar of shares."""
    whole = sum(part.value for part in parts)
    height, x, body = 26.0, 0.0, []
    for part in parts:
        width = WIDTH * part.value / whole if whole else 0.0
        if width > 0:
            body.append(rect(x, 0, max(width - 1, 1), height, part.kind, f"{part.label}: {part.caption}", radius=3))
        x += width
    description = ", ".join(f"{part.label} {part.caption}" for part in parts if part.value)
    return figure(name, title, description, height, joined(body) if whole else rect(0, 0, WIDTH, height, "lane"))


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of a bar chart: its value, and one that it is compared with (drawn behind it), or none."""

    label: str
    value: float
    caption: str
    before: float | None = None


def bars(name: str, title: str, description: str, rows: Sequence[Bar], kind: str, mark: float | None = None) -> Markup:
    """Bars to the right, one below the other. mark: a value with a line of its own, such as the median."""
    left, right, row_height = 150.0, 120.0, 20.0
    across = WIDTH - left - right
    highest = max([1e-9, *(row.value for row in rows), *(row.before or 0 for row in rows), mark or 0])
    height = _TOP + len(rows) * row_height + 4
    body = []
    if mark is not None:
        x = left + across * mark / highest
        body.append(
            Markup('<line x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2:.1f}" class="mark"/>').format(
                x, _TOP - 4, height - 2
            )
        )
    for number, row in enumerate(rows):
        top = _TOP + number * row_height
        body.append(text(left - 8, top + 13, _clipped(row.label, 24), anchor="end", kind="name"))
        if row.before is not None:
            body.append(rect(left, top + 3, across * row.before / highest, row_height - 6, "before", row.caption))
        body.append(rect(left, top + 5, across * row.value / highest, row_height - 10, kind, row.caption))
        end = max(row.value, row.before or 0)
        body.append(text(left + across * end / highest + 6, top + 13, row.caption, kind="value"))
    return figure(name, title, description, height, joined(body))
