"""
A part of a value, computed from parts of what it is made of: the ops that make it, on slices of
their operands that reach as far as the part reads.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Block, SSAValue

from mlc.dialects.dims import Dim, DimsAttr, Shape, shape_of, tensor_type
from mlc.dialects.tensor.create import ConstantOp, full
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.letters import split
from mlc.dialects.tensor.op import OpBuilder, TensorOp, element_dtype, tensor_of
from mlc.dialects.tensor.placing import PadOp
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import (
    BroadcastOp,
    ConcatOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from mlc.dialects.tensor.window import ConvOp, Windowed, WindowOp
from mlc.dialects.tensor.window_letters import Axis, spell_axes
from mlc.passes.partial.regions import Box, Run
from mlc.passes.tensor.constants import splat, splat_constant
from mlc.passes.tensor.views import regrouped


def sizes_of(value: SSAValue) -> list[int]:
    """The sizes of a value's axes, which are known."""
    return [n.evaluate({}) for n in shape_of(value.type)]


def whole(value: SSAValue) -> Box:
    """All positions."""
    return tuple(Run(0, 1, n) for n in sizes_of(value))


def slice_of(b: OpBuilder, value: SSAValue, box: Box) -> SSAValue:
    """A slice, unless it is everything."""
    if box == whole(value):
        return value
    return b(
        SliceOp,
        value,
        offsets=tuple(Dim.const(run.start) for run in box),
        steps=tuple(Dim.const(run.step) for run in box),
        declared=tensor_type(tensor_of(value).element_type, _shape(box)),
    )


def _shape(box: Box) -> Shape:
    return tuple(Dim.const(run.count) for run in box)


class Parts:
    """
    Parts of a function's values, built where `b` inserts. `known`: what stands for its arguments.
    `through_products`: whether sums are computed for parts; else they are computed whole.
    """

    def __init__(
        self, b: OpBuilder, known: Mapping[SSAValue, SSAValue], *, through_products: bool
    ) -> None:
        self.b, self.through_products = b, through_products
        self.made = {(value, whole(value)): new for value, new in known.items()}

    def of(self, value: SSAValue, box: Box) -> SSAValue:
        """The elements of a value at the positions of a box."""
        box = tuple(Run(r.start, 1, 1) if r.count == 1 else r for r in box)
        if (value, box) not in self.made:
            self.made[value, box] = self.part(value, box)
        return self.made[value, box]

    def part(self, value: SSAValue, box: Box) -> SSAValue:
        op = value.owner
        if isinstance(op, Block) or (value, whole(value)) in self.made:
            return slice_of(self.b, self.of(value, whole(value)), box)
        assert isinstance(op, TensorOp)
        if box == whole(value):
            operands = [self.of(x, whole(x)) for x in op.operands]
            new = op.on(operands)
            self.b.insert(new)
            return new.results[0]
        found = self.pushed(op, box)
        return slice_of(self.b, self.of(value, whole(value)), box) if found is None else found

    def pushed(self, op: TensorOp, box: Box) -> SSAValue | None:
        """An op on parts of its operands; None where nothing is known of it."""
        match op:
            case ConstantOp():
                number = splat(op.result)
                if number is None:
                    return None
                return splat_constant(self.b, number, op.dtype, _shape(box))
            case Elementwise():
                return self.again(op, [box] * len(op.operands), box)
            case TransposeOp() | BroadcastOp():
                (source,), result = split(op.letters.data)
                return self.again(op, [tuple(box[result.index(c)] for c in source)], box)
            case SliceOp():
                pairs = [(offset.evaluate({}), step) for offset, step in op.starts()]
                if any(step < 0 for _, step in pairs):
                    return None
                return self.of(op.x, tuple(
                    Run(o + s * run.start, s * run.step, run.count)
                    for (o, s), run in zip(pairs, box, strict=True)
                ))  # fmt: skip
            case PadOp():
                return self.padded(op, box)
            case ReshapeOp():
                return self.reshaped(op, box)
            case ConcatOp():
                return self.concatenated(op, box)
            case ContractOp() | ReduceOp() | ConvOp() | WindowOp() if self.through_products:
                return self.reduced(op, box)
            case _:
                return None

    def again(self, op: TensorOp, parts: list[Box], box: Box) -> SSAValue:
        """The op on parts of its operands."""
        operands = [self.of(x, part) for x, part in zip(op.operands, parts, strict=True)]
        new = op.on(operands, tensor_type(op.dtype.ir, _shape(box)))
        self.b.insert(new)
        return new.results[0]

    def reduced(self, op: ContractOp | ReduceOp | ConvOp | WindowOp, box: Box) -> SSAValue:
        """A sum over all of its letters, for some positions of the others."""
        words, result, _ = op.words()
        known = dict(zip(result, box, strict=True))
        sizes = {c: n.evaluate({}) for c, n in op.sizes().items()}
        runs = {c: known.get(c, Run(0, 1, n)) for c, n in sizes.items()}
        if not isinstance(op, Windowed):
            return self.again(op, [tuple(runs[c] for c in word) for word in words], box)
        # windows move by their stride: no step is left, and what lies between is read as well
        words, operands = list[str](), list[SSAValue]()
        for x, axes in zip(op.operands, op.axes, strict=True):
            cut = [_cut(axis, runs) for axis in axes]
            words.append(spell_axes([axis for axis, _ in cut]))
            operands.append(self.of(x, tuple(run for _, run in cut)))
        properties = {**op.properties, "letters": f"{','.join(words)}->{result}"}
        declared = tensor_type(op.dtype.ir, _shape(box))
        return self.b(type(op), *operands, declared=declared, **properties)

    def padded(self, op: PadOp, box: Box) -> SSAValue | None:
        """Of the elements of the operand those that are in the box, and the rest around them."""
        part, low, high = list[Run](), list[int](), list[int]()
        bounds = zip(box, sizes_of(op.x), op.low.data, op.high.data, strict=True)
        for run, size, before, after in bounds:
            a = before.evaluate({})
            if a < 0 or after.evaluate({}) < 0:
                return None
            first = min(max(-(-(a - run.start) // run.step), 0), run.count)
            end = min(max(-(-(a + size - run.start) // run.step), first), run.count)
            part.append(Run(max(run.start + run.step * first - a, 0), run.step, end - first))
            low.append(first)
            high.append(run.count - end)
        if any(run.count == 0 for run in part):
            number = splat(op.value)
            if number is None:
                return None
            return splat_constant(self.b, number, op.dtype, _shape(box))
        found = self.of(op.x, tuple(part))
        if not any(low) and not any(high):
            return found
        value = self.of(op.value, ())
        return self.b(PadOp, found, value, low=_dims(low), high=_dims(high))

    def reshaped(self, op: ReshapeOp, box: Box) -> SSAValue | None:
        """Axes that a reshape leaves as they are may be cut before it."""
        before, after = shape_of(op.x.type), op.shape
        inner, rest, sizes = list(whole(op.x)), list(box), sizes_of(op.result)
        for left, right in regrouped(before, after) or ():
            kept = [k for k in left if before[k].constant != 1]
            shown = [k for k in right if after[k].constant != 1]
            if len(kept) == len(shown) == 1:
                inner[kept[0]], sizes[shown[0]] = box[shown[0]], box[shown[0]].count
                rest[shown[0]] = Run(0, 1, box[shown[0]].count)
        if tuple(inner) == whole(op.x):
            return None
        declared = tensor_type(op.dtype.ir, tuple(map(Dim.const, sizes)))
        found = self.b(ReshapeOp, self.of(op.x, tuple(inner)), declared=declared)
        return slice_of(self.b, found, tuple(rest))

    def concatenated(self, op: ConcatOp, box: Box) -> SSAValue | None:
        """Of each operand what is in the box."""
        axis = op.axis.value.data
        run, found = box[axis], list[SSAValue]()
        for part, offset in zip(op.parts, op.piece_offsets(), strict=True):
            start, size = offset.evaluate({}), sizes_of(part)[axis]
            first = min(max(-(-(start - run.start) // run.step), 0), run.count)
            end = min(max(-(-(start + size - run.start) // run.step), first), run.count)
            if end > first:
                inner = Run(run.start + run.step * first - start, run.step, end - first)
                found.append(self.of(part, (*box[:axis], inner, *box[axis + 1 :])))
        return found[0] if len(found) == 1 else self.b(ConcatOp, *found, axis=axis)


def _cut(axis: Axis, runs: Mapping[str, Run]) -> tuple[Axis, Run]:
    """How the part of an axis that is read at these places is read, and which part that is."""
    if len(axis) == 1:
        return axis, runs[axis[0][1]]
    start = sum(scale * runs[c].start for scale, c in axis)
    reach = sum(scale * runs[c].step * (runs[c].count - 1) for scale, c in axis) + 1
    return tuple((scale * runs[c].step, c) for scale, c in axis), Run(start, 1, reach)


def zeros_like(b: OpBuilder, value: SSAValue) -> SSAValue:
    """The number 0 of a value's dtype, as pads take it."""
    return full(b, 0.0, element_dtype(value), ())


def _dims(numbers: list[int]) -> DimsAttr:
    return DimsAttr(tuple(map(Dim.const, numbers)))
