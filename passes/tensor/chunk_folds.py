"""Sums over the trips of a parallel loop are sums of chunks, whose bounds threads do not decide."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.dependence import trips_together
from mlc.dialects.analysis.trips import trips_of
from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.tensor.comparison import CompareOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.control import PARALLEL, ForOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.elementwise import MulOp
from mlc.dialects.tensor.letters import ALPHABET
from mlc.dialects.tensor.op import OpBuilder, TensorOp, element_dtype, tensor_of
from mlc.dialects.tensor.shape import BroadcastOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.derivative.emit import Emitter, before

Folds = dict[int, type[TensorOp] | None]
"""What adds up a carried value, by its place; None where it is the last trip's."""

CHUNKS = 64
"""At most: enough for as many workers, few enough to add up one after the other."""


@dataclass(frozen=True)
class ChunkFoldsPass(ModulePass):
    """
    mlc.for %i to %n iter(%s = %0) { … %s + %e }  parallel
    ->  mlc.for %c to %chunks iter(%p = zeros) { mlc.for %i … iter(%s = 0) { … } … %p[%c] = %s }
        parallel, then the sum of %p, chunk by chunk

    So trips of the outer loop are independent, and the sum has the same bits for any number of
    threads.
    """

    name = "mlc-chunk-folds"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for loop in list(op.walk()):
            if isinstance(loop, ForOp) and PARALLEL in loop.attributes:
                found = trips_together(loop)
                folds: Folds = {**dict.fromkeys(found.last), **found.folds}
                folds = {k: kind for k, kind in folds.items() if loop.results[k].first_use}
                if folds:
                    _chunk(loop, folds)


def _chunk(loop: ForOp, folds: Folds) -> None:
    b = before(loop)
    chunks, size = _cut(b, loop)
    others = [k for k in range(len(loop.inits)) if k not in folds]
    partial = [b.stack(Dim.const(chunks), loop.inits[k].type) for k in folds]

    def trip(e: Emitter, c: SSAValue, carried: list[SSAValue]) -> list[SSAValue]:
        """One chunk: the loop as it was, from neutral numbers."""
        low = e.multiply(c, size)
        starts = list(loop.inits)
        for k, value in zip(others, carried, strict=False):
            starts[k] = value
        for k, kind in folds.items():
            if kind is not None:
                starts[k] = neutral(e, kind, loop.inits[k])
        count = e.smaller(e.subtract(loop.count, low), size)
        inner = ForOp(count, starts, Region(_moved(loop.body.block, low)))
        inner.location = loop.location
        e.insert(inner)
        written = [
            e.write(stack, inner.results[k], c)
            for k, stack in zip(folds, carried[len(others) :], strict=True)
        ]
        return [*(inner.results[k] for k in others), *written]

    n = b.integer(chunks)
    found = b.loop(n, [*(loop.inits[k] for k in others), *partial], trip)
    outer = found[0].owner
    assert isinstance(outer, ForOp)
    outer.attributes[PARALLEL] = UnitAttr()
    for k, value in zip(others, found, strict=False):
        loop.results[k].replace_all_uses_with(value)
    stacks = found[len(others) :]
    kinds = list(folds.values())

    def add_up(e: Emitter, c: SSAValue, sums: list[SSAValue]) -> list[SSAValue]:
        parts = [e.read(stack, c) for stack in stacks]
        runs = e(CompareOp, e.multiply(c, size), loop.count, predicate="lt")
        return [
            _last(e, runs, part, total) if kind is None else e(kind, total, part)
            for kind, total, part in zip(kinds, sums, parts, strict=True)
        ]

    totals = b.loop(n, [loop.inits[k] for k in folds], add_up)
    for k, value in zip(folds, totals, strict=True):
        loop.results[k].replace_all_uses_with(value)
    loop.detach()
    loop.erase(safe_erase=False)  # its body is gone


def _cut(b: Emitter, loop: ForOp) -> tuple[int, SSAValue]:
    """How many chunks, and the trips of one."""
    known = trips_of(loop)
    if known is None or known.constant is None:
        return CHUNKS, b.divide_up(loop.count, b.integer(CHUNKS))
    count = max(known.constant, 1)
    chunks = min(count, CHUNKS)
    return chunks, b.integer(-(-count // chunks))


def _moved(body: Block, low: SSAValue) -> Block:
    """A loop's body, in which trips are counted from `low` on."""
    new = Block(arg_types=[x.type for x in body.args])
    e = Emitter(new)
    number = e.add(low, new.args[0])
    for old, value in zip(body.args, (number, *new.args[1:]), strict=True):
        value.name_hint = old.name_hint
        old.replace_all_uses_with(value)
    for op in list(body.ops):
        op.detach()
        new.add_op(op)
    return new


def _last(e: Emitter, runs: SSAValue, part: SSAValue, total: SSAValue) -> SSAValue:
    """What the last chunk that has trips leaves, of numbers and arrays."""
    dims = shape_of(part.type)
    if dims:
        kind = tensor_type(tensor_of(runs).element_type, dims)
        runs = e(BroadcastOp, runs, letters=f"->{ALPHABET[: len(dims)]}", declared=kind)
    return e(SelectOp, runs, part, total)


def neutral(e: OpBuilder, kind: type[TensorOp], like: SSAValue) -> SSAValue:
    """What changes nothing, of the type of another value."""
    dtype = element_dtype(like)
    number = 1 if kind is MulOp else 0
    if kind in (MinOp, MaxOp):
        number = dtype.highest if kind is MinOp else dtype.lowest
    return full(e, number, dtype, shape_of(like.type))
