"""
Scales and shifts along the channels of a contraction: into its weights, and into one vector each.

Batch normalisation with given statistics is (y - mean) / sqrt(var + eps) * gamma + beta for each
channel of y: four operations on every element of y, or none but an addition where the weights are
scaled. SOURCE: Markuš, "Fusing batch normalization and convolution in runtime", 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.homes import block_of
from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.dims import Dim, product, shape_of, tensor_type
from mlc.dialects.dtypes import DType
from mlc.dialects.numerics import is_strict
from mlc.dialects.target import Target
from mlc.dialects.target.attribute import target_of
from mlc.dialects.tensor.control import ControlOp
from mlc.dialects.tensor.elementwise import AddOp, DivOp, Elementwise, MulOp, NegOp, SubOp
from mlc.dialects.tensor.op import OpBuilder, bytes_of, tensor_of
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tensor.shape import BroadcastOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.ops import point_cost
from mlc.passes.cost.work import ATTO, FAR, Clock, clock, level_of
from mlc.passes.remarks import remark
from mlc.passes.tensor.constants import constant_of, splat, splat_constant
from mlc.passes.tensor.reorder_contractions import SAMPLES
from mlc.passes.tensor.rules import Rewrite
from mlc.passes.tensor.views import letters

TRIPS = 8
"""Trips of a loop over which weights that are scaled before it are spread: it may run few."""


@dataclass(frozen=True)
class FoldAffinePass(ModulePass):
    """
    (conv(x, w) - mean) * scale + shift  ->  conv(x, w * scale) + (shift - mean * scale)

    where the vectors run along one axis of the weights; else y * scale + shift with one of each.
    What costs least is done. Results differ by rounding: numerics "standard", floats of 32 or 64
    bits. Each element's error is at most that of a sum with one term more, times |scale|.
    """

    name = "mlc-fold-affine"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if is_strict(op):
            return
        target = target_of(op)
        for inner in list(outside_kernels(op)):
            if isinstance(inner, Product) and inner.dtype.kind == "float" and inner.dtype.bytes > 2:
                _fold(inner, target)


@dataclass(frozen=True)
class _Step:
    """One op of the chain: the channel's number, and whether it stands to the left."""

    op: Elementwise
    number: SSAValue
    is_left: bool


@dataclass(frozen=True)
class _Chain:
    """Ops on the product's result with numbers for each channel, up to the one others read."""

    product: Product
    axis: int  # of the result: the channels
    steps: tuple[_Step, ...]

    @property
    def last(self) -> Elementwise:
        """The op whose result the rest of the program reads."""
        return self.steps[-1].op

    @property
    def scales(self) -> bool:
        """Whether any op does more than add."""
        return any(not isinstance(s.op, AddOp) and not _subtracts(s) for s in self.steps)

    @property
    def shifts(self) -> bool:
        """Whether any op adds."""
        return any(isinstance(s.op, (AddOp, SubOp)) for s in self.steps)

    @property
    def factor(self) -> int | None:
        """The only operand of the product with the channels' letter; None where both have it."""
        words, result, _ = self.product.words()
        found = [k for k, word in enumerate(words) if result[self.axis] in word]
        return found[0] if len(found) == 1 else None


def _subtracts(step: _Step) -> bool:
    return isinstance(step.op, SubOp) and not step.is_left


def _chain(op: Product) -> _Chain | None:
    axis: int | None = None
    steps: list[_Step] = []
    value = op.results[0]
    while value.has_one_use():
        (use,) = value.uses
        reader = use.operation
        if not isinstance(reader, (AddOp, SubOp, MulOp, DivOp)) or reader.parent is not op.parent:
            break
        is_left = use.index == 1
        number = reader.operands[1 - use.index]
        at = _channel(number)
        if at is None or (isinstance(reader, DivOp) and is_left):
            break
        if at >= 0 and axis not in (None, at):
            break
        axis = at if at >= 0 else axis
        steps.append(_Step(reader, number, is_left))
        value = reader.results[0]
    if not steps:
        return None
    if axis is not None:
        return _Chain(op, axis, tuple(steps))
    return next((c for c in _of_numbers_alone(op, tuple(steps))), None)


def _of_numbers_alone(op: Product, steps: tuple[_Step, ...]) -> Iterator[_Chain]:
    """Where no vector says which axis the channels are: those of a factor known before the loop."""
    for axis in range(len(op.shape)):
        chain = _Chain(op, axis, steps)
        if chain.factor is not None and _is_before_loop(chain, op.operands[chain.factor]):
            yield chain


def _channel(value: SSAValue) -> int | None:
    """The one axis along which a value changes; -1 for none; None for several."""
    if splat(value) is not None:
        return -1
    if not isinstance(value.owner, BroadcastOp):
        return None
    source, result = letters(value.owner)
    if not source:
        return -1
    return result.index(source) if len(source) == 1 else None


def _fold(op: Product, target: Target) -> None:
    chain = _chain(op)
    if chain is None or chain.factor is None:
        return
    price = _Price.of(target, op.dtype)
    now = price.elements(chain, len(chain.steps))
    merged = price.elements(chain, chain.scales + chain.shifts) + price.vectors(chain)
    scaled = price.elements(chain, int(chain.shifts)) + price.vectors(chain) + price.factor(chain)
    if chain.scales and _is_less(scaled, now) and _is_less(scaled, merged):
        _emit(chain, into_factor=True)
        said = "the scale is part of the weights"
        best = scaled
    elif len(chain.steps) > chain.scales + chain.shifts and _is_less(merged, now):
        _emit(chain, into_factor=False)
        said = "one scale and one shift for each channel"
        best = merged
    else:
        return
    remark(op, f"{said} (reassociating): {_spelled(now)} -> {_spelled(best)} after the product")


def _is_less(a: Dim, b: Dim) -> bool:
    """At every sample of the symbols."""
    symbols = sorted((b - a).symbols())
    return all((b - a).evaluate(dict.fromkeys(symbols, size)) > 0 for size in SAMPLES)


def _spelled(price: Dim) -> str:
    if price.constant is not None:
        return f"{price.constant / ATTO * 1e6:.2f} us"
    at = dict.fromkeys(price.symbols(), 1024)
    return f"{price.evaluate(at) / ATTO * 1e6:.2f} us where symbols are 1024"


@dataclass(frozen=True)
class _Price:
    """
    Of an operation on an element, and of a machine, in attoseconds: the sum of
    `passes/cost/work.py` where sizes are symbols.
    """

    flop: int
    clock: Clock

    @staticmethod
    def of(target: Target, dtype: DType) -> _Price:
        return _Price(point_cost(MulOp, dtype, target), clock(target))

    @property
    def start(self) -> int:
        """Of a kernel."""
        return self.clock.start

    def byte(self, size: Dim) -> int:
        """Of one that is read and written, in an array of so many."""
        costs, held = self.clock, size.constant
        level = FAR if held is None else level_of(held, costs.target)
        return costs.byte[level] + costs.written[level]

    def elements(self, chain: _Chain, ops: int) -> Dim:
        """Of ops on every element of the result."""
        return product(chain.product.shape) * (self.flop * ops)

    def vectors(self, chain: _Chain) -> Dim:
        """Of the one scale and shift: a kernel of their own, unless they are known."""
        if all(_is_known(s.number) for s in chain.steps) or _is_before_loop(chain, None):
            return Dim.const(0)
        return chain.product.shape[chain.axis] * (self.flop * len(chain.steps)) + self.start

    def factor(self, chain: _Chain) -> Dim:
        """Of the scaled weights: read, multiplied and written once more."""
        assert chain.factor is not None
        weights = chain.product.operands[chain.factor]
        known = constant_of(weights) is not None and all(_is_known(s.number) for s in chain.steps)
        if known:
            return Dim.const(0)
        each = self.flop + self.byte(bytes_of(weights.type)) * chain.product.dtype.bytes
        trips = TRIPS if _is_before_loop(chain, weights) else 1
        return product(shape_of(weights.type)) * (each // trips) + self.start // trips


def _is_known(number: SSAValue) -> bool:
    return splat(number) is not None or (
        isinstance(number.owner, BroadcastOp) and constant_of(number.owner.x) is not None
    )


def _is_before_loop(chain: _Chain, weights: SSAValue | None) -> bool:
    """Whether a loop holds the product, but neither the numbers nor the weights."""
    block = chain.product.parent
    loop = None if block is None else block.parent_op()
    if not isinstance(loop, ControlOp) or not loop.repeats:
        return False
    values = [_source(s.number) for s in chain.steps] + ([] if weights is None else [weights])
    return all(block_of(x) is not block or splat(x) is not None for x in values)


def _source(number: SSAValue) -> SSAValue:
    return number.owner.x if isinstance(number.owner, BroadcastOp) else number


def _emit(chain: _Chain, *, into_factor: bool) -> None:
    op, last, k = chain.product, chain.last, chain.factor
    assert k is not None
    b = Rewrite()
    b.anchor = last
    scale, shift = _vectors(chain, b)
    words, result, _ = op.words()
    channel = result[chain.axis]

    def along(vector: SSAValue, word: str, like: SSAValue) -> SSAValue:
        text = f"{channel}->{word}"
        return b(BroadcastOp, vector, letters=text, declared=tensor_of(like))

    value = op.results[0]
    if scale is not None and into_factor:
        operands = list(op.operands)
        operands[k] = b(MulOp, operands[k], along(scale, words[k], operands[k]))
        value = b(type(op), *operands, declared=tensor_of(value), **dict(op.properties))
    elif scale is not None:
        value = b(MulOp, value, along(scale, result, value))
    if shift is not None:
        value = b(AddOp, value, along(shift, result, value))
    value.name_hint = last.results[0].name_hint
    last.results[0].replace_all_uses_with(value)
    for step in reversed(chain.steps):
        assert step.op.parent is not None
        step.op.parent.erase_op(step.op)
    if not op.results[0].uses:
        assert op.parent is not None
        op.parent.erase_op(op)


def _vectors(chain: _Chain, b: OpBuilder) -> tuple[SSAValue | None, SSAValue | None]:
    """The scale and the shift that all ops of the chain together are; None for 1 and 0."""
    scale: SSAValue | None = None
    shift: SSAValue | None = None
    size = chain.product.shape[chain.axis]

    def vector(number: SSAValue) -> SSAValue:
        known, source = splat(number), _source(number)
        if known is not None:
            return splat_constant(b, known, chain.product.dtype, (size,))
        kind = tensor_type(chain.product.dtype.ir, (size,))
        is_one = shape_of(source.type) == ()
        return b(BroadcastOp, source, letters="->a", declared=kind) if is_one else source

    def of_both(f: Callable[[SSAValue], SSAValue]) -> None:
        nonlocal scale, shift
        scale = None if scale is None else f(scale)
        shift = None if shift is None else f(shift)

    for step in chain.steps:
        c = vector(step.number)
        if isinstance(step.op, (MulOp, DivOp)):
            if scale is None:
                scale = splat_constant(b, 1, chain.product.dtype, (size,))
            kind = type(step.op)
            of_both(lambda x, c=c, kind=kind: b(kind, x, c))
        elif step.is_left and isinstance(step.op, SubOp):  # c - y
            if scale is None:
                scale = splat_constant(b, 1, chain.product.dtype, (size,))
            of_both(lambda x: b(NegOp, x))
            shift = c if shift is None else b(AddOp, shift, c)
        elif isinstance(step.op, SubOp):
            shift = b(NegOp, c) if shift is None else b(SubOp, shift, c)
        else:
            shift = c if shift is None else b(AddOp, shift, c)
    return scale, shift
