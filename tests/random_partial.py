"""Random programs of views, sums and products of two vectors: pairs that agree here and there."""

import random

from xdsl.ir import Block, SSAValue

from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.dtypes import F64
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.elementwise import AddOp, MulOp
from mlc.dialects.tensor.op import OpBuilder, element_dtype, tensor_of
from mlc.dialects.tensor.placing import PadOp
from mlc.dialects.tensor.shape import ConcatOp, JoinOp, ReshapeOp, SliceOp, TransposeOp
from mlc.dialects.tensor.window import WindowOp
from mlc.passes.partial.compare import Pair

SIZE = 24


def random_pair(seed: int, count: int = 12) -> Pair:
    """Two programs of the same kind, whose numbers differ in few places."""
    kind = tensor_type(F64.ir, (Dim.const(SIZE),))
    block = Block(arg_types=[kind, kind])
    b = OpBuilder(block.add_op)
    shared = random.Random(seed)
    parts = [
        (shared.randrange(10**6), shared.random() < 0.3) for _ in range(shared.choice([1, 2, 2, 3]))
    ]
    sides: list[SSAValue] = []
    for salt in (0, 7919 * (seed + 1)):
        made = [
            _part(b, block.args[0], random.Random(p), random.Random(p + salt), count)
            for p, _ in parts
        ]
        if salt and shared.random() < 0.5:
            made.reverse()
        total = made[0]
        for part, (_, is_product) in zip(made[1:], parts[1:], strict=True):
            total = b(MulOp if is_product else AddOp, total, part)
        sides.append(total)
    return Pair(block, tuple(block.ops), *sides)


def _part(
    b: OpBuilder, x: SSAValue, own: random.Random, other: random.Random, count: int
) -> SSAValue:
    """`count` elements: views by `own`, of which `other` decides some numbers."""
    for _ in range(own.randrange(3)):
        x = _view(b, x, own, other)
    return _fit(b, x, other if own.random() < 0.6 else own, count)


def _view(b: OpBuilder, x: SSAValue, own: random.Random, other: random.Random) -> SSAValue:
    (size,) = (n.evaluate({}) for n in shape_of(x.type))
    rng = other if own.random() < 0.4 else own
    match own.randrange(6):
        case 0:
            low, high = rng.randrange(4), rng.randrange(4)
            zero = full(b, 0.0, element_dtype(x), ())
            return b(PadOp, x, zero, low=(Dim.const(low),), high=(Dim.const(high),))
        case 1:  # turned in rows
            n = own.choice([2, 3, 4])
            rows = _slice(b, x, 0, 1, size // n * n)
            m = _shaped(b, rows, size // n, n)
            return _shaped(b, b(TransposeOp, m, letters="mn->nm"), size // n * n)
        case 2:
            at = rng.randrange(1, size)
            op = own.choice([ConcatOp, JoinOp])
            return b(op, _slice(b, x, at, 1, size - at), _slice(b, x, 0, 1, at), axis=0)
        case 3:
            return _column_moved(b, x, own.choice([2, 3]), rng.randrange(2))
        case 4:
            window = own.choice([2, 3])
            if size <= 2 * window:
                return x
            scale = own.choice([1, 2])
            reach = (window - 1) * scale + 1
            return b(
                WindowOp, x, monoid="sum", letters=f"(y+{scale}i)->y", window=(Dim.const(window),),
                declared=tensor_type(F64.ir, (Dim.const(size - reach + 1),)),
            )  # fmt: skip
        case _:
            step = -1 if rng.random() < 0.3 else 1
            return _slice(b, x, size - 1 if step < 0 else 0, step, size)


def _column_moved(b: OpBuilder, x: SSAValue, n: int, by: int) -> SSAValue:
    """Of rows of n elements all but the last row; of the first column what is `by` rows down."""
    m = shape_of(x.type)[0].evaluate({}) // n
    if m < 3:
        return x
    rows = _shaped(b, _slice(b, x, 0, 1, m * n), m, n)
    columns = [
        b(
            SliceOp, rows, offsets=(Dim.const(0 if k else by), Dim.const(k)),
            steps=(Dim.const(1), Dim.const(1)),
            declared=tensor_type(F64.ir, (Dim.const(m - 1), Dim.const(1))),
        )
        for k in range(n)
    ]  # fmt: skip
    return _shaped(b, b(ConcatOp, *columns, axis=1), (m - 1) * n)


def _fit(b: OpBuilder, x: SSAValue, rng: random.Random, count: int) -> SSAValue:
    (size,) = (n.evaluate({}) for n in shape_of(x.type))
    if size < count:
        zero = full(b, 0.0, element_dtype(x), ())
        return b(PadOp, x, zero, low=(Dim.const(0),), high=(Dim.const(count - size),))
    step = 2 if size > 2 * count and rng.random() < 0.4 else 1
    return _slice(b, x, rng.randrange(min(3, size - step * (count - 1))), step, count)


def _slice(b: OpBuilder, x: SSAValue, offset: int, step: int, count: int) -> SSAValue:
    declared = tensor_type(tensor_of(x).element_type, (Dim.const(count),))
    return b(SliceOp, x, offsets=(Dim.const(offset),), steps=(Dim.const(step),), declared=declared)


def _shaped(b: OpBuilder, x: SSAValue, *sizes: int) -> SSAValue:
    kind = tensor_type(tensor_of(x).element_type, tuple(map(Dim.const, sizes)))
    return b(ReshapeOp, x, declared=kind)
