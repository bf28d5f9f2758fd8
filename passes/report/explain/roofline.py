"""
The roofline plot as SVG: what each kernel should reach, below what the machine allows.

SOURCE: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from mlc.dialects.target import Target
from mlc.dialects.target.facts import Roof
from mlc.passes.report.explain.markup import amount, lines, seconds, tag, text
from mlc.passes.report.report import KernelReport, Plan

WIDTH, HEIGHT, LEFT, BOTTOM, MARGIN = 760, 416, 70, 44, 32
RIGHT = 16
LEGEND = 380  # pixels to the right of the plot
DOT = 6  # radius
TICK_LETTER, TICK_HEIGHT = 6.5, 11  # pixels of a letter in 10.5-pixel monospace
MOST_LABELS = 40  # numbers of kernels, the dearest first
STEPS = 24  # places along a roof that its name may take


class _Axes:
    """Powers of ten on both axes, to pixels."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        self.x0, self.x1 = math.floor(math.log10(x[0])), math.ceil(math.log10(x[1]))
        self.y0, self.y1 = math.floor(math.log10(y[0])), math.ceil(math.log10(y[1]))

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - self.x0) / (self.x1 - self.x0)
        up = (math.log10(y) - self.y0) / (self.y1 - self.y0)
        return (
            LEFT + across * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - up * (HEIGHT - BOTTOM - MARGIN),
        )

    def grid(self) -> list[str]:
        parts: list[str] = []
        for power in range(self.x0, self.x1 + 1):
            x, y = self.at(10.0**power, 10.0**self.y0)
            parts.append(tag("line", x1=x, y1=y, x2=x, y2=MARGIN, class_="grid"))
            label = f"{10.0**power:g}"
            parts.append(tag("text", label, x=x, y=y + 16, class_="tick middle"))
        for power in range(self.y0, self.y1 + 1):
            x, y = self.at(10.0**self.x0, 10.0**power)
            parts.append(tag("line", x1=x, y1=y, x2=WIDTH - RIGHT, y2=y, class_="grid"))
            parts.append(tag("text", amount(10.0**power), x=x - 6, y=y + 4, class_="tick end"))
        return parts


class _Labels:
    """Words at places where they lie over no dot and no other word."""

    def __init__(self, dots: Sequence[tuple[float, float]]) -> None:
        self.taken = [(x - DOT, y - DOT, x + DOT, y + DOT) for x, y in dots]

    def put(self, said: str, places: Iterable[tuple[float, float, str]]) -> str:
        """The label at the first free place, (x, baseline, "start" | "middle" | "end"), if any."""
        width = len(said) * TICK_LETTER
        for x, y, anchor in places:
            left = x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
            box = (left - 3, y - TICK_HEIGHT, left + width + 3, y + 3)
            inside = left >= LEFT and box[2] <= WIDTH and box[1] >= 0 and y <= HEIGHT - BOTTOM
            if inside and not any(_meet(box, other) for other in self.taken):
                self.taken.append(box)
                return tag("text", text(said), x=x, y=y, class_=f"tick label {anchor}")
        return ""


def _meet(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def roofline(plan: Plan, target: Target, threads: int) -> str:
    """An `<svg>` with a dot per kernel that computes; empty where none does."""
    kernels = [k for k in plan.kernels if k.flops and k.bytes and k.predicted_s > 0]
    if not kernels:
        return ""
    roofs = target.roofs(threads)
    peak = max(roof.flops_per_s for roof in roofs)
    ridge = peak / min(roof.bytes_per_s for roof in roofs if roof.bytes_per_s)
    intensities = [k.intensity for k in kernels]
    rates = [k.flops / k.predicted_s for k in kernels]
    x = min(*intensities, 0.1) / 2, max(*intensities, ridge * 4)
    axes = _Axes(x, (min(*rates, peak / 1e3), peak * 1.2))
    at = {k.number: axes.at(k.intensity, k.flops / k.predicted_s) for k in kernels}
    labels = _Labels([*at.values()])
    dear = sorted(kernels, key=lambda k: -k.predicted_s * (k.runs or 1))[:MOST_LABELS]
    parts = [
        tag("title", "Roofline: operations per second against operations per byte"),
        *axes.grid(),
        *(_roof(roof, roofs, axes) for roof in roofs),
        *_legend(roofs),
        *(_dot(k, at[k.number]) for k in kernels),
        *(labels.put(roof.short, _beside(roof, roofs, axes)) for roof in roofs),
        *(labels.put(str(k.number), _around(*at[k.number])) for k in dear),
        tag("text", "operations per byte", x=WIDTH / 2, y=HEIGHT - 8, class_="tick middle"),
        tag("text", "operations per second", x=LEFT, y=14, class_="tick"),
    ]
    return tag(
        "svg",
        lines(filter(None, parts)),
        width=WIDTH + LEGEND,
        height=HEIGHT,
        role="img",
        aria_label="Roofline plot; the table of kernels has its numbers",
    )


def _ends(roof: Roof, roofs: Sequence[Roof], axes: _Axes) -> tuple[tuple[float, float], ...]:
    """Where the line of a roof begins and ends, in pixels."""
    peak = max(r.flops_per_s for r in roofs)
    low, high = 10.0**axes.x0, 10.0**axes.x1
    if roof.bytes_per_s:
        start = max(low, 10.0**axes.y0 / roof.bytes_per_s)
        end = min(high, peak / roof.bytes_per_s)
        return axes.at(start, start * roof.bytes_per_s), axes.at(end, end * roof.bytes_per_s)
    slowest = max(r.bytes_per_s for r in roofs)
    start = max(low, roof.flops_per_s / slowest)
    return axes.at(start, roof.flops_per_s), axes.at(high, roof.flops_per_s)


def _roof(roof: Roof, roofs: Sequence[Roof], axes: _Axes) -> str:
    a, b = _ends(roof, roofs, axes)
    return tag(
        "line", tag("title", text(_said(roof))), x1=a[0], y1=a[1], x2=b[0], y2=b[1], class_="roof"
    )


def _beside(roof: Roof, roofs: Sequence[Roof], axes: _Axes) -> Iterator[tuple[float, float, str]]:
    """Aliases for a roof's name: along a slope from its foot up, on its left; along a peak."""
    a, b = _ends(roof, roofs, axes)
    for step in range(2 * roofs.index(roof), STEPS):  # names of neighbours do not meet
        if roof.bytes_per_s:
            part = (step + 1) / (STEPS + 1)
            yield a[0] + part * (b[0] - a[0]) - 4, a[1] + part * (b[1] - a[1]) - 4, "end"
        else:
            x = b[0] - 4 - (step - 2 * roofs.index(roof)) / STEPS * (b[0] - a[0])
            yield x, b[1] - 4, "end"
            yield x, b[1] + TICK_HEIGHT, "end"


def _around(x: float, y: float) -> Iterator[tuple[float, float, str]]:
    """Aliases for a dot's number: beside it, above and below, then further away."""
    for far in range(0, 40, 6):
        away = DOT + 2 + far
        yield x + away, y + 4, "start"
        yield x - away, y + 4, "end"
        yield x, y - away, "middle"
        yield x, y + away + TICK_HEIGHT - 2, "middle"
        yield x + away, y - away, "start"
        yield x - away, y - away, "end"
        yield x + away, y + away + TICK_HEIGHT / 2, "start"
        yield x - away, y + away + TICK_HEIGHT / 2, "end"


def _said(roof: Roof) -> str:
    rate = f"{amount(roof.bytes_per_s)}B/s" if roof.bytes_per_s else ""
    return f"{roof.name}: {rate or f'{amount(roof.flops_per_s)}flop/s'}"


def _legend(roofs: Sequence[Roof]) -> list[str]:
    return [
        tag("text", text(f"{roof.short}: {_said(roof)}"), x=WIDTH + 8, y=MARGIN + 12 + 18 * k,
            class_="tick")
        for k, roof in enumerate(roofs)
    ]  # fmt: skip


def _dot(k: KernelReport, at: tuple[float, float]) -> str:
    said = (
        f"kernel {k.number}, {k.template}: {' '.join(k.ops)}; {k.intensity:.3g} operations per"
        f" byte, {seconds(k.predicted_s)}; {', '.join(k.source)}"
    )
    circle = tag("circle", cx=at[0], cy=at[1], r=DOT, class_=f"dot t-{k.template}")
    return tag("g", tag("title", text(said)) + circle)
