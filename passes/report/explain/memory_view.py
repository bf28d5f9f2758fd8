"""The memory of a call as SVG: addresses upwards, kernels from left to right, a box per value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlc.lazy_dataclass import dataclass
from mlc.passes.report.explain.markup import amount, lines, short, tag, text
from mlc.passes.report.timeline import Held, Memory, MemoryStep

HEIGHT, LEFT, TOP, BOTTOM = 320, 70, 26, 40
STEP, LEAST_WIDTH = 22, 620  # pixels of one kernel, and of the plot
HUES = 9  # colours of source lines, in turn


@dataclass(frozen=True)
class Span:
    """A value in its place, from one kernel to another (both counted from 0)."""

    held: Held
    first: int
    last: int


def spans_of(steps: Sequence[MemoryStep]) -> list[Span]:
    """Each value with the kernels during which it lies in its place."""
    found: list[Span] = []
    running: dict[str, Span] = {}
    for k, step in enumerate(steps):
        now = {held.place: held for held in step.held}
        for place, span in list(running.items()):
            if now.get(place) != span.held:
                found.append(running.pop(place))
        for place, held in now.items():
            first = running[place].first if place in running else k
            running[place] = Span(held, first, k)
    return [*found, *running.values()]


def sources_of(memory: Memory) -> list[str]:
    """The source lines of all values, in the order of their colours."""
    steps = [step for step in memory.steps if step.kernel is not None]
    return list(dict.fromkeys(span.held.source for span in spans_of(steps)))


def memory_view(memory: Memory) -> str:
    """An `<svg>` of arena and results; empty where a call needs neither."""
    steps = [step for step in memory.steps if step.kernel is not None]
    if not steps or not memory.peak_bytes:
        return ""
    bases = _bases(memory, steps)
    width = max(LEAST_WIDTH, STEP * len(steps))
    across = width / len(steps)
    up = (HEIGHT - TOP - BOTTOM) / memory.peak_bytes

    def box(first: int, last: int, base: int, size: int) -> dict[str, object]:
        height = max(1.5, size * up)
        return {
            "x": LEFT + first * across,
            "width": (last - first + 1) * across,
            "y": HEIGHT - BOTTOM - base * up - height,
            "height": height,
        }

    sources = sources_of(memory)
    parts = [tag("title", "Memory of one call: arena below, results above"), *_scale(memory, width)]
    for span in spans_of(steps):
        held = span.held
        if held.place not in bases:
            continue
        hue = sources.index(held.source) % HUES
        said = (
            f"{held.value} of {held.made_by}, {held.bytes:,} bytes, in {held.place};"
            f" {held.source or 'no source line'}; steps {steps[span.first].number} to"
            f" {steps[span.last].number}"
        )
        area = box(span.first, span.last, bases[held.place], held.bytes)
        parts.append(tag("rect", tag("title", text(said)), class_=f"value h{hue}", **area))
    for k, step in enumerate(steps):
        if step.scratch_bytes:
            said = f"scratch of kernel {step.place}, {step.scratch_bytes:,} bytes"
            area = box(k, k, sum(memory.slots_bytes), step.scratch_bytes)
            parts.append(tag("rect", tag("title", text(said)), class_="scratch", **area))
    parts += _live(memory, steps, across, up)
    parts += _bottom(memory, steps, across)
    return tag(
        "svg",
        lines(parts),
        width=LEFT + width + 20,
        height=HEIGHT,
        role="img",
        aria_label="Memory timeline; the table of steps has its numbers",
    )


def _bases(memory: Memory, steps: Sequence[MemoryStep]) -> dict[str, int]:
    """The first byte of each place: slots, then scratch, then results."""
    bases: dict[str, int] = {}
    total = 0
    for number, size in enumerate(memory.slots_bytes):
        bases[f"arena {number}"] = total
        total += size
    total = memory.arena_bytes
    results = {h.place: h.bytes for s in steps for h in s.held if h.place.startswith("out")}
    for place in sorted(results, key=lambda p: int(p.split()[1])):
        bases[place] = total
        total += results[place]
    return bases


def _scale(memory: Memory, width: float) -> Iterator[str]:
    for quarter in range(5):
        y = HEIGHT - BOTTOM - quarter / 4 * (HEIGHT - TOP - BOTTOM)
        yield tag("line", x1=LEFT, x2=LEFT + width, y1=y, y2=y, class_="grid")
        label = amount(memory.peak_bytes * quarter / 4)
        yield tag("text", f"{label}B", x=LEFT - 6, y=y + 4, class_="tick end")


def _live(memory: Memory, steps: Sequence[MemoryStep], across: float, up: float) -> Iterator[str]:
    """A line at the bytes that hold values, and a mark where they are the most."""
    points: list[str] = []
    for k, step in enumerate(steps):
        y = HEIGHT - BOTTOM - step.live_bytes * up
        points += [f"{LEFT + k * across:.1f},{y:.1f}", f"{LEFT + (k + 1) * across:.1f},{y:.1f}"]
    yield tag("polyline", points=" ".join(points), class_="live")
    peak = memory.peak_step
    if peak is not None:
        k = steps.index(peak)
        said = f"most live: {amount(peak.live_bytes)}B in kernel {peak.place}"
        anchor = "tick end" if k > len(steps) / 2 else "tick"
        yield tag("text", text(said), x=LEFT + (k + 0.5) * across, y=TOP - 12, class_=anchor)
        x = LEFT + (k + 0.5) * across
        yield tag("line", x1=x, x2=x, y1=TOP - 8, y2=HEIGHT - BOTTOM, class_="peak")


def _bottom(memory: Memory, steps: Sequence[MemoryStep], across: float) -> Iterator[str]:
    """Numbers of kernels, and a bar below those that a loop repeats."""
    every = max(1, round(30 / across))
    for k, step in enumerate(steps):
        if k % every == 0:
            x = LEFT + (k + 0.5) * across
            yield tag("text", str(step.kernel), x=x, y=HEIGHT - 26, class_="tick middle")
    yield tag("text", "kernel", x=LEFT - 6, y=HEIGHT - 26, class_="tick end")
    for around in memory.steps:
        inside = [k for k, s in enumerate(steps) if _is_inside(s, around, memory)]
        if around.kernel is None and inside:
            trips = f", {around.trips:,} trips" if around.trips is not None else ""
            said = f"{around.what}{trips} {short(around.source)}"
            first, last = inside[0], inside[-1]
            area: dict[str, object] = {
                "x": LEFT + first * across,
                "width": (last - first + 1) * across,
                "y": HEIGHT - 18,
                "height": 6,
            }
            yield tag("rect", tag("title", text(said)), class_="loop", **area)


def _is_inside(step: MemoryStep, around: MemoryStep, memory: Memory) -> bool:
    outer = step.inside
    while outer is not None and outer != around.number:
        outer = memory.steps[outer].inside
    return outer == around.number
