"""The ops of a planned function and what they read from one another, grouped in kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from mlc.dialects.analysis.aliases import memory_view
from mlc.dialects.analysis.trips import kernel_numbers, phase_numbers, sizes_at
from mlc.dialects.analysis.views import is_view
from mlc.dialects.plan import KernelOp
from mlc.dialects.program import entry_function
from mlc.dialects.tensor.bind import with_limits
from mlc.dialects.tensor.control import ControlOp, yield_of
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.op import TensorOp, bytes_of
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import place
from mlc.passes.report.timeline import argument_name, spell


@dataclass(frozen=True, kw_only=True)
class Node:
    """An op of a kernel, or what comes from outside: an argument or a constant in memory."""

    number: int
    op: str  # "exp"; of an argument its name
    kernel: int | None
    phase: int | None  # of a kernel that is a tile loop
    result: str  # "f32[64, 10]"
    bytes: int  # of the result
    flops: int
    source: str


@dataclass(frozen=True, kw_only=True)
class Edge:
    """One node reads another; `again`: what the other made in the loop's trip before."""

    producer: int
    consumer: int
    again: bool = False


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Nodes in program order, and the edges between them."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    results: tuple[int, ...]  # nodes that make the function's results


def graph_of(module: ModuleOp, sizes: Mapping[str, int]) -> Graph:
    """The graph of a plan-level module; index maps are left out."""
    function = entry_function(module)
    return _Builder(function, with_limits(module, sizes)).run()


class _Builder:
    def __init__(self, function: FuncOp, sizes: Mapping[str, int]) -> None:
        self.function = function
        self.sizes = sizes
        self.nodes: list[Node] = []
        self.of: dict[SSAValue, int] = {}
        self.kernels = kernel_numbers(function)
        self.phases = phase_numbers(function)

    def run(self) -> Graph:
        """The graph."""
        for k, x in enumerate(self.function.body.block.args):
            self.of[x] = self._node(x, argument_name(self.function, k), None, "")
        for op in self.function.walk():
            if isinstance(op, ConstantOp) and not isinstance(op.parent_op(), KernelOp):
                self.of[op.result] = self._node(op.result, "constant", None, place(op))
        reads: list[tuple[int, SSAValue]] = []
        for kernel in self.kernels:
            reads += self._kernel(kernel)
        edges: dict[tuple[int, int], Edge] = {}
        for consumer, value in reads:
            for producer, again in self._makers(value):
                key = (producer, consumer)
                if key not in edges or not again:
                    edges[key] = Edge(producer=producer, consumer=consumer, again=again)
        last = self.function.body.block.last_op
        assert last is not None
        results = [n for x in last.operands for n, _ in self._makers(x)]
        return Graph(
            nodes=tuple(self.nodes),
            edges=tuple(edges.values()),
            results=tuple(dict.fromkeys(results)),
        )

    def _kernel(self, kernel: KernelOp) -> list[tuple[int, SSAValue]]:
        """Makes the nodes of a kernel; gives what each of them reads."""
        made = [op for op in kernel.block.ops if isinstance(op, TensorOp) and not is_view(op)]
        reads: list[tuple[int, SSAValue]] = []
        for op in made:
            flops = op.cost().flops.evaluate(sizes_at(kernel, self.sizes))
            name, result = op.name.removeprefix("mlc."), op.results[0]
            self.of[result] = self._node(result, name, kernel, place(op) or place(kernel), flops)
            reads += [(self.of[result], x) for x in op.operands]
        if not made:
            node = self._node(kernel.outs[0], "copy", kernel, place(kernel))
            self.of.update(dict.fromkeys(kernel.outs, node))
            reads += [(node, x) for x in kernel.yielded.values]
        return reads

    def _node(
        self, value: SSAValue, op: str, kernel: KernelOp | None, source: str, flops: int = 0
    ) -> int:
        number = len(self.nodes)
        self.nodes.append(
            Node(
                number=number,
                op=op,
                kernel=None if kernel is None else self.kernels[kernel],
                phase=None if kernel is None else self.phases.get(kernel),
                result=spell(value),
                bytes=bytes_of(value.type).evaluate(self._sizes(value)),
                flops=flops,
                source=source,
            )
        )
        return number

    def _sizes(self, value: SSAValue) -> Mapping[str, int]:
        owner = value.owner
        return sizes_at(owner, self.sizes) if isinstance(owner, Operation) else self.sizes

    def _makers(self, value: SSAValue) -> list[tuple[int, bool]]:
        """The nodes that make a value, and whether they do so in the trip before."""
        found: dict[int, bool] = {}
        seen: set[SSAValue] = set()
        pending = [(value, False)]
        while pending:
            x, again = pending.pop()
            if x in seen:
                continue
            seen.add(x)
            if (number := self.of.get(x)) is not None:
                found[number] = found.get(number, True) and again
                continue
            pending += [(y, again or later) for y, later in self._behind(x)]
        return list(found.items())

    def _behind(self, x: SSAValue) -> Iterator[tuple[SSAValue, bool]]:
        """What a value that no node makes is taken from."""
        owner = x.owner
        if isinstance(owner, Block):
            yield from self._argument(x, owner)
        elif isinstance(owner, KernelOp):
            yield owner.yielded.values[list[SSAValue](owner.outs).index(x)], False
        elif isinstance(owner, ControlOp):
            k = list[SSAValue](owner.results).index(x)
            for block in owner.yielding():
                yield yield_of(block).values[k], False
            first = len(owner.results) - len(owner.starts)
            if owner.starts and k >= first:
                yield owner.starts[k - first], False
        elif (view := memory_view(owner)) is not None:
            yield view.operands[0], False
        elif isinstance(owner, TensorOp) and is_view(owner):
            for y in owner.operands:
                yield y, False

    def _argument(self, x: SSAValue, block: Block) -> Iterator[tuple[SSAValue, bool]]:
        assert isinstance(x, BlockArgument)
        around = block.parent_op()
        if isinstance(around, KernelOp):
            yield around.inputs[x.index], False
        elif isinstance(around, ControlOp) and x in around.carried_in(block):
            k = around.carried_in(block).index(x)
            yield around.starts[k], False
            for inner in around.yielding():
                yield yield_of(inner).values[k + len(around.results) - len(around.starts)], True
