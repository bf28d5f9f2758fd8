"""
A sum of one product per trip is one product of all trips' factors, after the loop.

Gradients of weights that a loop uses are such sums: of thin products, each of which would read and
write the whole sum.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.dims import Dim
from mlc.dialects.numerics import is_strict
from mlc.dialects.tensor.control import ForOp, is_inside, yield_of
from mlc.dialects.tensor.elementwise import AddOp
from mlc.dialects.tensor.letters import fresh, split
from mlc.dialects.tensor.op import bytes_of
from mlc.dialects.tensor.reduce import ContractOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import remark
from mlc.passes.tensor.constants import splat
from mlc.passes.tensor.derivative.emit import Emitter, trips_of
from mlc.passes.tensor.scan_rows import row_read, stack, uses_of


@dataclass(frozen=True)
class SumAfterLoopsPass(ModulePass):
    """
    for … { s = s + contract(x[i], f(i)) }  ->  for … { t[i] = f(i) }; s + contract(x, t)

    where the factors that must be kept have no more bytes than the sum: a trip writes these instead
    of reading and writing the sum. The order of the additions changes: not with strict numerics.
    """

    name = "mlc-sum-after-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if is_strict(op):
            return
        for loop in [x for x in outside_kernels(op) if isinstance(x, ForOp)]:
            _visit(loop)


@dataclass(frozen=True)
class Sum:
    """A carried sum of products: the number of the carried value, and one trip's product."""

    number: int
    product: ContractOp
    row: SSAValue | None  # the number that both factors' rows have


def _visit(loop: ForOp) -> None:
    if trips_of(loop.count) is None:
        return
    sums = [found for k in range(len(loop.inits)) if (found := _sum(loop, k)) is not None]
    kept: dict[tuple[SSAValue, SSAValue | None], SSAValue] = {}
    for found in sums:
        if _bytes(loop, found, kept) is not None:
            _rewrite(loop, found, kept)


def _sum(loop: ForOp, k: int) -> Sum | None:
    """The product that a trip adds to the k-th carried value, and does nothing else with."""
    carried, total = loop.carried[k], yield_of(loop.body.block).values[k]
    add = total.owner
    if not isinstance(add, AddOp) or carried not in add.operands:
        return None
    if uses_of(carried) != 1 or uses_of(total) != 1:
        return None
    product = add.rhs.owner if add.lhs is carried else add.lhs.owner
    if not isinstance(product, ContractOp) or uses_of(product.results[0]) != 1:
        return None
    if not all(is_inside(x, loop) for x in product.operands):
        return None  # one factor is the same in all trips: not worth a product of sums
    rows = {r[1] for x in product.operands if (r := row_read(x, loop)) is not None}
    if len(rows) > 1:
        return None
    return Sum(k, product, next(iter(rows), None))


def _bytes(
    loop: ForOp, found: Sum, kept: dict[tuple[SSAValue, SSAValue | None], SSAValue]
) -> int | None:
    """How many bytes a trip writes less; None where it would write more, or nobody knows."""
    new = [
        x
        for x in dict.fromkeys(found.product.operands)
        if row_read(x, loop) is None and (x, found.row) not in kept
    ]
    total = sum((bytes_of(x.type) for x in new), Dim.const(0))
    less = (bytes_of(found.product.results[0].type) - total).constant
    return less if less is not None and less >= 0 else None


def _rewrite(
    loop: ForOp, found: Sum, kept: dict[tuple[SSAValue, SSAValue | None], SSAValue]
) -> None:
    factors: list[SSAValue] = []
    for x in found.product.operands:
        read = row_read(x, loop)
        if read is None and (x, found.row) not in kept:
            (kept[x, found.row],) = stack(loop, [x], found.row)
        factors.append(kept[x, found.row] if read is None else read[0])
    words, result = split(found.product.letters.data)
    trip = fresh((*words, result))
    letters = f"{','.join(trip + word for word in words)}->{result}"
    after = Emitter(Block(), found.product.location)
    total = after(ContractOp, *factors, letters=letters)
    old, start = loop.results[found.number], loop.inits[found.number]
    if splat(start) != 0:
        total = after(AddOp, start, total)
    old.replace_all_uses_with(total)
    last = yield_of(loop.body.block)
    last.operands[found.number] = loop.carried[found.number]
    anchor: Operation = loop
    for new in list(after.block.ops):
        new.detach()
        assert anchor.parent is not None
        anchor.parent.insert_op_after(new, anchor)
        anchor = new
    remark(found.product, "summed over all trips at once, after the loop (reassociating)")
