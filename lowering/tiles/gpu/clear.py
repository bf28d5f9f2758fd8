"""A kernel that writes zeros, for scratch in which blocks of the next one count."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, FunctionType, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Block, Region

from mlc.dialects import gpu, par
from mlc.dialects.dtypes import dtype_of
from mlc.lowering.gpu.builder import GpuBuilder
from mlc.lowering.loops.builder import buffer_type
from mlc.lowering.loops.function import NOALIAS, NOTHING, Kernel, Scratch, Strides

CLEARING_THREADS = 256
"""Of a block, each of which writes one element."""


def clearing(name: str, scratch: Scratch) -> Kernel:
    """The function; a number of elements that is known."""
    count = scratch.count.constant
    assert count is not None
    kinds: list[Attribute] = [par.CONTEXT, buffer_type(scratch.element, (count,))]
    block = Block(arg_types=kinds)
    b = GpuBuilder(block)
    place = b.add(b.mul(b.block_number(), CLEARING_THREADS), b.thread())

    def write() -> None:
        b.store(b.element(0, dtype_of(scratch.element), 1), block.args[1], [place])

    b.when(b.compare("lt", place, count), write)
    b.add_op(func.ReturnOp.create())
    function = func.FuncOp.create(
        properties={
            "sym_name": StringAttr(name),
            "function_type": FunctionType.from_lists(kinds, []),
            "arg_attrs": ArrayAttr([NOTHING, NOALIAS]),
        },
        regions=[Region(block)],
    )
    function.attributes[gpu.KERNEL_ATTRIBUTE] = IntegerAttr(CLEARING_THREADS, i64)
    return Kernel(name, function, (), Strides(), (), (), (), False)
