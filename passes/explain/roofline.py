"""
The roofline plot as SVG: what each kernel should reach, below what the machine allows.

SOURCE: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlc.dialects.target import CpuTarget, GpuTarget
from mlc.passes.explain.markup import amount, lines, seconds, tag, text
from mlc.passes.report import KernelReport, Plan

WIDTH, HEIGHT, LEFT, BOTTOM, MARGIN = 760, 400, 70, 44, 16
LEGEND = 380  # pixels to the right of the plot


@dataclass(frozen=True)
class Roof:
    """A limit of the machine."""

    name: str
    short: str
    bytes_per_s: float = 0.0
    flops_per_s: float = 0.0


def roofs_of(target: CpuTarget | GpuTarget, threads: int) -> tuple[Roof, ...]:
    """Bandwidths from the fastest down, then peaks, for so many threads."""
    if isinstance(target, GpuTarget):
        return (
            Roof("level 2", "L2", bytes_per_s=target.l2_read_bytes_per_s),
            Roof("device memory", "memory", bytes_per_s=target.hbm_bytes_per_s),
            Roof("float32 peak", "peak", flops_per_s=target.f32_flops_per_s),
        )
    memory = min(target.memory_read_bytes_per_s * threads, target.memory_read_all_cores_bytes_per_s)
    peak = target.f32_flops_per_s * threads
    return (
        Roof("level 1", "L1", bytes_per_s=target.l1_read_bytes_per_s * threads),
        Roof("level 2", "L2", bytes_per_s=target.l2_read_bytes_per_s * threads),
        Roof("level 3", "L3", bytes_per_s=target.l3_read_bytes_per_s * threads),
        Roof("memory", "memory", bytes_per_s=max(memory, target.memory_read_bytes_per_s)),
        Roof("float32 peak with multiply-adds", "peak", flops_per_s=peak),
        Roof(
            "float32 peak without multiply-adds",
            "no FMA",
            flops_per_s=peak / 2,
        ),
    )


class _Axes:
    """Powers of ten on both axes, to pixels."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        self.x0, self.x1 = math.floor(math.log10(x[0])), math.ceil(math.log10(x[1]))
        self.y0, self.y1 = math.floor(math.log10(y[0])), math.ceil(math.log10(y[1]))

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - self.x0) / (self.x1 - self.x0)
        up = (math.log10(y) - self.y0) / (self.y1 - self.y0)
        return (
            LEFT + across * (WIDTH - LEFT - MARGIN),
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
            parts.append(tag("line", x1=x, y1=y, x2=WIDTH - MARGIN, y2=y, class_="grid"))
            parts.append(tag("text", amount(10.0**power), x=x - 6, y=y + 4, class_="tick end"))
        return parts


def roofline(plan: Plan, target: CpuTarget | GpuTarget, threads: int) -> str:
    """An `<svg>` with a dot per kernel that computes; empty where none does."""
    kernels = [k for k in plan.kernels if k.flops and k.bytes and k.predicted_s > 0]
    if not kernels:
        return ""
    roofs = roofs_of(target, threads)
    peak = max(roof.flops_per_s for roof in roofs)
    ridge = peak / min(roof.bytes_per_s for roof in roofs if roof.bytes_per_s)
    intensities = [k.intensity for k in kernels]
    rates = [k.flops / k.predicted_s for k in kernels]
    x = min(*intensities, 0.1) / 2, max(*intensities, ridge * 4)
    axes = _Axes(x, (min(*rates, peak / 1e3), peak * 1.2))
    parts = [
        tag("title", "Roofline: operations per second against operations per byte"),
        *axes.grid(),
        *(_roof(roof, roofs, axes) for roof in roofs),
        *_legend(roofs),
        *(_dot(k, axes) for k in kernels),
        tag("text", "operations per byte", x=WIDTH / 2, y=HEIGHT - 8, class_="tick middle"),
        tag("text", "operations per second", x=12, y=MARGIN - 4, class_="tick"),
    ]
    return tag(
        "svg",
        lines(parts),
        width=WIDTH + LEGEND,
        height=HEIGHT,
        role="img",
        aria_label="Roofline plot; the table of kernels has its numbers",
    )


def _roof(roof: Roof, roofs: tuple[Roof, ...], axes: _Axes) -> str:
    peak = max(r.flops_per_s for r in roofs)
    low, high = 10.0**axes.x0, 10.0**axes.x1
    if roof.bytes_per_s:
        start = max(low, 10.0**axes.y0 / roof.bytes_per_s)
        end = min(high, peak / roof.bytes_per_s)
        a, b = axes.at(start, start * roof.bytes_per_s), axes.at(end, end * roof.bytes_per_s)
        label, anchor = a, "tick"
    else:
        slowest = max(r.bytes_per_s for r in roofs)
        start = max(low, roof.flops_per_s / slowest)
        a, b = axes.at(start, roof.flops_per_s), axes.at(high, roof.flops_per_s)
        label, anchor = b, "tick end"
    line = tag(
        "line", tag("title", text(_said(roof))), x1=a[0], y1=a[1], x2=b[0], y2=b[1], class_="roof"
    )
    x = label[0] + (4 if anchor == "tick" else -4)
    return line + tag("text", text(roof.short), x=x, y=label[1] - 5, class_=anchor)


def _said(roof: Roof) -> str:
    rate = f"{amount(roof.bytes_per_s)}B/s" if roof.bytes_per_s else ""
    return f"{roof.name}: {rate or f'{amount(roof.flops_per_s)}flop/s'}"


def _legend(roofs: tuple[Roof, ...]) -> list[str]:
    return [
        tag("text", text(f"{roof.short}: {_said(roof)}"), x=WIDTH + 8, y=MARGIN + 12 + 18 * k,
            class_="tick")
        for k, roof in enumerate(roofs)
    ]  # fmt: skip


def _dot(k: KernelReport, axes: _Axes) -> str:
    x, y = axes.at(k.intensity, k.flops / k.predicted_s)
    said = (
        f"kernel {k.number}, {k.template}: {' '.join(k.ops)}; {k.intensity:.3g} operations per"
        f" byte, {seconds(k.predicted_s)}; {', '.join(k.source)}"
    )
    return tag(
        "g",
        tag("title", text(said))
        + tag("circle", cx=x, cy=y, r=6, class_=f"dot t-{k.template}")
        + tag("text", str(k.number), x=x + 8, y=y + 4, class_="tick"),
    )
