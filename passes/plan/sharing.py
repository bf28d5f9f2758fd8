"""
Which kernels may write where something lies that they or others read: legality of writing results
over arguments that the caller has given away, and over what a loop carries.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.nest import Access, nest_of
from mlc.dialects.places import Places, root_of
from mlc.dialects.plan import KernelOp, integer


def reads_where_it_writes(kernel: KernelOp, number: int) -> bool:
    """
    Whether a kernel reads an input only at the element of the results that it is about to write:
    never at another one, never while it sums, never twice.
    """
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


def inputs_in(kernel: KernelOp, places: Places, group: SSAValue) -> Iterator[int]:
    """The inputs that may lie in a group's memory."""
    for number, value in enumerate(kernel.inputs):
        if places.group(root_of(value)) is group:
            yield number


def is_needed_after(kernel: KernelOp, k: int, places: Places, group: SSAValue) -> bool:
    """Whether something else than the k-th result may lie in the group's memory and is read on."""
    return any(
        value is not kernel.outs[k] and places.group(value) is group
        for value in places.after[kernel]
    )


def may_write(kernel: KernelOp, k: int, places: Places, group: SSAValue) -> bool:
    """Whether the k-th result may be written where values of the group lie."""
    return not is_needed_after(kernel, k, places, group) and all(
        reads_where_it_writes(kernel, number) for number in inputs_in(kernel, places, group)
    )


def share(kernel: KernelOp, k: int, places: Places, group: SSAValue) -> None:
    """States that the k-th result lies where inputs of the group do."""
    number = next(inputs_in(kernel, places, group), None)
    if number is not None:
        shared = [*kernel.shared_inputs]
        shared[k] = number
        kernel.properties["over"] = ArrayAttr([integer(n) for n in shared])
