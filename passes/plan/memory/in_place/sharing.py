"""
Which kernels may write where something lies that they or others read: legality of writing results
over arguments that the caller has given away, and over what a loop carries.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ArrayAttr, LocationAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.analysis.access import kept_pieces, reads_of_pieces, whole_of
from mlc.dialects.analysis.aliases import Aliases, memory_view, root_of, values_from_outside
from mlc.dialects.analysis.in_place import reads_where_it_writes
from mlc.dialects.dims import shape_of
from mlc.dialects.plan import KernelOp, integer
from mlc.dialects.tensor.control import YieldOp, yield_of
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.shape import ConcatOp
from mlc.dialects.tensor.tiles import TileOp, TilesOp
from mlc.passes.cost.model import kernel_cost


def may_keep_the_rest(kernel: KernelOp, number: int) -> bool:
    """
    Whether a concatenation may write its new pieces into an input and leave the others as they
    stand there: what it reads of the input is not what another piece writes. A nest may, where its
    array starts as the input.
    """
    if kernel.is_nest:
        return reads_where_it_writes(kernel, number, 0)
    whole, kept = whole_of(kernel), kept_pieces(kernel, number)
    if not kept or not isinstance(whole, ConcatOp):
        return False
    new = [
        (start, shape_of(piece.type), [x for x in accesses if x.argument == number])
        for k, ((piece, _), (start, accesses)) in enumerate(
            zip(whole.pieces(), reads_of_pieces(kernel, whole), strict=True)
        )
        if k not in kept
    ]
    return all(
        access.is_apart_from(sizes, other, size) or (other == start and access.is_moved_by(start))
        for start, sizes, accesses in new
        for access in accesses
        for other, size, _ in new
    )


def inputs_in(kernel: KernelOp, places: Aliases, group: SSAValue) -> Iterator[int]:
    """The inputs that may lie in a group's memory."""
    for number, value in enumerate(kernel.inputs):
        if places.group(root_of(value)) is group:
            yield number


def is_needed_after(kernel: KernelOp, k: int, places: Aliases, group: SSAValue) -> bool:
    """Whether something else than the k-th result may lie in the group's memory and is read on."""
    return any(
        value is not kernel.outs[k] and places.is_read_after(kernel, value)
        for value in places.members[group]
    )


def may_write(kernel: KernelOp, k: int, places: Aliases, group: SSAValue) -> bool:
    """Whether the k-th result may be written where values of the group lie."""
    return not is_needed_after(kernel, k, places, group) and all(
        reads_where_it_writes(kernel, number, k) for number in inputs_in(kernel, places, group)
    )


def is_replaced(kernel: KernelOp, k: int, number: int, places: Aliases) -> bool:
    """
    Whether the k-th result may be written over an input of its group while others of the group are
    still read: nobody reads it after the kernel, and the kernel only where it writes.
    """
    out, root = kernel.outs[k], root_of(kernel.inputs[number])
    return (
        places.group(root) is places.group(out)
        and not places.is_read_after(kernel, root)
        and kernel.inputs[number].type == out.type
        and [n for n, x in enumerate(kernel.inputs) if root_of(x) is root] == [number]
        and reads_where_it_writes(kernel, number, k)
    )


def may_write_tiles(loop: TilesOp, k: int, places: Aliases, group: SSAValue) -> bool:
    """
    Whether a tile loop may place its k-th result where values of the group lie: from the kernel on
    that makes the tile nobody reads them, and until then the trip reads of them that tile alone.
    """
    maker = _maker(loop, k)
    if maker is None or k in loop.meeting or not isinstance(loop.parent_op(), FuncOp):
        return False
    after = loop.next_op
    while after is not None:
        read = (*after.operands, *values_from_outside(after))
        if any(places.group(x) is group for x in read):
            return False
        after = after.next_op
    if any(places.group(x) is group for x in loop.operands):
        return False
    is_late = False
    for op in loop.body.block.ops:
        for inner in op.walk() if not isinstance(op, KernelOp) else (op,):
            if memory_view(inner) is not None or isinstance(inner.parent_op(), KernelOp):
                continue
            for x in inner.operands:
                if places.group(x) is group and (is_late or not _is_of_tile(x, loop, k)):
                    return False
        is_late = is_late or op is maker
    return all(reads_where_it_writes(maker, n) for n in inputs_in(maker, places, group))


def share_tiles(loop: TilesOp, k: int, places: Aliases, group: SSAValue) -> None:
    """States that the k-th result's tiles lie where the loop's inputs of the group do."""
    if (maker := _maker(loop, k)) is not None:
        share(
            maker,
            list[SSAValue](maker.outs).index(yield_of(loop.body.block).values[k]),
            places,
            group,
        )


def _maker(loop: TilesOp, k: int) -> KernelOp | None:
    """The kernel that makes the tiles of the k-th result."""
    maker = yield_of(loop.body.block).values[k].owner
    return maker if isinstance(maker, KernelOp) and maker.parent is loop.body.block else None


def _is_of_tile(value: SSAValue, loop: TilesOp, k: int) -> bool:
    """Whether a view looks at no more than the part where the trip places its k-th result."""
    view: TensorOp | None = None
    while (behind := memory_view(value.owner)) is not None:
        view, value = behind, behind.operands[0]
    return (
        isinstance(view, TileOp)
        and view.x.type == loop.results[k].type
        and view.result.type == loop.tile_type(k)
        and view.along == loop.axes[k]
        and list(view.positions) == list(loop.positions)
    )


def share(kernel: KernelOp, k: int, places: Aliases, group: SSAValue) -> None:
    """States that the k-th result lies where inputs of the group do."""
    number = next(inputs_in(kernel, places, group), None)
    if number is not None:
        write_over(kernel, k, number)


def write_over(kernel: KernelOp, k: int, number: int) -> None:
    """States that the k-th result may lie where an input does."""
    shared = [*kernel.shared_inputs]
    shared[k] = number
    kernel.properties["over"] = ArrayAttr([integer(n) for n in shared])


def copied(value: SSAValue, location: LocationAttr) -> KernelOp:
    """A kernel that copies a value, with its cost; it stands nowhere yet."""
    block = Block(arg_types=[value.type])
    block.add_op(YieldOp.create(operands=[block.args[0]]))
    kernel = KernelOp("copy", [value], [value.type], Region(block))
    kernel.location = location
    kernel.properties["cost"] = kernel_cost(kernel)
    return kernel
