"""
Performance contracts: ``@mlc.compile(contract="kernels<=1; copies==0; inplace(w)")``.

A contract is checked when a program is made, against its plan; what does not hold is an error that
names what is in the way.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mlc.dialects.errors import MlcError
from mlc.frontend.call.donation import donated_leaves
from mlc.frontend.call.spec import TensorSpec
from mlc.frontend.trace.containers import flatten, unflatten
from mlc.lazy_dataclass import dataclass
from mlc.passes.report.explain.markup import seconds

if TYPE_CHECKING:
    from mlc.frontend.call.arguments import Call
    from mlc.frontend.call.program import Program
    from mlc.levels import Levels
    from mlc.passes.report.report import Intermediate, KernelReport, Plan
    from mlc.passes.report.timeline import Memory
    from mlc.why_not import Edge

METRICS = (
    *("kernels", "intermediates", "copies", "copied_bytes"),
    *("bytes", "flops", "peak", "arena", "compiles"),
)
"""
Of one program: kernels, of which a tile loop is one; buffers between them that are larger than a
cache line, so that numbers such as a sum do not count; kernels that only move elements, and their
bytes; bytes that kernels read and write, each tensor once by each; arithmetic
operations; bytes needed beside the arguments, and of these in the arena; programs made for the
function so far, from the cache or not.
"""

_COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], bool]]] = {
    ast.LtE: ("<=", operator.le),
    ast.Lt: ("<", operator.lt),
    ast.Eq: ("==", operator.eq),
    ast.GtE: (">=", operator.ge),
    ast.Gt: (">", operator.gt),
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda x, y: x // y,
    ast.Div: lambda x, y: x / y,
    ast.Pow: lambda x, y: x**y,
}
_ATTRIBUTES = ("size", "nbytes", "itemsize", "shape", "ndim")
NAMED_EDGES = 3  # of a contract that does not hold; each may ask for a plan of its own
NAMED_BUFFERS = 3
FORM = (
    "expected clauses such as 'kernels<=1; bytes<=5*n*4; inplace(w)', with"
    f" {', '.join(METRICS)} on the left"
)


class ContractError(MlcError, RuntimeError):
    """
    A compiled function does not keep its contract; the message names the op in the way.

        @mlc.compile(contract="kernels<=1")
    """


@dataclass(frozen=True)
class Clause:
    """One condition: a metric's limit, or arguments that are updated in place."""

    text: str
    metric: str  # "inplace" for the other kind
    symbol: str = ""
    limit: ast.expr | None = None
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Contract:
    """What a function promises."""

    clauses: tuple[Clause, ...]

    @staticmethod
    def parse(text: object) -> Contract:
        """The clauses of a text; ValueError where it cannot be read."""
        if not isinstance(text, str):
            raise ValueError(f"contract={text!r}; {FORM}")
        parts = [part.strip() for part in text.split(";") if part.strip()]
        if not parts:
            raise ValueError(f"contract={text!r} is empty; {FORM}")
        return Contract(tuple(_clause(part) for part in parts))

    def check(self, facts: Facts) -> None:
        """ContractError for the first clause that does not hold."""
        for clause in self.clauses:
            if clause.metric == "inplace":
                _check_in_place(clause, facts)
            else:
                _check_limit(clause, facts)


@dataclass(frozen=True)
class Facts:
    """One program: its plan and memory, the sizes and arguments of the call, and more."""

    function: str
    plan: Plan
    memory: Memory
    apart: Callable[[], Sequence[Edge]]  # who reads what another kernel computes, and why so
    names: Mapping[str, Any]  # sizes of symbols, and arguments
    compilations: int
    in_place: frozenset[str]  # arguments whose arrays hold results
    line_bytes: int  # of a cache line

    @property
    def stored(self) -> list[Intermediate]:
        """The buffers between kernels that count."""
        return [x for x in self.plan.intermediates if x.bytes > self.line_bytes]

    def value(self, metric: str) -> int:
        """What the program has of a metric."""
        plan, memory = self.plan, self.memory
        found: dict[str, Callable[[], int]] = {
            "kernels": lambda: len(plan.kernels),
            "intermediates": lambda: len(self.stored),
            "copies": lambda: sum(c.kind == "copy" for c in plan.copies),
            "copied_bytes": lambda: plan.copied_bytes,
            "bytes": lambda: sum(k.bytes for k in plan.kernels),
            "flops": lambda: sum(k.flops for k in plan.kernels),
            "peak": lambda: memory.peak_bytes,
            "arena": lambda: memory.arena_bytes,
            "compiles": lambda: self.compilations,
        }
        return found[metric]()


def facts_of(
    function: str,
    levels: Levels,
    program: Program,
    call: Call,
    parameters: Sequence[str],
    sizes: Mapping[str, int],
    *,
    compilations: int,
) -> Facts:
    """What is known of a program that was made for a call."""
    from mlc.why_not import unfused

    held = set(program.in_place.values())
    groups = donated_leaves(call, parameters, parameters)
    values = [_sized(value, sizes) for value in call.values]
    return Facts(
        function=function,
        plan=levels.report(sizes),
        memory=levels.memory(sizes),
        apart=lambda: unfused(levels, sizes, most=NAMED_EDGES),
        names={**sizes, **dict(zip(parameters, values, strict=True))},
        compilations=compilations,
        line_bytes=levels.options.target.cache_line_bytes,
        in_place=frozenset(
            name
            for name, group in zip(parameters, groups, strict=True)
            if group and held.issuperset(group)
        ),
    )


def _sized(value: Any, sizes: Mapping[str, int]) -> Any:
    """The argument with arrays, of which only sizes are asked, for types."""
    leaves, structure = flatten(value)
    if not any(isinstance(leaf, TensorSpec) for leaf in leaves):
        return value
    return unflatten(
        structure,
        [
            np.broadcast_to(np.zeros((), x.dtype.numpy), [d.evaluate(sizes) for d in x.dims])
            if isinstance(x, TensorSpec)
            else x
            for x in leaves
        ],
    )


def _clause(text: str) -> Clause:
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        raise ValueError(f"contract: {text!r} cannot be read; {FORM}") from None
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "inplace":
        if tree.args and all(isinstance(a, ast.Name) for a in tree.args) and not tree.keywords:
            return Clause(text, "inplace", arguments=tuple(ast.unparse(a) for a in tree.args))
        raise ValueError(f"contract: {text!r}; expected inplace(argument, …)")
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
        raise ValueError(f"contract: {text!r} is no comparison; {FORM}")
    if not isinstance(tree.left, ast.Name) or tree.left.id not in METRICS:
        raise ValueError(f"contract: {text!r} limits {ast.unparse(tree.left)!r}; {FORM}")
    comparison = _COMPARISONS.get(type(tree.ops[0]))
    if comparison is None:
        raise ValueError(f"contract: {text!r}; expected <=, <, ==, >= or >")
    return Clause(text, tree.left.id, comparison[0], tree.comparators[0])


def _evaluated(node: ast.expr, names: Mapping[str, Any], text: str) -> Any:
    """The value of an expression of numbers, sizes, and sizes of arguments."""

    def visit(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return _ARITHMETIC[type(op)](visit(left), visit(right))
            case ast.Attribute(value=value, attr=name) if name in _ATTRIBUTES:
                return getattr(visit(value), name)
            case ast.Subscript(value=value, slice=key):
                return visit(value)[key.value if isinstance(key, ast.Constant) else visit(key)]
            case _:
                known = ", ".join(names) or "none"
                message = f"contract: {ast.unparse(node)!r} in {text!r} is not known"
                raise ValueError(
                    f"{message}; expected numbers, the names {known}, and such as x.size,"
                    " x.nbytes, x.shape[0]"
                )

    return visit(node)


def _check_limit(clause: Clause, facts: Facts) -> None:
    assert clause.limit is not None
    limit = _evaluated(clause.limit, facts.names, clause.text)
    found = facts.value(clause.metric)
    compare = next(f for symbol, f in _COMPARISONS.values() if symbol == clause.symbol)
    if compare(found, limit):
        return
    said = f"{limit:,}" if isinstance(limit, int) else f"{limit:,g}"
    message = (
        f"{facts.function}: the contract {clause.text!r} does not hold: {clause.metric} is"
        f" {found:,}, the limit {said}."
    )
    raise ContractError("\n".join([message, *_because(clause.metric, facts)]))


def _because(metric: str, facts: Facts) -> list[str]:
    """The ops in the way, the rule, and the cheapest remedy."""
    plan = facts.plan
    match metric:
        case "copies" | "copied_bytes":
            lines = [
                f"  kernel {c.kernel} copies {c.bytes:,} bytes ({c.source}): {c.reason}"
                for c in plan.copies
                if c.kind == "copy"
            ]
            remedy = "Remedy: return or pass the array in the layout it has."
        case "compiles":
            lines = []
            remedy = 'Remedy: say which sizes vary, such as dynamic={"x": {0: "B"}}.'
        case "flops":
            top = max(plan.kernels, key=lambda k: k.flops, default=None)
            lines = [] if top is None else [f"  {_kernel(top)}: {top.flops:,} operations"]
            remedy = "Remedy: reduce the work of that kernel, or raise the limit."
        case _ if not plan.intermediates or (metric == "intermediates" and not facts.stored):
            lines = []
            remedy = "Remedy: raise the limit; nothing is stored between kernels."
        case _:
            edges = facts.apart()
            named = facts.stored if metric == "intermediates" else plan.intermediates
            lines = [_stored(i, plan) for i in named[:NAMED_BUFFERS]]
            lines += map(_apart, edges)
            remedy = f"Remedy: {_cheapest(edges)}."
    return [*lines[:6], remedy]


def _apart(edge: Edge) -> str:
    """Two ops in different kernels, and the rule by which they are."""
    kernels = " and ".join(map(str, edge.kernels))
    said = (
        f"  {edge.consumer} ({edge.consumer_line}) reads {edge.producer} ({edge.producer_line}),"
        f" in kernels {kernels}; rule {edge.rule}: {edge.sentence}"
    )
    if edge.other_s is None:
        return said
    return f"{said}: {seconds(edge.chosen_s)}, and {seconds(edge.other_s)} with them in one kernel"


def _cheapest(edges: Sequence[Edge]) -> str:
    """What to do about the first edge that a change of the program can remove, or about cost."""
    for edge in edges:
        if not edge.legal and not edge.remedy.startswith("none"):
            return f"{edge.remedy} ({edge.consumer_line})"
    if legal := [edge for edge in edges if edge.other_s is not None]:
        edge = min(legal, key=lambda e: (e.other_s or 0.0) - e.chosen_s)
        return (
            f"raise the limit; one kernel for {edge.producer} and {edge.consumer} is legal and"
            " slower"
        )
    return "raise the limit; what is stored has to lie in memory"


def _stored(buffer: Intermediate, plan: Plan) -> str:
    writer, reader = plan.kernels[buffer.written_by], plan.kernels[buffer.read_by[0]]
    return (
        f"  {buffer.result} ({buffer.bytes:,} bytes) is stored between {_kernel(writer)} and"
        f" {_kernel(reader)}"
    )


def _kernel(kernel: KernelReport) -> str:
    ops = "+".join(kernel.ops[-3:]) or kernel.template
    return f"{ops} ({', '.join(kernel.source[-1:])})"


def _check_in_place(clause: Clause, facts: Facts) -> None:
    for name in clause.arguments:
        if name in facts.in_place:
            continue
        message = (
            f"{facts.function}: the contract {clause.text!r} does not hold: {name!r} is not updated"
            " in place."
        )
        raise ContractError(
            f"{message}\nRemedy: say donate=({name!r},) and return its new value in its place, read"
            " element by element only."
        )
