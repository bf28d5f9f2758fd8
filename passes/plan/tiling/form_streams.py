"""Products of what is computed from products, whose values between them are never stored."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.errors import MlcError
from mlc.dialects.numerics import is_strict
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.attribute import gpu_of
from mlc.dialects.tensor.create import ConstantOp, IotaOp
from mlc.dialects.tensor.elementwise import DivOp, Elementwise, MulOp
from mlc.dialects.tensor.op import TensorOp, element_dtype, tensor_of
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp, TransposeOp
from mlc.dialects.tensor.stream import StreamOp
from mlc.dialects.tile.words import Words
from mlc.passes.gpu.stream import choose_words
from mlc.passes.plan.tiling.factored import Factored, Rows, UnsuitedError, expands, wide_operand
from mlc.passes.plan.tiling.stream_region import NARROW, StreamRegion
from mlc.passes.plan.tiling.stream_views import part_of
from mlc.passes.tensor.constants import splat
from mlc.passes.tensor.cse import CsePass
from mlc.passes.tensor.dce import DcePass
from mlc.passes.tile.stream_block import StreamBlock

MOST_OPS = 64  # of a stream; bounds what is looked at


class FormStreamsPass(ModulePass):
    """
    softmax(q k) v  ->  stream (q, k, v) { softmax(q k) v }

    Where both products have factors of 16 bits, what lies between them is walked tile by tile along
    the second one's summed axis, and a target has a program for it. Values of 16 bits that are
    never stored are f32 in it: excess precision, as but for `strict` any value in a register has.

    Where several products have factors that are computed from the same products, as those of a
    gradient, each is a stream that computes its factor again, if then nobody stores any.
    """

    name = "mlc-form-streams"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = gpu_of(op, self.name)
        formed = False
        for function in list(op.body.block.ops):
            if not isinstance(function, FuncOp) or not function.body.blocks:
                continue
            if not _again(ctx, op, function, target):
                found = [_form(x, end, target) for x in _products(function) for end in _ends(x)]
                formed = any(found) or formed
        if formed:
            DcePass().apply(ctx, op)


def _products(function: Operation) -> list[ContractOp]:
    """All, in order."""
    return [x for x in outside_kernels(function) if isinstance(x, ContractOp)]


def _again(ctx: Context, module: ModuleOp, function: FuncOp, target: GpuTarget) -> bool:
    """
    Forms streams that compute again what others compute too, if nobody needs it otherwise: tries it
    on a function of its own.
    """
    lasts = [k for k, x in enumerate(_products(function)) if _is_last(x)]
    if len(lasts) < 2:
        return False
    tried = function.clone()
    alone = ModuleOp([tried], attributes=dict(module.attributes))
    products = _products(tried)
    rows, used = Rows(), set[Operation]()
    for last in (products[k] for k in lasts):
        ends = _ends(last)
        found = next(filter(None, (_form(last, x, target, shared=True) for x in ends)), None)
        found = found or _form_again(last, rows, target)
        used |= found or set()
    if not used:
        return False
    DcePass().apply(ctx, alone)
    CsePass().apply(ctx, alone)  # views of what several streams read
    if used & set[Operation](_products(tried)) or not _has_programs(tried, target):
        return False
    tried.detach()
    module.body.block.insert_op_before(tried, function)
    function.detach()
    function.erase()
    return True


def _has_programs(function: FuncOp, target: GpuTarget) -> bool:
    """Whether each stream has a program, alone or beside the one that reads as much and more."""
    streams = [x for x in outside_kernels(function) if isinstance(x, StreamOp)]
    whole = [x for x in streams if _words([x], target)]
    rest = [x for x in streams if x not in whole]
    return all(any(_words([x, y], target) for y in whole) for x in rest)


def _words(streams: list[StreamOp], target: GpuTarget) -> Words:
    try:
        return choose_words(StreamBlock.of(streams), target)
    except MlcError:
        return ()


def _is_last(op: ContractOp) -> bool:
    """Whether a factor is computed from products that have more elements."""
    return not is_strict(op) and not expands(op) and wide_operand(op) is not None


def _form_again(last: ContractOp, rows: Rows, target: GpuTarget) -> set[Operation] | None:
    """A stream that computes a factor again takes the place of a product, if that may be."""
    number = wide_operand(last)
    assert number is not None
    region = Factored(last, number, rows)
    turns: list[TransposeOp] = []
    end: TensorOp = last
    while len(uses := list(end.results[0].uses)) == 1:
        user = uses[0].operation
        if isinstance(user, TransposeOp):
            turns.append(user)
        elif not isinstance(user, ReshapeOp) or not user.unit_axes_only():
            break
        end = user
    try:
        stream = region.stream(turns)
    except UnsuitedError:
        return None
    return _replaced(last, end, region, stream, target)


def _ends(last: ContractOp) -> list[TensorOp]:
    """A product, or before it what its result is divided by or multiplied with."""
    uses = list(last.result.uses)
    if len(uses) == 1 and isinstance(user := uses[0].operation, DivOp | MulOp):
        return [user, last]
    return [last]


def _form(
    last: ContractOp, end: TensorOp, target: GpuTarget, *, shared: bool = False
) -> set[Operation] | None:
    """A stream takes the place of a product and of what its factor is computed from."""
    if is_strict(last) or last.dtype not in NARROW:
        return None
    ops = _between(last, end, shared=shared)
    if ops is None:
        return None
    region = StreamRegion()
    for product in (op for op in ops if isinstance(op, ContractOp)):
        for number in range(len(product.operands)):
            region.factor(product, number)
    for op in ops:
        if op is last:
            factors = [region.read(x) for x in op.operands]
            region.new[op.results[0]] = region.product(last, factors)
        else:
            region.new[op.results[0]] = region.clone(op)
    stream = region.ends_with(region.as_(region.new[end.results[0]], last.dtype))
    return _replaced(last, end, region, stream, target)


def _replaced(
    last: ContractOp, end: TensorOp, region: StreamRegion, stream: StreamOp, target: GpuTarget
) -> set[Operation] | None:
    """
    Where a target has a program for a stream that takes the place of what ends so; the products
    that it computes.
    """
    words = _words([stream], target)
    (result,) = end.results
    back = ReshapeOp.make(stream.result, declared=tensor_of(result))
    made = [*region.outside, stream, back]
    if not words:
        for op in reversed(made):
            op.erase()
        return None
    block = last.parent
    assert block is not None
    for op in made:
        op.location = last.location
        block.insert_op_before(op, end)
    found = stream.result if stream.result.type == result.type else back.results[0]
    found.name_hint = result.name_hint
    result.replace_all_uses_with(found)
    return {x.owner for x in region.new if isinstance(x.owner, ContractOp) and expands(x.owner)}


def _between(last: ContractOp, end: TensorOp, *, shared: bool) -> list[TensorOp] | None:
    """
    What a factor of a product is computed from, down to one product and to what is stored, in
    order; None where another one reads any of it, unless it may be `shared`, or the factor is
    computed otherwise.
    """
    found: dict[Operation, None] = {last: None, end: None}
    pending = [*_computed(last), *(() if end is last else end.operands)]
    products = 0
    while pending:
        op = pending.pop().owner
        if op in found or not isinstance(op, TensorOp) or op.parent is not last.parent:
            continue
        if isinstance(op, ContractOp):
            products += 1
        elif not _may_join(op):
            continue
        found[op] = None
        pending += op.operands if not isinstance(op, ContractOp) else _turned(op)
        if products > 1 or len(found) > MOST_OPS:
            return None
    if not products:
        return None
    block = last.parent
    assert block is not None
    ops = [op for op in block.ops if op in found and isinstance(op, TensorOp)]
    free = (ConstantOp, IotaOp, BroadcastOp, ReshapeOp, TransposeOp)
    for op in ops:
        elsewhere = any(use.operation not in found for use in op.results[0].uses)
        if op is not end and elsewhere and not shared and _is_dear(op, free):
            return None
    return ops


def _computed(op: ContractOp) -> list[SSAValue]:
    """The factors that are no parts of what is in memory."""
    return [x for number, x in enumerate(op.operands) if part_of(op, number) is None]


def _turned(op: ContractOp) -> list[SSAValue]:
    """The factors that are only turned, or lose an axis of one place."""
    return [x for x in _computed(op) if isinstance(x.owner, TransposeOp | ReshapeOp)]


def _may_join(op: TensorOp) -> bool:
    if isinstance(op, ConstantOp):
        return splat(op.results[0]) is not None
    if isinstance(op, ReshapeOp):
        return op.unit_axes_only()
    return isinstance(op, Elementwise | ReduceOp | BroadcastOp | TransposeOp | IotaOp)


def _is_dear(op: TensorOp, free: tuple[type[TensorOp], ...]) -> bool:
    """Whether nobody but the stream may compute it: masks are computed again."""
    return not isinstance(op, free) and element_dtype(op.results[0]).is_inexact
