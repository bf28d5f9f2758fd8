"""The page: one file of HTML with its style, its pictures and its few lines of script inside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mlc.passes.remarks import Remark
from mlc.passes.report.explain.graph_view import graph_view
from mlc.passes.report.explain.markup import amount, lines, seconds, short, tag, text
from mlc.passes.report.explain.memory_view import HUES, memory_view, sources_of
from mlc.passes.report.explain.roofline import roofline
from mlc.passes.report.explain.style import SCRIPT, STYLE
from mlc.passes.report.launches import LaunchReport
from mlc.passes.report.report import (
    Intermediate,
    KernelReport,
    Plan,
    Tile,
    read_by,
    total,
    written_by,
)
from mlc.passes.report.timeline import Memory

if TYPE_CHECKING:
    from mlc.passes.report.explain.explanation import Explanation


def page(about: Explanation) -> str:
    """The whole document."""
    parts = [
        tag("h1", text(about.title)),
        _summary(about),
        _section(
            "graph", "Graph", _legend(about.plan), _box(graph_view(about.graph, about.plan)),
            hint="A box is a kernel, an arrow a value that is read; point at a box for its arrows,"
            " click to open or close it. Dotted ends belong to one long arrow. Point at an op for"
            " its line, bytes and operations.",
        ),
        _section("kernels", "Kernels", _kernels(about.plan), _intermediates(about.plan)),
        *([_section("launches", "Launches", _launches(about.launches))] if about.launches else []),
        _section(
            "roofline", "Roofline", _box(roofline(about.plan, about.target, about.threads)),
            hint="Dots are predictions. Kernels without arithmetic are left out.",
        ),
        _section(
            "memory", "Memory", _colours(about.memory), _box(memory_view(about.memory)),
            _steps(about.memory),
            hint="Arena from below, results above; a colour is a source line, the line is what"
            " is live.",
        ),
        _section("remarks", "Decisions", _ledger(about.remarks)),
    ]  # fmt: skip
    head = [
        '<meta charset="utf-8"/>',
        '<meta name="viewport" content="width=device-width"/>',
        tag("title", text(about.title)),
        tag("style", STYLE),
    ]
    body = tag("main", lines(parts)) + tag("script", SCRIPT)
    whole = tag("html", lines([tag("head", lines(head)), tag("body", body)]), lang="en")
    return f"<!DOCTYPE html>\n{whole}\n"


def _section(name: str, title: str, *content: str, hint: str = "") -> str:
    said = tag("p", text(hint), class_="hint") if hint else ""
    return tag("section", lines([tag("h2", text(title)), said, *content]), id=name)


def _box(picture: str) -> str:
    """A frame that scrolls."""
    if not picture:
        return tag("p", "nothing to show", class_="hint")
    return tag("div", picture, class_="frame", tabindex=0)


def _summary(about: Explanation) -> str:
    work, memory, peak = total(about.plan), about.memory, about.memory.peak_step
    said = [
        ("kernels", f"{about.plan.kernel_count}"),
        ("buffers in between", f"{len(about.plan.intermediates)}"),
        ("predicted", seconds(about.plan.predicted_s)),
        ("operations", amount(work.flops)),
        ("moved", f"{amount(work.bytes)}B"),
        ("operations per byte", f"{work.intensity:.3g}"),
        ("memory beside arguments", f"{amount(memory.peak_bytes)}B"),
        ("most live", f"{amount(peak.live_bytes)}B in kernel {peak.place}" if peak else "nothing"),
        ("threads", f"{about.threads}"),
    ]
    return tag("dl", lines(tag("div", tag("dt", text(k)) + tag("dd", text(v))) for k, v in said))


def _legend(plan: Plan) -> str:
    templates = dict.fromkeys(k.template for k in plan.kernels)
    chips = [tag("span", text(t), class_=f"chip t-{t}") for t in templates]
    return tag("p", " ".join(chips), class_="legend")


def _colours(memory: Memory) -> str:
    """What the colours of the memory chart stand for."""
    chips = [
        tag("span", text(short(x) or "no line"), class_=f"chip value h{k % HUES}", title=x)
        for k, x in enumerate(sources_of(memory))
    ]
    return tag("p", " ".join(chips), class_="legend")


def _table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[tuple[str, object]]]) -> str:
    """Cells are (markup, what to sort by)."""
    rows = list(rows)
    kinds = [_class(key) for _, key in rows[0]] if rows else [None] * len(heads)
    head = "".join(
        tag("th", tag("button", text(name), type="button"), scope="col", class_=kind)
        for name, kind in zip(heads, kinds, strict=True)
    )
    body = lines(
        tag("tr", "".join(tag("td", shown, data_key=_key(key), class_=_class(key))
                          for shown, key in row))
        for row in rows
    )  # fmt: skip
    return tag(
        "div",
        tag(
            "table",
            tag("caption", text(caption)) + tag("thead", tag("tr", head)) + tag("tbody", body),
            class_="sortable",
        ),
        class_="frame",
        tabindex=0,
    )


def _key(key: object) -> object:
    return f"{key:.9g}" if isinstance(key, float) else key


def _class(key: object) -> str | None:
    return "number" if isinstance(key, int | float) else None


def _kernels(plan: Plan) -> str:
    heads = ("kernel", "template", "ops", "results", "predicted", "runs", "tiles", "bytes",
             "operations", "per byte", "per access", "source")  # fmt: skip
    rows: list[list[tuple[str, object]]] = []
    for k in plan.kernels:
        rows.append(_kernel_row(k, tag("a", str(k.number), href=f"#box{k.number}"), k.number))
        for phase in k.phases:
            behind = k.number + (phase.number + 1) / (len(k.phases) + 1)
            rows.append(_kernel_row(phase, f"{k.number}.{phase.number}", behind))
    return _table("Kernels in the order they run, each with its phases", heads, rows)


def _kernel_row(k: KernelReport, name: str, key: float) -> list[tuple[str, object]]:
    runs = 0 if k.runs is None else k.runs
    ops = text(" ".join(k.ops) or "copy")
    return [
        (name, key),
        (tag("span", text(k.template), class_=f"chip t-{k.template}"), k.template),
        (tag("code", ops), ops),
        (tag("code", text(", ".join(k.results))), ", ".join(k.results)),
        (text(seconds(k.predicted_s)), k.predicted_s),
        ("as data say" if k.runs is None else f"{runs:,}", runs),
        (" × ".join(map(str, k.tile_sizes)), len(k.tile_sizes)),
        (f"{k.bytes:,}", k.bytes),
        (f"{k.flops:,}", k.flops),
        (f"{k.intensity:.3f}", k.intensity),
        (f"{k.intensity_per_access:.3f}", k.intensity_per_access),
        (_places(k.source), ", ".join(k.source)),
    ]


def _launches(launches: Sequence[LaunchReport]) -> str:
    heads = ("launch", "kernel", "times", "blocks", "threads", "shared bytes", "registers",
             "blocks per SM", "limited by", "occupancy", "waves", "slots per element", "roof",
             "bounded by")  # fmt: skip
    rows: list[list[tuple[str, object]]] = []
    for x in launches:
        slots, roof = x.slots_per_element, max(x.memory_s, x.compute_s)
        number = -1 if x.kernel is None else x.kernel
        counts = (x.times, x.blocks, x.threads, x.shared_bytes, x.registers, x.blocks_per_sm)
        rows.append(
            [
                (tag("code", text(x.function)), x.function),
                ("" if x.kernel is None else str(x.kernel), number),
                *((f"{count:,}", count) for count in counts),
                (text(x.limited_by), x.limited_by),
                (f"{x.occupancy:.0%}", x.occupancy),
                (f"{x.waves:.2f}", x.waves),
                ("" if slots is None else f"{slots:.1f}", slots or 0.0),
                (text(seconds(roof)), roof),
                (text(x.roof), x.roof),
            ]
        )
    return _table("Launches in their order; the roof is the whole kernel's", heads, rows)


def _places(sources: Sequence[str]) -> str:
    return ", ".join(tag("span", text(short(x)), title=x) for x in sources)


def _intermediates(plan: Plan) -> str:
    said = tag("p", "No kernel reads what another has written.", class_="hint")
    if plan.intermediates:
        said = _buffers("What one kernel writes and others read", plan.intermediates)
    if not plan.tiles:
        return said
    return said + _buffers("What one phase of a kernel writes and others read", plan.tiles)


def _buffers(caption: str, listed: Sequence[Intermediate | Tile]) -> str:
    heads = ("value", "bytes", "written by", "read by", "place")
    rows = [
        [
            (tag("code", text(x.result)), x.result),
            (f"{x.bytes:,}", x.bytes),
            (written_by(x), x.written_by),
            (read_by(x), len(x.read_by)),
            (text(x.place), x.place),
        ]
        for x in listed
    ]
    return _table(caption, heads, rows)


def _steps(memory: Memory) -> str:
    heads = ("step", "kernel", "what", "live bytes", "scratch bytes", "holds", "source")
    rows: list[list[tuple[str, object]]] = []
    for step in memory.steps:
        trips = f", {step.trips:,} trips" if step.trips is not None else ""
        holds = "; ".join(
            f"{h.place}: {h.value} of {h.made_by} {short(h.source)}" for h in step.held
        )
        rows.append(
            [
                (str(step.number), step.number),
                (step.place, step.number),
                (tag("code", text(step.what + trips)), step.what),
                (f"{step.live_bytes:,}", step.live_bytes),
                (f"{step.scratch_bytes:,}", step.scratch_bytes),
                (text(holds), holds),
                (_places([step.source]), step.source),
            ]
        )
    table = _table("Steps of a call", heads, rows)
    return tag("details", tag("summary", "All steps as a table") + table)


def _ledger(remarks: Sequence[Remark]) -> str:
    if not remarks:
        return tag("p", "No pass had anything to say.", class_="hint")
    heads = ("line", "op", "what was done, and why", "decision", "chosen", "otherwise")
    rows: list[list[tuple[str, object]]] = []
    for x in remarks:
        made = x.decision
        chosen = "" if made is None else seconds(made.chosen_s)
        other = "" if made is None else "not legal"
        if made is not None and made.other_s is not None:
            other = seconds(made.other_s)
        said = "" if made is None else f"{made.decision} {made.value}: {made.rule}"
        rows.append(
            [
                (_places([x.where]), x.where),
                (tag("code", text(x.op)), x.op),
                (text(x.text), x.text),
                (text(said), said),
                (text(chosen), 0.0 if made is None else made.chosen_s),
                (text(other), 0.0 if made is None or made.other_s is None else made.other_s),
            ]
        )
    return _table("What passes did and left undone", heads, rows)
