"""Where a kernel reads its inputs: at the element that it is about to write, or elsewhere too."""

from __future__ import annotations

from mlc.dialects.analysis.access import Access, nest_of, reads_of_pieces, whole_of
from mlc.dialects.analysis.nests import loop_of
from mlc.dialects.dims import Dim
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.shape import ConcatOp


def reads_where_it_writes(kernel: KernelOp, number: int, k: int | None = None) -> bool:
    """
    Whether a kernel reads an input only at the element of the results that it is about to write:
    never at another one, never while it sums, never twice. A nest: if nothing but its k-th result
    starts as that input, which it reads nowhere else.
    """
    if kernel.is_nest:
        argument, loop = kernel.block.args[number], loop_of(kernel.block)
        uses = [(use.operation, use.index) for use in argument.uses]
        first = len(loop.operands) - len(loop.starts) if loop is not None else 0
        return k is not None and uses == [(loop, first + k)]
    whole = whole_of(kernel)
    if isinstance(whole, ConcatOp) and len(kernel.outs) == 1:
        return all(
            access.argument != number or (access.shape == whole.shape and access.is_moved_by(start))
            for start, accesses in reads_of_pieces(kernel, whole)
            for access in accesses
        )
    nest = nest_of(kernel)
    if nest is None:
        return False
    accesses = [access for access in nest.accesses if access.argument == number]
    if nest.reduction is not None and not all(access.per_result for access in accesses):
        return False
    return all(_is_same_element(access, nest.sizes[: nest.rank]) for access in accesses)


def _is_same_element(access: Access, shape: tuple[Dim, ...]) -> bool:
    return access.shape == shape and all(
        size == Dim.const(1) or position.is_axis == axis
        for axis, (position, size) in enumerate(zip(access.point, shape, strict=True))
    )
