"""The graph as SVG: a box per kernel with its ops inside, which opens and closes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mlc.lazy_dataclass import dataclass
from mlc.passes.report.explain.graph import Graph, Node
from mlc.passes.report.explain.layout import (
    FAR,
    GAP_Y,
    STUB,
    TIP,
    Size,
    positions,
    rows_of,
    with_lanes,
)
from mlc.passes.report.explain.markup import amount, lines, short, tag, text
from mlc.passes.report.report import KernelReport, Plan

OPEN_BELOW = 12  # kernels; larger graphs start with closed boxes
LETTER = 6.7  # pixels of a letter in 11-pixel monospace
HEAD = 40  # pixels: number and template, ops
PHASE_HEAD = 16
CLOSED = Size(190, HEAD + 6)
OP_HEIGHT, OP_GAP = 22, 16
LANE = Size(4, 0)  # where an edge passes a row


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
    names = [f"kernel {k.number}" for k in plan.kernels] + [node.op for node in outside]
    return _drawing(boxes, names, rows, between, kernels)


def _drawing(
    boxes: Sequence[Box],
    names: Sequence[str],
    rows: Sequence[Sequence[int]],
    between: Mapping[tuple[int, int], bool],
    kernels: int,
) -> str:
    is_open = kernels <= OPEN_BELOW
    routed = _Routed(rows, between, [b.opened if is_open else b.closed for b in boxes])
    at, lanes, row_of = routed.at, routed.lanes, routed.row_of
    edges: list[str] = []
    for (a, b), again in between.items():
        line, tip = routed.path(a, b)
        far = row_of[b] - row_of[a] > FAR
        kind = "edge again" if again else "edge far" if far else "edge"
        paths = tag("path", d=line) + tag("path", d=tip, class_="tip")
        if far:
            paths += tag("path", d=routed.stubs(a, b), class_="stub")
        said = f"{names[a]} → {names[b]}" + (", in the next trip" if again else "")
        edges.append(
            tag(
                "g",
                tag("title", text(said)) + paths,
                class_=kind,
                data_from=a,
                data_to=b,
                data_by=" ".join(map(str, routed.passed(a, b))) or None,
            )
        )
    groups = [_group(k, b, row_of[k], at[k], k < kernels, is_open) for k, b in enumerate(boxes)]
    groups += [
        tag("g", id=f"lane{k}", data_row=row, data_w0=LANE.width, data_h0=0, data_w1=LANE.width,
            data_h1=0)
        for (_, row), k in lanes.items()
    ]  # fmt: skip
    groups = [groups[k] for row in routed.rows for k in row]  # as the script finds them in rows
    return tag(
        "svg",
        lines([tag("title", "The ops of the program, grouped in kernels"), *groups, *edges]),
        id="drawing",
        width=routed.whole.width,
        height=routed.whole.height,
        role="group",
        aria_label="Graph of kernels; the table of kernels below says the same",
    )


def _group(
    k: int, box: Box, row: int, at: tuple[float, float], is_kernel: bool, is_open: bool
) -> str:
    return tag(
        "g",
        box.markup,
        class_=("kernel" + (" open" if is_open else "")) if is_kernel else "outside",
        id=f"box{k}",
        data_row=row,
        data_w0=box.closed.width,
        data_h0=box.closed.height,
        data_w1=box.opened.width,
        data_h1=box.opened.height,
        transform=f"translate({at[0]:.0f} {at[1]:.0f})",
    )


class _Routed:
    """Boxes in rows, and the ways of edges between them that cross no box."""

    def __init__(
        self,
        rows: Sequence[Sequence[int]],
        edges: Iterable[tuple[int, int]],
        sizes: Sequence[Size],
        gap_y: float = GAP_Y,
    ) -> None:
        self.rows, self.lanes = with_lanes(rows, edges)
        self.sizes = [*sizes, *[LANE] * len(self.lanes)]
        self.at, self.whole = positions(self.rows, self.sizes, gap_y)
        self.row_of = {k: r for r, row in enumerate(self.rows) for k in row}
        self.heights = [max(self.sizes[k].height for k in row) for row in self.rows]

    def passed(self, a: int, b: int) -> list[int]:
        """The lanes on the way."""
        between = range(self.row_of[a] + 1, self.row_of[b])
        return [self.lanes[a, r] for r in between if (a, r) in self.lanes]

    def path(self, a: int, b: int) -> tuple[str, str]:
        """
        From the middle of the lower edge of one box, past rows through their lanes, to the middle
        of the upper edge of the other; and the head of the arrow there.
        """
        x, y = self._middle(a), self._bottom(a)
        parts = [f"M{x:.0f} {self.at[a][1] + self.sizes[a].height:.0f}V{y:.0f}"]
        for stop in [*self.passed(a, b), b]:
            x1, top = self._middle(stop), self.at[stop][1]
            bend = max(8.0, abs(top - y) / 2)
            parts.append(f"C{x:.0f} {y + bend:.0f} {x1:.0f} {top - bend:.0f} {x1:.0f} {top:.0f}")
            x, y = x1, self._bottom(stop)
            if stop != b:
                parts.append(f"V{y:.0f}")
        top = self.at[b][1]
        return "".join(parts), f"M{x - TIP / 2:.1f} {top - TIP:.0f}h{TIP}L{x:.0f} {top:.0f}Z"

    def stubs(self, a: int, b: int) -> str:
        """The ends of a long edge."""
        start = self.at[a][1] + self.sizes[a].height
        end = self.at[b][1] - TIP - STUB
        return f"M{self._middle(a):.0f} {start:.0f}v{STUB}M{self._middle(b):.0f} {end:.0f}v{STUB}"

    def _middle(self, k: int) -> float:
        return self.at[k][0] + self.sizes[k].width / 2

    def _bottom(self, k: int) -> float:
        """Of the item's row."""
        return self.at[k][1] + self.heights[self.row_of[k]]


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
    routed = _Routed(rows_of(len(nodes), edges), edges, sizes, OP_GAP)
    whole = Size(max(CLOSED.width, routed.whole.width), head + routed.whole.height)
    shift = (whole.width - routed.whole.width) / 2
    at = routed.at = {k: (x + shift, y + head) for k, (x, y) in routed.at.items()}
    frame = tag("rect", class_="inside", rx=5, width=whole.width, height=whole.height)
    parts = [frame]
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
    for a, b in edges:
        line, tip = routed.path(a, b)
        parts.append(tag("path", d=line, class_="inner") + tag("path", d=tip, class_="inner tip"))
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
