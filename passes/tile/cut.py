"""
What words share: where a program's product stands, and how the tile that hangs on it is cut. The
product and all that follows it in its block are one tile; a cut puts them into a loop in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, i32
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from mlc.dialects.dims import Dim, FloorDiv
from mlc.dialects.errors import MlcError
from mlc.dialects.tile.bounds import multiple
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.control import INDEX, BarrierOp, Deal, ForOp, IfOp, Loop
from mlc.dialects.tile.element import MapOp, PositionOp, ReadOp
from mlc.dialects.tile.expression import (
    Condition,
    ConditionsAttr,
    ExpressionsAttr,
    Positions,
    letter,
    letters_in,
    position,
    positions_in,
    renamed,
)
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.memory import LoadOp, StoreOp
from mlc.dialects.tile.over import OverAttr
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import FragType, frag_of
from mlc.dialects.tile.words import Word
from mlc.lazy_dataclass import dataclass

_ACCESSES = ("lhs_at", "rhs_at", "at")


def dot_of(kernel: KernelOp) -> DotOp:
    """The program's product."""
    found = [op for op in kernel.walk() if isinstance(op, DotOp)]
    if len(found) != 1:
        raise MlcError(
            f"tiles: words cut programs with one product; {kernel.sym_name.data} has {len(found)}"
        )
    return found[0]


def tile_of(dot: DotOp) -> list[Operation]:
    """The product, what its sums begin with, and what follows it in its block."""
    found: list[Operation] = []
    if dot.init is not None and isinstance(dot.init.owner, IfOp):
        found.append(dot.init.owner)
    op: Operation | None = dot
    while op is not None and not isinstance(op, YieldOp):
        found.append(op)
        op = op.next_op
    return found


def axes_of(dot: DotOp) -> str:
    """The letters of the product's result."""
    return "".join("".join(axis) for axis in dot.words.result)


def size_of(dot: DotOp, axis: str) -> ExpressionsAttr:
    """The size of the tile along an axis."""
    axes = axes_of(dot)
    if axis in axes:
        return ExpressionsAttr((frag_of(dot.result).dims.data[axes.index(axis)],))
    if axis not in dot.summed:
        known = ", ".join((*axes, *dot.summed))
        raise MlcError(f"tiles: the product has no axis {axis!r}; expected one of {known}")
    return dot.summed[axis]


def left_of(dot: DotOp, axis: str) -> tuple[Dim, SSAValue | None]:
    """How much of the tile is there along an axis: a size, or at most that, and a loop says it."""
    (size, *_) = size_of(dot, axis).data
    if axis in dot.summed:
        if size.constant is not None or not positions_in([size]):
            return size, None
        (number,) = positions_in([size])
        left = dot.positions[number]
        loop = left.owner.parent_op() if isinstance(left.owner, Block) else None
        assert isinstance(loop, ForOp)
        at = next(k for k, x in enumerate(loop.sizes) if x is left)
        return Dim.const(loop.loops[at].step), left
    found = loop_of(dot, axis)
    return size, None if found is None else found[0].sizes[found[1]]


def loop_of(dot: DotOp, axis: str) -> tuple[ForOp, int] | None:
    """The innermost loop that has cut an axis, and which of its axes that is."""
    # a window moves along a summed axis as along its result's
    summed: set[SSAValue] = set() if axis in dot.summed else _along(dot, dot.summed)
    loops = (_loop(x) for x in _along(dot, axis) if x not in summed or _is_stored_at(x))
    return max(filter(None, loops), key=lambda x: _depth(x[0]), default=None)


def _along(dot: DotOp, axes: Iterable[str]) -> set[SSAValue]:
    """The positions that move wherever the tile is read and written as one of these axes does."""
    found: dict[tuple[SSAValue, str], bool] = {}
    for at, values in _accesses(dot):
        for k in positions_in(at):
            for axis in axes:
                key = values[k], axis
                found[key] = found.get(key, True) and _is_along(at, k, axis)
    return {value for (value, _), same in found.items() if same}


@lru_cache(maxsize=4096)
def _is_along(at: tuple[Dim, ...], number: int, axis: str) -> bool:
    """Whether these places move with a position as with the letter of an axis."""
    moved = {f"%{number}": Dim.const(0)}
    along = {f".{axis}": letter(axis) + position(number)}
    return tuple(renamed(renamed(dim, moved), along) for dim in at) == at


def _is_stored_at(value: SSAValue) -> bool:
    """Whether a result is stored at places that a position moves."""
    return any(isinstance(use.operation, StoreOp) for use in value.uses)


def _accesses(dot: DotOp) -> Iterator[tuple[tuple[Dim, ...], Sequence[SSAValue]]]:
    """Where the tile is read and written."""
    yield dot.lhs_at.data, dot.positions
    yield dot.rhs_at.data, dot.positions
    for op in tile_of(dot):
        for inner in op.walk():
            if isinstance(inner, LoadOp | StoreOp):
                yield inner.at.data, inner.positions


def _loop(value: SSAValue) -> tuple[ForOp, int] | None:
    op = value.owner.parent_op() if isinstance(value.owner, Block) else None
    if not isinstance(op, ForOp) or not isinstance(value, BlockArgument):
        return None
    return op, value.index


def _depth(op: Operation) -> int:
    depth, above = 0, op.parent_op()
    while above is not None:
        depth, above = depth + 1, above.parent_op()
    return depth


# Cutting ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """A loop over a tile's parts along one axis."""

    axis: str
    step: int
    deal: Deal | None = None
    drop: bool = False  # whether the axis goes: its parts have one element
    sized: bool = False  # whether the loop says what is left although that is known
    final: bool = False  # whether it says nothing, as nothing cuts the parts again
    once: bool = False  # whether there is a part, of size 0, where there is nothing


def cut(dot: DotOp, by: Cut) -> tuple[ForOp, DotOp]:
    """
    Puts the tile into a loop over its parts along an axis. The parts' size is the step; how much
    of the last one is there the loop says, where that is not known.
    """
    extent, left = left_of(dot, by.axis)
    ops = tile_of(dot)
    sized = left is not None or extent.constant is None or extent.constant % by.step != 0
    sized = (sized or by.sized) and not by.drop and not by.final
    named = Positions()
    bound = ExpressionsAttr((extent if left is None else named.of(left),))
    block = Block(arg_types=[INDEX] * (1 + sized))
    block.args[0].name_hint = by.axis
    if sized:
        block.args[1].name_hint = f"{by.axis}_left"
    parent = dot.parent
    assert parent is not None
    loop = ForOp.of(
        [Loop(bound, by.step, sized)], Region(block), named.values, deal=by.deal, once=by.once
    )
    loop.location = dot.location
    parent.insert_op_before(loop, dot)
    if (
        by.deal is not None
        and by.deal.scope == "dynamic"
        and not isinstance(loop.prev_op, BarrierOp)
    ):
        parent.insert_op_before(BarrierOp.create(), loop)
    for op in ops:
        op.detach()
        block.add_op(op)
    block.add_op(YieldOp.of())
    place = block.args[0]
    if by.axis in dot.summed:
        _set_depth(dot, by.axis, block.args[1] if sized else Dim.const(by.step))
    new = move(dot, ops, by, place)
    return loop, new


def join(outer: ForOp, inner: ForOp, word: Word) -> ForOp:
    """Makes one loop of a dealt one and of the loop that is all of its region."""
    if outer.deal is None or outer.deal.data.unit is not None or outer.inits:
        raise MlcError(f"tiles: {word}: workers share trips of the loop around it already")
    axes = len(outer.loops)
    given = outer.body.block.args
    if any(use.operation is inner for x in given for use in x.uses):
        raise MlcError(f"tiles: {word}: how far it goes depends on the loop around it")
    named = Positions(outer.positions)
    extents = [ExpressionsAttr(named.moved(x.extent.data, inner.positions)) for x in inner.loops]
    loops = [
        *outer.loops,
        *(replace(x, extent=at) for x, at in zip(inner.loops, extents, strict=True)),
    ]
    body = inner.detach_region(0)
    block = body.block
    for k, x in enumerate(given):
        at = k if k < axes else axes + len(inner.loops) + k - axes
        moved = block.insert_arg(x.type, at)
        moved.name_hint = x.name_hint
        x.replace_all_uses_with(moved)
    joined = ForOp.of(loops, body, named.values, deal=outer.deal.data)
    joined.location = outer.location
    parent = outer.parent
    assert parent is not None
    parent.insert_op_before(joined, outer)
    outer.detach()
    outer.erase()
    return joined


def _set_depth(dot: DotOp, axis: str, size: SSAValue | Dim) -> None:
    dim = size if isinstance(size, Dim) else position_in(dot, size)
    over = [(c, ExpressionsAttr((dim,)) if c == axis else x) for c, x in dot.over.data]
    dot.properties["over"] = OverAttr(tuple(over))


def begin_with(dot: DotOp, sums: SSAValue) -> None:
    """Makes a tile what the product's sums begin with."""
    positions = list(dot.positions)
    dot.operands = (dot.lhs, dot.rhs, sums, *positions)
    sizes = DenseArrayBase.from_list(i32, [1, 1, 1, len(positions)])
    dot.properties["operandSegmentSizes"] = sizes


def position_in(op: Operation, value: SSAValue) -> Dim:
    """The expression that is a value, which becomes a position of an op."""
    named = Positions(_positions(op))
    before = len(named.values)
    found = named.of(value)
    if len(named.values) > before:
        op.operands = (*op.operands, value)
        sizes = op.properties.get("operandSegmentSizes")
        if isinstance(sizes, DenseArrayBase):
            *others, last = sizes.get_values()
            op.properties["operandSegmentSizes"] = DenseArrayBase.from_list(
                i32, [*map(int, others), int(last) + 1]
            )
    return found


def _positions(op: Operation) -> Sequence[SSAValue]:
    assert isinstance(op, DotOp | LoadOp | StoreOp | MapOp)
    return op.positions


def move(dot: DotOp, ops: Sequence[Operation], by: Cut, place: SSAValue) -> DotOp:
    """The tile's ops at one part of an axis: subscripts, coordinates and sizes of fragments."""
    number = axes_of(dot).find(by.axis)
    if by.drop and number >= 0:
        letters = dot.letters.data.replace(by.axis, "")
        dot.properties["letters"] = type(dot.letters)(letters)
    move_ops(ops, number, by, place)
    return dot


def move_ops(ops: Sequence[Operation], number: int, by: Cut, place: SSAValue) -> None:
    """Ops on fragments that have an axis as their `number`-th, or below 0 none of them."""
    inside = [x for op in ops for x in op.walk()]
    for op in inside:
        if isinstance(op, DotOp | LoadOp | StoreOp):
            _move_access(op, by, place)
        elif isinstance(op, MapOp) and number >= 0:
            _move_map(op, number, by, place)
    for op in inside if number >= 0 else ():
        for x in list(op.results):
            if isinstance(x.type, FragType):
                Rewriter.replace_value_with_new_type(x, _resized(x.type, number, by))


def _resized(kind: FragType, number: int, by: Cut) -> FragType:
    sizes = list(kind.dims.data)
    sizes[number : number + 1] = [] if by.drop else [Dim.const(by.step)]
    return FragType(type(kind.dims)(tuple(sizes)), kind.element, kind.layout)


def _move_access(op: DotOp | LoadOp | StoreOp, by: Cut, place: SSAValue) -> None:
    for name in _ACCESSES:
        at = op.properties.get(name)
        if not isinstance(at, ExpressionsAttr) or by.axis not in letters_in(at.data):
            continue
        start = position_in(op, place)
        to = {f".{by.axis}": start if by.drop else start + letter(by.axis)}
        moved = tuple(renamed(dim, to) for dim in at.data)
        op.properties[name] = ExpressionsAttr(moved)
    if isinstance(op, StoreOp) and op.where_ is not None and by.axis in letters_in(op.where_.dims):
        start = position_in(op, place)
        to = {f".{by.axis}": start + letter(by.axis)}
        op.properties["where"] = ConditionsAttr(
            tuple(
                Condition(x.relation, renamed(x.left, to), renamed(x.right, to))
                for x in op.where_.data
            )
        )
    if by.drop and not isinstance(op, DotOp) and op.axes is not None:
        op.properties["axes"] = type(op.axes)(op.axes.data.replace(by.axis, ""))


def _move_map(op: MapOp, number: int, by: Cut, place: SSAValue) -> None:
    starts = list(op.starts.data)
    if not starts:
        return
    begin = starts[number].data[0] if starts[number].data else Dim.const(0)
    if not by.drop:
        starts[number] = ExpressionsAttr((begin + position_in(op, place),))
    else:
        argument = op.body.block.args[len(op.inputs) + number]
        named = Positions(op.positions)
        bind(argument, begin + named.of(place), named.values)
        op.body.block.erase_arg(argument)
        del starts[number]
    op.properties["starts"] = ArrayAttr(starts)


def bind(argument: SSAValue, at: Dim, values: Sequence[SSAValue]) -> None:
    """Puts an expression where a region names a coordinate that it will not have."""
    block = argument.owner
    assert isinstance(block, Block)
    if any(not isinstance(use.operation, ReadOp | PositionOp) for use in argument.uses):
        element = PositionOp.of(ExpressionsAttr((position(0),)), [argument])
        first = block.first_op
        assert first is not None
        argument.replace_uses_with_if(
            element.result, lambda use: not isinstance(use.operation, ReadOp | PositionOp)
        )
        block.insert_op_before(element, first)
    for op in {use.operation: None for use in argument.uses}:
        assert isinstance(op, ReadOp | PositionOp)
        named = Positions()
        (moved,) = named.moved((at,), values)
        atoms = {
            f"%{k}": moved if x is argument else named.of(x) for k, x in enumerate(op.positions)
        }
        dims = tuple(renamed(dim, atoms) for dim in op.at.data)
        op.properties["at"] = ExpressionsAttr(dims)
        if isinstance(op, PositionOp):
            op.operands = named.values
            continue
        where = [] if op.where is None else [op.where]
        op.operands = [op.view, *where, *named.values]
        sizes = DenseArrayBase.from_list(i32, [1, len(where), len(named.values)])
        op.properties["operandSegmentSizes"] = sizes


def simplify(op: DotOp, sizes: Mapping[str, int]) -> None:
    """Takes out of quotients what divides, where letters are below these sizes."""
    named = Positions(op.positions)
    for name in _ACCESSES:
        at = op.properties.get(name)
        if isinstance(at, ExpressionsAttr):
            op.properties[name] = ExpressionsAttr(
                tuple(_simplified(dim, named, sizes) for dim in at.data)
            )


def _simplified(dim: Dim, named: Positions, sizes: Mapping[str, int]) -> Dim:
    total = Dim.const(0)
    for monomial, coefficient in dim.terms:
        if len(monomial) == 1 and isinstance(monomial[0], FloorDiv):
            at = monomial[0]
            whole = _whole(at, named, sizes)
            if whole is None:
                total = total + Dim(((monomial, coefficient),))
            elif coefficient % at.divisor == 0:  # of a remainder
                total = total + whole * (coefficient // at.divisor)
            else:
                total = total + whole // at.divisor * coefficient
        else:
            total = total + Dim(((monomial, coefficient),))
    return total


def _whole(at: FloorDiv, named: Positions, sizes: Mapping[str, int]) -> Dim | None:
    """What of a numerator the divisor divides, where the rest is less than it."""
    whole, most = Dim.const(0), 0
    for monomial, coefficient in at.numerator.terms:
        term = Dim(((monomial, coefficient),))
        if multiple(term, named) % at.divisor == 0:
            whole = whole + term
            continue
        atom = monomial[0] if len(monomial) == 1 else ""
        size = sizes.get(atom[1:]) if isinstance(atom, str) else None
        if size is None or coefficient < 0:
            return None
        most += coefficient * (size - 1)
    return whole if most < at.divisor else None
