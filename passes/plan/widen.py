"""Values of 16 bits that stay in a kernel are f32 there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.views import is_view
from mlc.dialects.dims import shape_of, tensor_type
from mlc.dialects.dtypes import BF16, F16, F32, DType
from mlc.dialects.numerics import is_strict
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.bitwise import BitcastOp
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp
from mlc.dialects.tensor.control import ControlOp, YieldOp
from mlc.dialects.tensor.create import ConstantOp, full
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import OpBuilder, Tensor, TensorOp, element_dtype, tensor_of
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.rounding import (
    IsfiniteOp,
    IsinfOp,
    IsnanOp,
    NextafterOp,
    SignbitOp,
)
from mlc.dialects.tensor.terms import TERMS
from mlc.passes.tensor.constants import splat

NARROW = (BF16, F16)
OF_BITS = (BitcastOp, NextafterOp, IsfiniteOp, IsinfOp, IsnanOp, SignbitOp, *TERMS)
"""What they say of a value depends on its dtype: they read it rounded."""


class WidenPass(ModulePass):
    """
    kernel (a, b: bf16) { bf16 c = a @ b; bf16 d = c + 1; bf16 e = tanh d; e }
    ->  kernel (a, b: bf16) { f32 c = f32 a @ f32 b; f32 d = c + 1; f32 e = tanh d; bf16 e }

    Excess precision: a value of 16 bits that never leaves its kernel is not rounded, unless
    numerics are strict. What a conversion of the program rounds stays rounded, so does what is
    stored, for those too that read it in the kernel. Factors have the dtype that their product
    multiplies.
    """

    name = "mlc-widen"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp) and not is_strict(kernel) and _is_plain(kernel):
                for block in list(_blocks(kernel.block)):
                    if any(_stays(x.results[0]) for x in _computing(block)):
                        _Widened(block).write()


def _is_plain(kernel: KernelOp) -> bool:
    """Whether a kernel holds ops on values alone: what programs of blocks hold is f32 there."""
    return kernel.template.data != "rows" and all(
        isinstance(op, ControlOp | YieldOp)
        or (isinstance(op, TensorOp) and len(op.results) == 1 and not op.regions)
        for op in kernel.block.walk()
    )


def _blocks(block: Block) -> Iterator[Block]:
    """A block, and those of the loops and branches in it."""
    yield block
    for op in block.ops:
        if isinstance(op, ControlOp):
            for inner in op.blocks:
                yield from _blocks(inner)


def computes(op: Operation) -> bool:
    """Whether an op's results of 16 bits are rounded for its dtype alone."""
    known = isinstance(op, Elementwise | ReduceOp | ContractOp)
    return known and not isinstance(op, (ConvertOp, *OF_BITS)) and not _tells_infinities(op)


def _tells_infinities(op: Operation) -> bool:
    """Whether an op compares with infinity, as `isfinite` and `isinf` do: rounding may make it."""
    if not isinstance(op, CompareOp) or not any(map(_is_narrow, op.operands)):
        return False
    return any((x := splat(operand)) is not None and np.isinf(x) for operand in op.operands)


def _computing(block: Block) -> list[TensorOp]:
    """The ops whose results are rounded."""
    return [x for x in block.ops if isinstance(x, TensorOp) and computes(x)]


def _stays(value: SSAValue) -> bool:
    """Whether a narrow value is read in its block, and not handed on."""
    users = [use.operation for use in value.uses]
    return _is_narrow(value) and bool(users) and not any(isinstance(x, YieldOp) for x in users)


def _is_narrow(value: SSAValue) -> bool:
    return element_dtype(value) in NARROW


class _Widened:
    """One block of a kernel, whose ops are written anew in front of those that there are."""

    here: Operation

    def __init__(self, block: Block) -> None:
        self.block = block
        self.wide: dict[SSAValue, SSAValue] = {}  # f32 of a narrow value of the block before
        self.same: dict[SSAValue, SSAValue] = {}  # what takes the place of one, in its own dtype

    def write(self) -> None:
        """Ops in f32, and nothing that they make idle."""
        idle = {op for op in self.block.ops if not any(x.uses for x in op.results)}  # before, too
        computed = set[Operation](_computing(self.block))
        for op in list(self.block.ops):
            self.here = op
            moves = is_view(op) and any(x in self.wide for x in op.operands)
            if isinstance(op, TensorOp) and (op in computed or moves):
                self._op(op)
            elif isinstance(op, ConvertOp) and op.operands[0] in self.wide:
                self._converted(op)
            else:
                for reader in op.walk():
                    reader.operands = [self.exact(x) for x in reader.operands]
        for op in reversed(list(self.block.ops)):
            if op not in idle and not any(x.uses for x in op.results):
                op.detach()
                op.erase()

    def _op(self, op: TensorOp) -> None:
        (result,) = op.results
        narrow = _is_narrow(result)
        if not narrow and not any(x in self.wide or x in self.same for x in op.operands):
            return
        kind = _as(result, F32) if narrow else result.type
        if isinstance(op, ContractOp):
            operands = [self.widened(self.exact(x)) for x in op.operands]
        else:
            operands = [self.widened(x) for x in op.operands]
        found = self._put(op.on(operands, kind))
        if not narrow:
            self.same[result] = found
            return
        self.wide[result] = found
        if any(isinstance(use.operation, YieldOp) for use in result.uses):
            self.wide[result] = self.widened(self.exact(result))  # as it is stored

    def _converted(self, op: ConvertOp) -> None:
        """A conversion of the program: what it rounds is rounded."""
        (result,), source = op.results, self.wide[op.operands[0]]
        if result.type == source.type:
            self.same[result] = source
        else:
            self.same[result] = self._put(ConvertOp.make(source, declared=tensor_of(result)))

    def widened(self, x: SSAValue) -> SSAValue:
        """A value that is read, in f32 where it is narrower."""
        if x in self.wide:
            return self.wide[x]
        x = self.same.get(x, x)
        if not _is_narrow(x):
            return x
        if x not in self.wide:
            number = splat(x) if isinstance(x.owner, ConstantOp) else None
            if number is not None:
                self.wide[x] = full(OpBuilder(self._add), number.item(), F32, shape_of(x.type))
            else:
                self.wide[x] = self._put(ConvertOp.make(x, declared=_as(x, F32)))
        return self.wide[x]

    def exact(self, x: SSAValue) -> SSAValue:
        """A value that is read, in the dtype that it had."""
        if x not in self.same and x in self.wide and not self._is_given(x):
            self.same[x] = self._put(ConvertOp.make(self.wide[x], declared=tensor_of(x)))
        return self.same.get(x, x)

    def _is_given(self, x: SSAValue) -> bool:
        """Whether f32 was made of it, not it of f32."""
        wide = self.wide[x].owner
        return isinstance(wide, ConstantOp) or (
            isinstance(wide, ConvertOp) and wide.operands[0] is x
        )

    def _put(self, op: TensorOp) -> SSAValue:
        return self._add(op).results[0]

    def _add(self, op: Operation) -> Operation:
        assert self.here.parent is not None
        op.location = self.here.location
        self.here.parent.insert_op_before(op, self.here)
        return op


def _as(value: SSAValue, dtype: DType) -> Tensor:
    return tensor_type(dtype.ir, shape_of(value.type))
