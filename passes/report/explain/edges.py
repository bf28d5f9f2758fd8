"""Producers and consumers by source line: which ops are meant, and how they hang together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from xdsl.dialects.builtin import FileLineColLoc, IntegerAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.analysis.aliases import memory_view
from mlc.dialects.analysis.views import is_view
from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.control import ControlOp, yield_of
from mlc.dialects.tensor.op import OpaqueOp, TensorOp
from mlc.dialects.tensor.reduce import Product, Reduction
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import place
from mlc.passes.report.timeline import spell

NUMBER = "mlc.number"
"""Attribute of an op and of its copies in kernels: its place in the walk before they are formed."""


@dataclass(frozen=True)
class Line:
    """A line of a source file."""

    file: str
    line: int

    @staticmethod
    def parse(text: str) -> Line:
        """``FILE:LINE``; MlcError where it is not, or where there is no such line."""
        file, colon, digits = text.rpartition(":")
        if not colon or not digits.isdecimal() or not file:
            raise MlcError(f"{text}: expected FILE:LINE, such as model.py:12")
        if not Path(file).is_file():
            raise MlcError(f"{file}: no such file; expected FILE:LINE, such as model.py:12")
        count = len(Path(file).read_bytes().splitlines())
        if not 1 <= int(digits) <= count:
            raise MlcError(f"{text}: the file has {count} lines; expected one of them")
        return Line(file, int(digits))

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def made(self, op: Operation) -> bool:
        """Whether the op comes from this line."""
        at = op.location
        if not isinstance(at, FileLineColLoc) or at.line.data != self.line:
            return False
        found = at.filename.data
        return found == self.file or Path(found).resolve() == Path(self.file).resolve()


def computing(function: FuncOp) -> list[TensorOp]:
    """The ops of which kernels are made: index maps and constants are copied into their readers."""
    return [op for op in function.walk() if isinstance(op, TensorOp) and not is_silent(op)]


def is_silent(op: Operation) -> bool:
    """Whether kernels look through an op, or it stands outside of them."""
    return is_view(op) or memory_view(op) is not None or not op.operands


def number_ops(function: FuncOp) -> None:
    """Notes on each op its place in the function's walk."""
    for k, op in enumerate(function.walk()):
        op.attributes[NUMBER] = IntegerAttr(k, i64)


def number_of(op: Operation) -> int | None:
    """What `number_ops` has noted on an op or on what it was copied from."""
    found = op.attributes.get(NUMBER)
    return found.value.data if isinstance(found, IntegerAttr) else None


def describe(op: TensorOp) -> str:
    """``exp f32[B, 10]``."""
    return f"{op.name.removeprefix('mlc.')} {spell(op.results[0])}"


def ops_of(function: FuncOp, line: Line, traced: FuncOp | None = None) -> list[TensorOp]:
    """The ops that come from a line; MlcError where there are none, naming the lines that have."""
    found = [op for op in computing(function) if line.made(op)]
    if found:
        return found
    name = function.sym_name.data
    before = [] if traced is None else [op for op in traced.walk() if isinstance(op, TensorOp)]
    if any(map(line.made, before)):
        raise MlcError(
            f"{line}: what @{name} computes here is folded into other lines, or nobody needs it;"
            f" {_known(function)}"
        )
    raise MlcError(f"{line}: nothing of @{name} comes from this line; {_known(function)}")


def _known(function: FuncOp) -> str:
    places = [where for op in computing(function) if (where := place(op))]
    listed = sorted(set(places), key=lambda x: (x.rpartition(":")[0], int(x.rpartition(":")[2])))
    if not listed:
        return "its ops have no lines"
    return f"expected one of {', '.join(listed[:20])}{', …' if len(listed) > 20 else ''}"


def producers_of(consumer: TensorOp) -> dict[TensorOp, list[Operation]]:
    """The computing ops that an op reads, each with the index maps and reshapes in between."""
    found: dict[TensorOp, list[Operation]] = {}
    pending: list[tuple[SSAValue, list[Operation]]] = [(x, []) for x in consumer.operands]
    seen: set[Operation] = set()
    while pending:
        value, between = pending.pop()
        owner = value.owner
        if not isinstance(owner, TensorOp) or owner in seen:
            continue
        seen.add(owner)
        if is_silent(owner):
            pending += [(x, [owner, *between]) for x in owner.operands]
        else:
            found.setdefault(owner, between)
    return found


def path_between(producer: Operation, consumer: Operation) -> list[TensorOp]:
    """The computing ops on a shortest way from one to the other, both included; or nothing."""
    came: dict[Operation, Operation | None] = {producer: None}
    pending = [producer]
    for op in pending:
        if op is consumer:
            break
        for reader in _readers(op):
            if reader not in came:
                came[reader] = op
                pending.append(reader)
    way: list[Operation] = []
    step: Operation | None = consumer if consumer in came else None
    while step is not None:
        way.append(step)
        step = came[step]
    return [op for op in reversed(way) if isinstance(op, TensorOp) and not is_silent(op)]


def _readers(op: Operation) -> Iterator[Operation]:
    """What reads an op's results, and inside a loop or branch what reads what it starts with."""
    for value in op.results:
        for use in value.uses:
            user = use.operation
            around = user.parent_op()
            if user.name == "mlc.yield" and isinstance(around, ControlOp):
                yield around
            else:
                yield user
    if isinstance(op, ControlOp):
        for block in op.blocks:
            for argument in block.args:
                yield from (use.operation for use in argument.uses)
            yield yield_of(block)


# In kernels


def kernel_with(numbers: Mapping[KernelOp, int], producer: int, consumer: int) -> int | None:
    """The first kernel that computes both ops; `numbers` are those of kernels by their phases."""
    held: dict[int, set[int | None]] = {}
    for op, kernel in numbers.items():
        held.setdefault(kernel, set()).update(map(number_of, op.block.ops))
    return next((k for k, inside in held.items() if {producer, consumer} <= inside), None)


def kernels_of(numbers: Mapping[KernelOp, int], number: int) -> list[int]:
    """The kernels that compute an op."""
    found = (k for op, k in numbers.items() if number in map(number_of, op.block.ops))
    return list(dict.fromkeys(found))


# Rules

RULES: dict[str, tuple[str, str]] = {
    "stored-result": (
        "a result of the function, and what goes into or out of a loop or branch, lies in memory",
        "do not return the value, or compute it on the same side of the loop or branch",
    ),
    "whole": (
        "scans, sorts, scatters, library calls and concatenations write memory, and what is read at"
        " computed positions lies there",
        "none, as long as it is such an op",
    ),
    "factor": (
        "a factor of a contraction is read many times, so it is computed once and stored",
        "apply the op to the contraction's result, where it distributes over sums as scaling does",
    ),
    "reduced": (
        "a reduction is known when all its elements have been read, so what reads it at other"
        " points than its own runs after it",
        "read the result at its own points, before it is broadcast",
    ),
    "reshape": (
        "a reshape takes elements row by row, from memory",
        "reshape before the producer or after the consumer",
    ),
    "axis": (
        "the two have no common axis along which both can be cut",
        "compute both over the same axes",
    ),
    "cycle": (
        "a third op that cannot join lies on a path from the one to the other",
        "let the consumer not need the third op",
    ),
    "late": (
        "what the producer reads is written over before the consumer runs",
        "do not donate what it reads, or let the consumer come first",
    ),
    "size": (
        "a kernel holds at most 96 ops and writes at most 8 results",
        "none: larger kernels compile slowly and keep too many streams",
    ),
    "fusion": (
        'with fusion="none" each op has a kernel of its own',
        'leave fusion="none" out',
    ),
    "unknown": (
        "the planner kept them apart although it was asked not to",
        "none that the compiler knows of",
    ),
}
"""By name (docs/plan.md) what a rule says, and what would make the edge legal."""


def rule_between(producer: TensorOp, consumer: TensorOp, between: list[Operation]) -> str:
    """The rule that keeps two ops apart, by what they are."""
    stored = [consumer.operands[k].owner for k in consumer.stored_operands()]
    is_stored = (between[-1] if between else producer) in stored
    if isinstance(producer, OpaqueOp) or isinstance(consumer, OpaqueOp) or is_stored:
        return "whole"
    if any(isinstance(op, ReshapeOp) and not op.unit_axes_only() for op in between):
        return "reshape"
    if producer.parent is not consumer.parent:
        return "stored-result"
    if isinstance(consumer, Product):
        return "factor"
    if isinstance(producer, Reduction):
        return "reduced"
    block = producer.parent
    assert isinstance(block, Block)
    last = block.last_op
    if any(use.operation is last for use in producer.results[0].uses):
        return "stored-result"
    return "unknown"
