"""The graph as SVG: a box per kernel with its ops inside, which opens and closes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlc.passes.explain.graph import Graph, Node
from mlc.passes.explain.layout import Size, positions, rows_of
from mlc.passes.explain.markup import amount, lines, short, tag, text
from mlc.passes.report import KernelReport, Plan

OPEN_BELOW = 40  # kernels; larger graphs start with closed boxes
LETTER = 6.7  # pixels of a letter in 11-pixel monospace
HEAD = 40  # pixels: number and template, ops
PHASE_HEAD = 16
CLOSED = Size(190, HEAD + 6)
OP_HEIGHT, OP_GAP = 22, 16


@dataclass(frozen=True)
class Box:
    """A kernel, or an argument or constant."""

    markup: str
    closed: Size
    opened: Size


def graph_view(graph: Graph, plan: Plan) -> str:
    """An `<svg>` of all kernels, and the arguments that they read."""
    kernels = len(plan.kernels)
    inside: list[list[Node]] = [[] for _ in range(kernels)]
    outside: list[Node] = []
    box: dict[int, int] = {}  # of a node
    for node in graph.nodes:
        if node.kernel is not None:
            inside[node.kernel].append(node)
            box[node.number] = node.kernel
    read = {edge.producer for edge in graph.edges}
    for node in graph.nodes:
        if node.kernel is None and node.number in read:
            box[node.number] = kernels + len(outside)
            outside.append(node)
    boxes = [_kernel(k, inside[k.number], graph) for k in plan.kernels]
    boxes += [_outside(node) for node in outside]
    between: dict[tuple[int, int], bool] = {}
    for edge in graph.edges:
        key = (box[edge.producer], box[edge.consumer])
        if key[0] != key[1]:
            between[key] = between.get(key, True) and edge.again
    drawn = [key for key, again in between.items() if not again]
    rows = rows_of(len(boxes), drawn, range(kernels, len(boxes)))
    is_open = kernels <= OPEN_BELOW
    return _drawing(boxes, rows, between, is_open, kernels)


def _drawing(
    boxes: Sequence[Box],
    rows: Sequence[Sequence[int]],
    between: dict[tuple[int, int], bool],
    is_open: bool,
    kernels: int,
) -> str:
    sizes = [b.opened if is_open else b.closed for b in boxes]
    at, whole = positions(rows, sizes)
    row_of = {k: r for r, row in enumerate(rows) for k in row}
    paths = [
        tag(
            "path",
            d=_path(at[a], sizes[a], at[b], sizes[b]),
            class_="edge again" if again else "edge",
            data_from=a,
            data_to=b,
        )
        for (a, b), again in between.items()
    ]
    groups = [
        tag(
            "g",
            boxes[k].markup,
            class_=("kernel" + (" open" if is_open else "")) if k < kernels else "outside",
            id=f"box{k}",
            data_row=row_of[k],
            data_w0=boxes[k].closed.width,
            data_h0=boxes[k].closed.height,
            data_w1=boxes[k].opened.width,
            data_h1=boxes[k].opened.height,
            transform=f"translate({at[k][0]:.0f} {at[k][1]:.0f})",
        )
        for row in rows
        for k in row
    ]
    return tag(
        "svg",
        lines([tag("title", "The ops of the program, grouped in kernels"), *paths, *groups]),
        id="drawing",
        width=whole.width,
        height=whole.height,
        role="group",
        aria_label="Graph of kernels; the table of kernels below says the same",
    )


def _path(a: tuple[float, float], a_size: Size, b: tuple[float, float], b_size: Size) -> str:
    """From the middle of the lower edge to the middle of the upper one."""
    x0, y0 = a[0] + a_size.width / 2, a[1] + a_size.height
    x1, y1 = b[0] + b_size.width / 2, b[1]
    bend = max(8.0, abs(y1 - y0) / 2)
    return f"M{x0:.0f} {y0:.0f}C{x0:.0f} {y0 + bend:.0f} {x1:.0f} {y1 - bend:.0f} {x1:.0f} {y1:.0f}"


def _kernel(k: KernelReport, nodes: Sequence[Node], graph: Graph) -> Box:
    content, opened = _phases(k, nodes, graph) if k.phases else _ops(nodes, graph, CLOSED.height)
    ops = " ".join(k.ops) or "copy"
    described = (
        f"kernel {k.number}, {k.template}: {ops} -> {', '.join(k.results)};"
        f" {amount(k.bytes)}B, {amount(k.flops)}flop; {', '.join(k.source)}"
    )
    head = tag(
        "g",
        lines(
            [
                tag("title", text(described)),
                tag("rect", class_=f"box t-{k.template}", rx=5,
                    width=CLOSED.width, height=CLOSED.height),
                tag("text", text(f"{k.number} {k.template}"), x=8, y=16, class_="name"),
                tag("text", text(_cut(ops, 26)), x=8, y=32),
            ]
        ),
        class_="head", role="button", tabindex=0, aria_label=described,
    )  # fmt: skip
    return Box(lines([tag("g", content, class_="ops"), head]), CLOSED, opened)


def _phases(k: KernelReport, nodes: Sequence[Node], graph: Graph) -> tuple[str, Size]:
    """The phases of a kernel one below the other, each with its ops, and the size of all."""
    boxes = [_ops([n for n in nodes if n.phase == p.number], graph, PHASE_HEAD) for p in k.phases]
    width = max(size.width for _, size in boxes)
    parts: list[str] = []
    y: float = CLOSED.height
    for phase, (content, size) in zip(k.phases, boxes, strict=True):
        said = f"{k.number}.{phase.number} {phase.template}"
        name = tag("text", text(said), x=8, y=PHASE_HEAD - 4, class_="tick")
        shift = f"translate({(width - size.width) / 2:.0f} {y:.0f})"
        parts.append(tag("g", content + name, transform=shift))
        y += size.height
    frame = tag("rect", class_="inside", rx=5, width=width, height=y)
    return lines([frame, *parts]), Size(width, y)


def _ops(nodes: Sequence[Node], graph: Graph, head: float) -> tuple[str, Size]:
    """The ops of a kernel or phase below the room for its head, and the size of both."""
    index = {node.number: i for i, node in enumerate(nodes)}
    edges = [
        (index[e.producer], index[e.consumer])
        for e in graph.edges
        if e.producer in index and e.consumer in index and e.producer < e.consumer
    ]
    sizes = [Size(max(34.0, len(node.op) * LETTER + 14), OP_HEIGHT) for node in nodes]
    at, inner = positions(rows_of(len(nodes), edges), sizes, OP_GAP)
    whole = Size(max(CLOSED.width, inner.width), head + inner.height)
    shift = (whole.width - inner.width) / 2
    at = {k: (x + shift, y + head) for k, (x, y) in at.items()}
    frame = tag("rect", class_="inside", rx=5, width=whole.width, height=whole.height)
    paths = [
        tag("path", d=_path(at[a], sizes[a], at[b], sizes[b]), class_="inner") for a, b in edges
    ]
    parts = [frame, *paths]
    for i, node in enumerate(nodes):
        said = f"{node.op} -> {node.result}: {amount(node.bytes)}B, {amount(node.flops)}flop"
        parts.append(
            tag(
                "g",
                tag("title", text(f"{said}; {node.source or 'no source line'}"))
                + tag("rect", class_="op", rx=9, width=sizes[i].width, height=OP_HEIGHT)
                + tag("text", text(node.op), x=7, y=15),
                transform=f"translate({at[i][0]:.0f} {at[i][1]:.0f})",
            )
        )
    return lines(parts), whole


def _outside(node: Node) -> Box:
    size = Size(max(40.0, min(len(node.op), 24) * LETTER + 16), OP_HEIGHT)
    said = f"{node.op}: {node.result}, {amount(node.bytes)}B {short(node.source)}"
    markup = (
        tag("title", text(said))
        + tag("rect", class_="argument", rx=3, width=size.width, height=size.height)
        + tag("text", text(_cut(node.op, 24)), x=8, y=15)
    )
    return Box(markup, size, size)


def _cut(said: str, letters: int) -> str:
    return said if len(said) <= letters else said[: letters - 1] + "…"
